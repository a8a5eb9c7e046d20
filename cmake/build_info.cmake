# Script mode: writes OUTPUT, the definition of as_build (harness/build_info.h).
#
# source_hash = sha256 over lines "<sha256 of file>  <path>\n", in byte order of the paths, for each file that can
# change the binary: CMakeLists.txt and, under cmake/, harness/, kernels/ and suites/, each *.c *.h *.cc *.cu *.cuh
# *.cmake *.in and CMakeLists.txt. The same with and without git:
#   (echo CMakeLists.txt; find cmake harness kernels suites ...) | LC_ALL=C sort | xargs sha256sum | sha256sum
#
# The commit comes from git; without git, from $ASSAY_COMMIT (40 hex digits, `-dirty` after them for a changed tree).

set(patterns "")
foreach(room cmake harness kernels suites)
    foreach(kind *.c *.h *.cc *.cu *.cuh *.cmake *.in CMakeLists.txt)
        list(APPEND patterns "${SOURCE_DIR}/${room}/${kind}")
    endforeach()
endforeach()
file(GLOB_RECURSE files LIST_DIRECTORIES false RELATIVE "${SOURCE_DIR}" ${patterns})
list(APPEND files CMakeLists.txt)
list(REMOVE_DUPLICATES files)
list(SORT files COMPARE STRING)
set(lines "")
foreach(path IN LISTS files)
    file(SHA256 "${SOURCE_DIR}/${path}" digest)
    string(APPEND lines "${digest}  ${path}\n")
endforeach()
string(SHA256 source_hash "${lines}")

set(commit "")
set(dirty -1)
execute_process(COMMAND git -C "${SOURCE_DIR}" rev-parse --verify --quiet HEAD
                OUTPUT_VARIABLE head RESULT_VARIABLE rc ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
execute_process(COMMAND git -C "${SOURCE_DIR}" rev-parse --show-toplevel
                OUTPUT_VARIABLE top ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
file(REAL_PATH "${SOURCE_DIR}" here)
# A copy inside somebody else's repository must not take that one's commit.
if(rc EQUAL 0 AND top STREQUAL here)
    set(commit "${head}")
    execute_process(COMMAND git -C "${SOURCE_DIR}" status --porcelain --untracked-files=no
                    OUTPUT_VARIABLE changes RESULT_VARIABLE rc ERROR_QUIET)
    if(rc EQUAL 0)
        string(COMPARE NOTEQUAL "${changes}" "" dirty)
    endif()
elseif("$ENV{ASSAY_COMMIT}" MATCHES "^([0-9a-f]+)(-dirty)?$")
    set(commit "${CMAKE_MATCH_1}")
    string(COMPARE NOTEQUAL "${CMAKE_MATCH_2}" "" dirty)
    string(LENGTH "${commit}" length)
    if(NOT length EQUAL 40)
        message(FATAL_ERROR "ASSAY_COMMIT=$ENV{ASSAY_COMMIT}: give all 40 hex digits, with -dirty for a changed tree")
    endif()
elseif(NOT "$ENV{ASSAY_COMMIT}" STREQUAL "")
    message(FATAL_ERROR "ASSAY_COMMIT=$ENV{ASSAY_COMMIT}: give 40 hex digits, with -dirty for a changed tree")
endif()

set(text "/* Written by cmake/build_info.cmake at each build. */
#include \"build_info.h\"

const as_build_info as_build = {
    .version = \"${VERSION}\",
    .commit = \"${commit}\",
    .dirty = ${dirty},
    .source_hash = \"${source_hash}\",
    .build_type = \"${BUILD_TYPE}\",
    .compiler = \"${COMPILER}\",
    .flags = \"${FLAGS}\",
    .sanitizers = \"${SANITIZERS}\",
    .toolkit = \"${TOOLKIT}\",
};
")
set(old "")
if(EXISTS "${OUTPUT}")
    file(READ "${OUTPUT}" old)
endif()
if(NOT old STREQUAL text)
    file(WRITE "${OUTPUT}" "${text}")
endif()
