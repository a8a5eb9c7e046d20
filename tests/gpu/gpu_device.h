/* The device and the stream of a test's group, opened once: cmocka_run_group_tests(tests, open_device, close_device). */
#pragma once

#include "gpu_test.h"

#define DRIVER as_cuda_driver

static as_device device;
static as_stream stream;

static int open_device(void **state) {
    (void)state;
    as_error e = {0};
    if (DRIVER.open(0, &device, &e) == AS_OK && DRIVER.stream_create(&device, &stream, &e) == AS_OK)
        return 0;
    fprintf(stderr, "%s\n", e.message);
    return -1;
}

static int close_device(void **state) {
    (void)state;
    DRIVER.stream_destroy(&device, stream);
    DRIVER.close(&device);
    return 0;
}
