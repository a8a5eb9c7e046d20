#include "reference_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct header {
    char key[AS_ID_MAX];
    int64_t n_rows, columns;
    uint64_t checksum; /* of rows, expected and scale, in this order */
} header;

static bool path_of(char *path, size_t size, const char *folder, const char *key, const char *suffix) {
    const uint64_t name = as_checksum(key, strlen(key), 0);
    return snprintf(path, size, "%s/%016llx%s", folder, (unsigned long long)name, suffix) < (int)size;
}

static uint64_t checksum(const as_reference_cache *c, size_t values) {
    uint64_t h = as_checksum(c->rows, (size_t)c->n_rows * sizeof *c->rows, 0);
    h = as_checksum(c->expected, values * sizeof *c->expected, h);
    return as_checksum(c->scale, values * sizeof *c->scale, h);
}

static bool read_body(FILE *f, const header *h, as_reference_cache *c) {
    const size_t rows = (size_t)h->n_rows, values = rows * (size_t)h->columns;
    c->rows = malloc(sizeof *c->rows * (rows + 1));
    c->expected = malloc(sizeof *c->expected * (values + 1));
    c->scale = malloc(sizeof *c->scale * (values + 1));
    c->n_rows = h->n_rows;
    return c->rows && c->expected && c->scale && fread(c->rows, sizeof *c->rows, rows, f) == rows &&
           fread(c->expected, sizeof *c->expected, values, f) == values &&
           fread(c->scale, sizeof *c->scale, values, f) == values && checksum(c, values) == h->checksum;
}

bool as_reference_load(as_reference_cache *c, const char *folder, int64_t columns) {
    char path[4096], key[AS_ID_MAX];
    memcpy(key, c->key, sizeof key);
    FILE *f = path_of(path, sizeof path, folder, key, ".ref") ? fopen(path, "re") : NULL;
    if (!f)
        return false;
    header h;
    const bool good = fread(&h, sizeof h, 1, f) == 1 && strncmp(h.key, key, sizeof key) == 0 && h.columns == columns &&
                      h.n_rows >= 0 && read_body(f, &h, c);
    fclose(f);
    if (!good)
        as_reference_cache_free(c);
    memcpy(c->key, key, sizeof key);
    return good;
}

void as_reference_store(const as_reference_cache *c, const char *folder, int64_t columns) {
    char path[4096], temporary[4096];
    if (!path_of(path, sizeof path, folder, c->key, ".ref") ||
        !path_of(temporary, sizeof temporary, folder, c->key, ".tmp"))
        return;
    FILE *f = fopen(temporary, "we");
    if (!f)
        return;
    const size_t rows = (size_t)c->n_rows, values = rows * (size_t)columns;
    header h = {.n_rows = c->n_rows, .columns = columns, .checksum = checksum(c, values)};
    memcpy(h.key, c->key, sizeof h.key);
    bool good = fwrite(&h, sizeof h, 1, f) == 1 && fwrite(c->rows, sizeof *c->rows, rows, f) == rows &&
                fwrite(c->expected, sizeof *c->expected, values, f) == values &&
                fwrite(c->scale, sizeof *c->scale, values, f) == values;
    good = fclose(f) == 0 && good;
    if (!good || rename(temporary, path) != 0)
        unlink(temporary);
}
