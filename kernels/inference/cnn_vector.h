/* Vector code of the convolutional networks on the host, made for each instruction set from one text
 * (cnn_vector_body.h). All of it works on the calling thread. */
#pragma once

#include "../isa.h"

#include <stdbool.h>
#include <stdint.h>

enum { AS_CNN_MOST_PIXELS = 16, AS_CNN_MOST_WIDTH = 64 };

/* A register tile: some pixels times a panel of `width` channels. in[p] is where the window of pixel p begins; it has
 * `runs` rows of `run` floats, `gap` floats apart. The panel holds [runs * run][width], its bias [width]; both of them
 * scaled, 0 beyond the last channel. */
typedef struct as_cnn_tile {
    const float *in[AS_CNN_MOST_PIXELS];
    float *out[AS_CNN_MOST_PIXELS];
    const float *add[AS_CNN_MOST_PIXELS]; /* add[0] NULL: no shortcut */
    int pixels; /* that are stored: at most those of the table; the others must point to something, too */
    int channels;
    int runs;
    int64_t run, gap;
    const float *panel, *bias;
    bool relu;
} as_cnn_tile;

typedef struct as_cnn_vector {
    int pixels, width; /* of a tile; a tile of half as many pixels, rounded up, takes half the time */
    void (*tile)(const as_cnn_tile *t);
    /* out[c] = the largest, or `factor` times the sum, of a window of side x side pixels, rows `gap` floats apart. */
    void (*largest)(const float *in, int side, int64_t gap, int channels, float *out);
    void (*mean)(const float *in, int side, int64_t gap, int channels, float factor, float *out);
} as_cnn_vector;

const as_cnn_vector *as_cnn_vector_for(as_isa isa);
