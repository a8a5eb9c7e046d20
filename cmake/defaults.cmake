# Language levels, output folders, build type and sanitizers: the same for every target.
include(GNUInstallDirs)

if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, RelWithDebInfo or Debug" FORCE)
endif()

set(CMAKE_C_STANDARD 17)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CUDA_STANDARD 17)
foreach(language C CXX CUDA)
    set(CMAKE_${language}_STANDARD_REQUIRED ON)
    set(CMAKE_${language}_EXTENSIONS OFF)
endforeach()
add_compile_definitions($<$<COMPILE_LANGUAGE:C>:_GNU_SOURCE>)

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# The installed command finds libraries beside it (ASSAY_PORTABLE) or where the build found them.
set(CMAKE_INSTALL_RPATH "\$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
if(ASSAY_PORTABLE)
    # RPATH, not RUNPATH: the libraries beside the command find each other through it too.
    add_link_options(-Wl,--disable-new-dtags)
else()
    set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
endif()

# A program loads only what it uses: OpenBLAS starts threads that spin in every process that merely links it.
add_link_options(LINKER:--as-needed)

if(ASSAY_SANITIZE)
    set(sanitize -fsanitize=${ASSAY_SANITIZE})
    add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:${sanitize}> $<$<COMPILE_LANGUAGE:C,CXX>:-fno-omit-frame-pointer>)
    add_link_options(${sanitize})
    if(ASSAY_SANITIZE MATCHES "undefined")
        # Without this, undefined behaviour only prints a line and the test passes.
        add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fno-sanitize-recover=undefined>)
    endif()
endif()
