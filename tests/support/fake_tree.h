/* A directory that stands for the root of /proc and /sys in a test. */
#pragma once

enum { FAKE_TREE_PATH = 128 };

typedef struct fake_tree {
    char root[FAKE_TREE_PATH];
} fake_tree;

void fake_tree_init(fake_tree *t);
/* Writes a file below the root, directories included: fake_tree_write(&t, "/proc/loadavg", "0.1 ..."). */
void fake_tree_write(const fake_tree *t, const char *path, const char *text);
void fake_tree_free(fake_tree *t); /* removes everything below the root */
