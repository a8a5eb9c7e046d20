# Libraries of the harness and the kernels, as imported targets. The build and the installed package
# (assay-config.cmake) read this same file, so a project outside the tree links what the build linked.
#   assay::jansson  assay::hwloc  benchmark::benchmark  Threads::Threads  always
#   assay::openblas  OpenMP::OpenMP_C                                     for the kernels
#   assay::cmocka                                                         for the tests (ASSAY_TESTS)

if(ASSAY_DEPS)
    if(NOT IS_DIRECTORY "${ASSAY_DEPS}")
        message(FATAL_ERROR "ASSAY_DEPS=${ASSAY_DEPS} is no folder; make it with ci/deps DIR")
    endif()
    list(PREPEND CMAKE_PREFIX_PATH "${ASSAY_DEPS}")
endif()

# Imported target assay::<name> from one header and one library; `package` is what a person installs.
function(assay_import name header library package)
    if(TARGET assay::${name})
        return()
    endif()
    string(TOUPPER ${name} upper)
    find_path(ASSAY_${upper}_INCLUDE ${header} PATH_SUFFIXES openblas)
    find_library(ASSAY_${upper}_LIBRARY ${library})
    mark_as_advanced(ASSAY_${upper}_INCLUDE ASSAY_${upper}_LIBRARY)
    if(NOT ASSAY_${upper}_INCLUDE OR NOT ASSAY_${upper}_LIBRARY)
        message(FATAL_ERROR "${name} not found: install ${package} (ci/setup does it), "
                            "or set ASSAY_DEPS to a prefix made by ci/deps")
    endif()
    add_library(assay::${name} UNKNOWN IMPORTED)
    set_target_properties(assay::${name} PROPERTIES
        IMPORTED_LOCATION "${ASSAY_${upper}_LIBRARY}"
        INTERFACE_INCLUDE_DIRECTORIES "${ASSAY_${upper}_INCLUDE}")
endfunction()

assay_import(jansson jansson.h jansson libjansson-dev)
assay_import(hwloc hwloc.h hwloc libhwloc-dev)
assay_import(openblas cblas.h openblas libopenblas-dev)
if(ASSAY_TESTS)
    assay_import(cmocka cmocka.h cmocka libcmocka-dev)
endif()
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS C)
find_package(benchmark REQUIRED)
