#include "journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define REMEDY "free some space or choose another --out"

static const char schema[] = "assay.journal/1";

static as_status write_all(int fd, const char *text, size_t n, const char *path, as_error *e) {
    for (size_t done = 0; done < n;) {
        const ssize_t k = write(fd, text + done, n - done);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return as_fail_code(e, AS_EENV, errno, "%s: cannot write: %s; " REMEDY, path, strerror(errno));
        done += (size_t)k;
    }
    return AS_OK;
}

static as_status append(as_journal *j, const json_t *record, as_error *e) {
    char *text = json_dumps(record, JSON_COMPACT);
    if (!text)
        return as_fail(e, AS_EFAIL, "a record holds a number that JSON cannot (NaN or infinity)");
    const size_t n = strlen(text);
    text[n] = '\n';
    as_status s = write_all(j->fd, text, n + 1, j->path, e);
    free(text);
    if (s == AS_OK && fsync(j->fd) != 0)
        return as_fail_code(e, AS_EENV, errno, "%s: cannot sync: %s; " REMEDY, j->path, strerror(errno));
    return s;
}

static as_status set_paths(as_journal *j, const char *result_path, as_error *e) {
    *j = (as_journal){.fd = -1};
    if (asprintf(&j->path, "%s.journal", result_path) < 0)
        j->path = NULL;
    j->result_path = strdup(result_path);
    return j->path && j->result_path ? AS_OK : as_fail(e, AS_ENOMEM, "out of memory");
}

static bool is_locked(const char *path) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const bool locked = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0;
    if (fd >= 0)
        close(fd);
    errno = EEXIST;
    return locked;
}

as_status as_journal_create(as_journal *j, const char *result_path, const json_t *header, as_error *e) {
    struct stat st;
    char resolved[PATH_MAX];
    if (lstat(result_path, &st) == 0 && S_ISLNK(st.st_mode)) { /* a rename would replace the link, not its target */
        if (!realpath(result_path, resolved))
            return as_fail_code(e, AS_EENV, errno, "--out %s: the link leads nowhere: %s", result_path,
                                strerror(errno));
        result_path = resolved;
    }
    AS_TRY(set_paths(j, result_path, e));
    if (stat(result_path, &st) == 0 && !S_ISREG(st.st_mode))
        return as_fail(e, AS_EENV, "--out %s: not a regular file; give a file's name", result_path);
    if (access(result_path, F_OK) == 0 && access(result_path, W_OK) != 0)
        return as_fail_code(e, AS_EENV, errno, "--out %s: cannot write: %s", result_path, strerror(errno));
    j->fd = open(j->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (j->fd < 0 && errno == EEXIST && is_locked(j->path))
        return as_fail(e, AS_EUSAGE, "%s: another run is writing it; wait for its end or choose another --out",
                       j->path);
    if (j->fd < 0 && errno == EEXIST)
        return as_fail(e, AS_EUSAGE, "%s: an unfinished run lies here; go on with --resume %s, or delete it", j->path,
                       result_path);
    if (j->fd < 0)
        return as_fail_code(e, AS_EENV, errno, "--out %s: cannot write there: %s", result_path, strerror(errno));
    if (flock(j->fd, LOCK_EX | LOCK_NB) != 0) /* held until this run ends; --resume looks at it */
        return as_fail_code(e, AS_EENV, errno, "%s: cannot be locked: %s", j->path, strerror(errno));
    /* Room for a usual result, found out before the run and given back at once. */
    const off_t room = 4 << 20;
    const int rc = posix_fallocate(j->fd, 0, room);
    if (rc == 0 && ftruncate(j->fd, 0) != 0)
        return as_fail_code(e, AS_EENV, errno, "%s: cannot truncate: %s", j->path, strerror(errno));
    as_status s =
        rc == ENOSPC ? as_fail_code(e, AS_EENV, rc, "--out %s: no space; " REMEDY, result_path) : append(j, header, e);
    if (s != AS_OK)
        unlink(j->path);
    return s;
}

/* ---- reading ---- */

static char *result_of(const char *path) {
    char *copy = strdup(path);
    const size_t n = copy ? strlen(copy) : 0;
    if (n > 8 && strcmp(copy + n - 8, ".journal") == 0)
        copy[n - 8] = '\0';
    return copy;
}

static as_status open_for(as_journal *j, const char *path, FILE **f, as_error *e) {
    char *result = result_of(path);
    as_status s = result ? set_paths(j, result, e) : as_fail(e, AS_ENOMEM, "out of memory");
    free(result);
    AS_TRY(s);
    *f = fopen(j->path, "re");
    if (!*f)
        return as_fail_code(e, AS_EUSAGE, errno, "--resume %s: there is no unfinished run (%s: %s)", path, j->path,
                            strerror(errno));
    return AS_OK;
}

static as_status read_header(FILE *f, const char *path, char **line, size_t *capacity, json_t **header, as_error *e) {
    const ssize_t n = getline(line, capacity, f);
    *header = n > 0 && (*line)[n - 1] == '\n' ? json_loadb(*line, (size_t)n, 0, NULL) : NULL;
    const char *s = json_string_value(json_object_get(*header, "schema"));
    if (s && strcmp(s, schema) == 0)
        return AS_OK;
    json_decref(*header);
    *header = NULL;
    return as_fail(e, AS_EUSAGE,
                   "--resume: %s is no journal of assay, or its beginning is damaged; delete it and run again", path);
}

as_status as_journal_header(const char *path, json_t **header, as_error *e) {
    as_journal j = {.fd = -1};
    FILE *f = NULL;
    char *line = NULL;
    size_t capacity = 0;
    as_status s = open_for(&j, path, &f, e);
    if (s == AS_OK)
        s = read_header(f, j.path, &line, &capacity, header, e);
    if (f)
        fclose(f);
    free(line);
    as_journal_free(&j);
    return s;
}

static as_status replay(FILE *f, const as_journal *j, as_run_state *state, char **line, size_t *capacity, off_t *good,
                        as_error *e) {
    ssize_t n;
    for (int number = 2; (n = getline(line, capacity, f)) > 0; number++) {
        json_t *record = (*line)[n - 1] == '\n' ? json_loadb(*line, (size_t)n, 0, NULL) : NULL;
        if (!record) {
            const int next = getc(f);
            if (next == EOF) /* torn by the kill */
                return AS_OK;
            return as_fail(e, AS_EUSAGE, "--resume: %s, line %d is damaged; delete the journal and run again", j->path,
                           number);
        }
        as_error detail = {0};
        const as_status s = as_run_state_apply(state, record, &detail);
        json_decref(record);
        if (s != AS_OK)
            return as_fail(e, s, "--resume: %s, line %d: %s", j->path, number, detail.message);
        *good = ftello(f);
    }
    return AS_OK;
}

as_status as_journal_resume(as_journal *j, const char *path, as_run_state *state, as_error *e) {
    FILE *f = NULL;
    AS_TRY(open_for(j, path, &f, e));
    char *line = NULL, want[20];
    size_t capacity = 0;
    json_t *header = NULL;
    as_status s = read_header(f, j->path, &line, &capacity, &header, e);
    snprintf(want, sizeof want, "%016llx", (unsigned long long)state->plan->hash);
    const char *have = json_string_value(json_object_get(header, "plan"));
    if (s == AS_OK && (!have || strcmp(have, want) != 0))
        s = as_fail(e, AS_EUSAGE,
                    "--resume: %s belongs to another plan (selection, seed, profile or build differ); resume "
                    "with no other option, or delete it",
                    j->path);
    off_t good = ftello(f);
    if (s == AS_OK)
        s = replay(f, j, state, &line, &capacity, &good, e);
    fclose(f);
    free(line);
    if (s == AS_OK) {
        const char *date = json_string_value(json_object_get(header, "date"));
        state->date = strdup(date ? date : "");
        state->context = json_incref(json_object_get(header, "context"));
        state->resumed++;
        j->fd = open(j->path, O_WRONLY | O_APPEND | O_CLOEXEC);
        if (j->fd >= 0 && flock(j->fd, LOCK_EX | LOCK_NB) != 0)
            s = as_fail(e, AS_EUSAGE, "--resume: %s: another run is writing it; wait for its end", j->path);
        else if (j->fd < 0 || ftruncate(j->fd, good) != 0)
            s = as_fail_code(e, AS_EENV, errno, "%s: cannot write: %s", j->path, strerror(errno));
    }
    json_decref(header);
    return s;
}

/* ---- writing ---- */

as_status as_journal_record(as_journal *j, as_run_state *state, const json_t *record, as_error *e) {
    if (j->fd >= 0)
        AS_TRY(append(j, record, e));
    return as_run_state_apply(state, record, e);
}

void as_journal_share_references(as_journal *j) {
    if (j->fd < 0 || asprintf(&j->references, "%s.references", j->result_path) < 0)
        j->references = NULL;
    if (j->references && mkdir(j->references, 0755) != 0 && errno != EEXIST) {
        free(j->references);
        j->references = NULL;
    }
}

static void remove_references(const as_journal *j) {
    DIR *folder = j->references ? opendir(j->references) : NULL;
    if (!folder)
        return;
    for (struct dirent *entry; (entry = readdir(folder));)
        if (strstr(entry->d_name, ".ref") || strstr(entry->d_name, ".tmp"))
            unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
    rmdir(j->references);
}

/* A rename is on disk when its folder is. */
static void sync_folder(const char *path) {
    char *copy = strdup(path);
    const int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    free(copy);
}

as_status as_journal_finish(as_journal *j, const json_t *document, bool keep, as_error *e) {
    char *temporary = NULL, *text = json_dumps(document, JSON_COMPACT | JSON_REAL_PRECISION(15));
    if (!text)
        return as_fail(e, AS_EFAIL, "the result holds a number that JSON cannot (NaN or infinity)");
    if (asprintf(&temporary, "%s.tmp", j->result_path) < 0) {
        free(text);
        return as_fail(e, AS_ENOMEM, "out of memory");
    }
    const int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    as_status s = fd >= 0 ? AS_OK : as_fail_code(e, AS_EENV, errno, "%s: cannot write: %s", temporary, strerror(errno));
    const size_t n = strlen(text);
    text[n] = '\n';
    if (s == AS_OK)
        s = write_all(fd, text, n + 1, temporary, e);
    if (s == AS_OK && (fsync(fd) != 0 || rename(temporary, j->result_path) != 0))
        s = as_fail_code(e, AS_EENV, errno, "%s: cannot write: %s; " REMEDY, j->result_path, strerror(errno));
    if (fd >= 0)
        close(fd);
    if (s != AS_OK) {
        unlink(temporary);
    } else if (!keep) {
        sync_folder(j->result_path);
        unlink(j->path);
        remove_references(j);
    }
    free(temporary);
    free(text);
    return s;
}

void as_journal_free(as_journal *j) {
    if (j->fd >= 0)
        close(j->fd);
    free(j->path);
    free(j->result_path);
    free(j->references);
    *j = (as_journal){.fd = -1};
}
