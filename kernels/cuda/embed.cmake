# Script mode: writes OUTPUT, C source that holds each file of IMAGES as an array named by NAMES, ended by a 0 byte (PTX
# is text). The driver wants machine code at a multiple of 8 bytes.
set(text "/* Written by embed.cmake from kernels/launch/module.cu. */\n#include \"child.h\"\n")
foreach(image name IN ZIP_LISTS IMAGES NAMES)
    file(READ "${image}" hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(APPEND text "\n_Alignas(16) const unsigned char ${name}[] = {\n${bytes}0};\n")
endforeach()
file(WRITE "${OUTPUT}" "${text}")
