/* Attention and the decoder's rungs at ragged shapes: contexts around a tile of 16 and a share of a block, batches on
 * both sides of each kernel's limit, prompts around a tile of 64 and 128, generations. The host's reference is plain
 * loops, so models are small. */
#include "cases.h"

static const char *const attention_shapes[] = {"context=1",
                                               "context=15;batch=3",
                                               "context=16;kv_heads=32",
                                               "context=17;kv_heads=4;head_dim=64",
                                               "context=97;heads=8;kv_heads=1",
                                               "context=1000;head_dim=64;batch=2",
                                               "context=4097",
                                               "context=33;head_dim=48;heads=6;kv_heads=6",
                                               "context=300;type=f32;batch=2",
                                               "phase=prefill;context=1",
                                               "phase=prefill;context=63;heads=4;kv_heads=2",
                                               "phase=prefill;context=64;heads=4;kv_heads=4;head_dim=64",
                                               "phase=prefill;context=129;heads=4;kv_heads=1;batch=2",
                                               "phase=prefill;context=200;heads=4;kv_heads=2;config=q64",
                                               "phase=prefill;context=333;heads=2;kv_heads=1;head_dim=64",
                                               "phase=prefill;context=40;heads=6;kv_heads=3;head_dim=16;type=f32",
                                               NULL};

static void test_attention(void **state) {
    (void)state;
    assert_true(check_all(&as_attention_suite, NULL, attention_shapes) >= 15);
}

static const char *const decoder_shapes[] = {"model=tiny;context=0",
                                             "model=tiny;context=1;batch=2",
                                             "model=tiny;context=16;batch=3;type=f32",
                                             "model=tiny;context=97",
                                             "model=tiny;context=95;type=f32",
                                             "model=tiny;context=511;batch=9",
                                             "model=tiny;context=31;batch=16",
                                             "model=tiny;context=31;batch=17",
                                             "model=tiny;phase=prefill;prompt=1",
                                             "model=tiny;phase=prefill;prompt=37;batch=3",
                                             "model=tiny;phase=prefill;prompt=130;type=f32",
                                             "model=tiny;phase=generate;prompt=5;tokens=9;type=f32",
                                             "model=tiny;phase=generate;prompt=1;tokens=4;batch=3",
                                             "model=llama-15m;context=70",
                                             "model=llama-15m;context=5;batch=4",
                                             "model=llama-15m;phase=prefill;prompt=9;type=f32",
                                             NULL};

static void test_decoder(void **state) {
    (void)state;
    assert_true(check_all(&as_inference_suite, NULL, decoder_shapes) >= 64);
}

/* In f32 the host and every rung choose the same 64 tokens. */
static void test_same_tokens(void **state) {
    (void)state;
    check_all(&as_inference_suite, NULL, (const char *const[]){"model=tiny;phase=generate;prompt=16;type=f32", NULL});
}

int main(void) {
    const int absent = without_device();
    if (absent)
        return absent;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_decoder),
        cmocka_unit_test(test_same_tokens),
    };
    return cmocka_run_group_tests_name("cuda inference", tests, open_device, close_device) != 0;
}
