#include "fake_tree.h"

#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void fake_tree_init(fake_tree *t) {
    const char *tmp = getenv("TMPDIR");
    snprintf(t->root, sizeof t->root, "%s/assay_tree_XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(t->root))
        abort();
}

void fake_tree_write(const fake_tree *t, const char *path, const char *text) {
    char full[PATH_MAX];
    snprintf(full, sizeof full, "%s%s", t->root, path);
    for (char *slash = strchr(full + strlen(t->root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0755);
        *slash = '/';
    }
    FILE *f = fopen(full, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        abort();
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at) {
    (void)st, (void)kind, (void)at;
    return remove(path);
}

void fake_tree_free(fake_tree *t) {
    nftw(t->root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    t->root[0] = '\0';
}
