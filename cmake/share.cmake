# The command finds its Python package and its schema at <command>/../share/assay, in the build as when installed.
set(share "${CMAKE_BINARY_DIR}/share/assay")
file(MAKE_DIRECTORY "${share}/results")
foreach(folder reports results/schema results/claims results/calibration)
    file(CREATE_LINK "${CMAKE_SOURCE_DIR}/${folder}" "${share}/${folder}" SYMBOLIC)
endforeach()
