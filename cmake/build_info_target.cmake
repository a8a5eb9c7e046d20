# Writes build_info.c at every build (only if it changed) and adds it to the harness.
set(build_info_c "${CMAKE_BINARY_DIR}/generated/build_info.c")
string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type_upper)
string(STRIP "${CMAKE_C_FLAGS} ${CMAKE_C_FLAGS_${build_type_upper}}" c_flags)

add_custom_target(assay_build_info
    COMMAND ${CMAKE_COMMAND}
        "-DSOURCE_DIR=${CMAKE_SOURCE_DIR}"
        "-DOUTPUT=${build_info_c}"
        "-DVERSION=${PROJECT_VERSION}"
        "-DBUILD_TYPE=${CMAKE_BUILD_TYPE}"
        "-DCOMPILER=${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION}"
        "-DFLAGS=${c_flags}"
        "-DSANITIZERS=${ASSAY_SANITIZE}"
        "-DTOOLKIT=${ASSAY_TOOLKIT}"
        -P "${CMAKE_SOURCE_DIR}/cmake/build_info.cmake"
    BYPRODUCTS "${build_info_c}"
    COMMENT "Reading commit and source hash"
    VERBATIM)

target_sources(assay_harness PRIVATE "${build_info_c}")
target_include_directories(assay_harness PRIVATE "${CMAKE_SOURCE_DIR}/harness")
add_dependencies(assay_harness assay_build_info)
