# cmake --install: the command, the libraries with headers, share/assay, and the package for find_package(assay).
# cpack: the same as a relocatable .tar.gz; preset `portable` puts the shared libraries in as well.
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/assay")
set(libraries assay_harness assay_kernels)
if(TARGET assay_cuda)
    list(APPEND libraries assay_cuda)
endif()
foreach(library IN LISTS libraries)
    string(REPLACE "assay_" "" name ${library})
    set_target_properties(${library} PROPERTIES EXPORT_NAME ${name})
endforeach()
install(TARGETS ${libraries} EXPORT assay-targets
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/assay")
install(TARGETS assay_foreign LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/assay")
install(EXPORT assay-targets NAMESPACE assay:: DESTINATION "${package_dir}")
install(DIRECTORY harness/ DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/assay" FILES_MATCHING PATTERN "*.h")

configure_package_config_file(cmake/assay-config.cmake.in "${CMAKE_BINARY_DIR}/assay-config.cmake"
    INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${CMAKE_BINARY_DIR}/assay-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/assay-config.cmake" "${CMAKE_BINARY_DIR}/assay-config-version.cmake"
    cmake/dependencies.cmake DESTINATION "${package_dir}")

install(DIRECTORY reports DESTINATION share/assay PATTERN "__pycache__" EXCLUDE)
foreach(folder schema claims calibration)
    if(IS_DIRECTORY "${CMAKE_SOURCE_DIR}/results/${folder}")
        install(DIRECTORY results/${folder} DESTINATION share/assay/results)
    endif()
endforeach()
install(FILES LICENSE DESTINATION share/assay)

if(ASSAY_PORTABLE)
    # All but the C library and its companions, which must be the target machine's own.
    install(TARGETS assay RUNTIME_DEPENDENCY_SET assay_needs RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
    install(RUNTIME_DEPENDENCY_SET assay_needs
        PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|resolv|util)\\.so" "^libcuda\\.so" "^libnvidia"
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
else()
    install(TARGETS assay RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

set(CPACK_GENERATOR TGZ)
set(CPACK_PACKAGE_NAME assay)
set(CPACK_PACKAGE_FILE_NAME "assay-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR}")
set(CPACK_VERBATIM_VARIABLES ON)
include(CPack)
