# One interface target for warnings, linked to every target of this build and exported to none.
add_library(assay_warnings INTERFACE)
target_compile_options(assay_warnings INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:-Wall$<SEMICOLON>-Wextra>
    $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes$<SEMICOLON>-Wstrict-prototypes>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>)
if(ASSAY_WERROR)
    target_compile_options(assay_warnings INTERFACE
        $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>
        $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings$<SEMICOLON>-Xcompiler=-Werror>)
endif()
if(ASSAY_SANITIZE)
    # gcc's own advice: with sanitizers this warning is mostly wrong; the other presets keep it.
    target_compile_options(assay_warnings INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Wno-maybe-uninitialized>)
endif()
link_libraries($<BUILD_INTERFACE:assay_warnings>)
