#include "journal.h"
#include "process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <libgen.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define REMEDY "free some space or choose another --out"

static const char schema[] = "assay.journal/2", older[] = "assay.journal/1";

/* Each line ends with what tells that it is whole and in its place: ,"seq":N,"elapsed_ns":M,"xxh64":"<16 digits>"}
 * The checksum is XXH64 (seed 0) of all bytes before its own comma. */
static const char sum_key[] = ",\"xxh64\":\"";
enum { SUM_LENGTH = sizeof sum_key - 1 + 16 + 2 };

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
    char *text = json_dumps(record, JSON_COMPACT), *body = NULL, *line = NULL;
    if (!text)
        return as_fail(e, AS_EFAIL, "a record holds a number that JSON cannot (NaN or infinity)");
    const int length =
        asprintf(&body, "%.*s,\"seq\":%llu,\"elapsed_ns\":%lld", (int)strlen(text) - 1, text,
                 (unsigned long long)j->lines + 1, (long long)(j->spent_ns + as_now_ns() - j->opened_ns));
    free(text);
    const int n = length < 0 ? -1
                             : asprintf(&line, "%s%s%016llx\"}\n", body, sum_key,
                                        (unsigned long long)as_checksum(body, (size_t)length, 0));
    if (length >= 0)
        free(body);
    if (n < 0)
        return as_fail(e, AS_ENOMEM, "out of memory");
    as_status s = write_all(j->fd, line, (size_t)n, j->path, e);
    free(line);
    if (s == AS_OK && fsync(j->fd) != 0)
        return as_fail_code(e, AS_EENV, errno, "%s: cannot sync: %s; " REMEDY, j->path, strerror(errno));
    j->lines++;
    return s;
}

static as_status set_paths(as_journal *j, const char *result_path, as_error *e) {
    *j = (as_journal){.fd = -1, .opened_ns = as_now_ns()};
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
    const size_t length = strlen(result_path);
    if (length > 3 && strcmp(result_path + length - 3, ".gz") == 0)
        return as_fail(e, AS_EUSAGE,
                       "--out %s: a result is written as plain JSON; take a name without .gz, then gzip it",
                       result_path);
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
    as_status s = rc == ENOSPC
                      ? as_fail_code(e, AS_EENV, rc, "--out %s: less than 4 MiB are free there; " REMEDY, result_path)
                      : append(j, header, e);
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

/* The record of a whole line of n bytes; NULL and why where it is not what was written. */
static json_t *read_line(const char *line, size_t n, uint64_t place, char why[100]) {
    char want[20];
    const size_t body = n > SUM_LENGTH + 1 ? n - 1 - SUM_LENGTH : 0;
    if (body == 0 || strncmp(line + body, sum_key, sizeof sum_key - 1) != 0) {
        snprintf(why, 100, "is damaged");
        return NULL;
    }
    snprintf(want, sizeof want, "%016llx", (unsigned long long)as_checksum(line, body, 0));
    if (strncmp(line + body + sizeof sum_key - 1, want, 16) != 0) {
        snprintf(why, 100, "is damaged or was edited: its checksum does not fit");
        return NULL;
    }
    json_t *record = json_loadb(line, n, JSON_REJECT_DUPLICATES, NULL);
    const uint64_t seq = (uint64_t)json_integer_value(json_object_get(record, "seq"));
    if (seq == place)
        return record;
    json_decref(record);
    snprintf(why, 100, "holds record %llu: records are missing or moved", (unsigned long long)seq);
    return NULL;
}

static as_status read_header(FILE *f, const char *path, char **line, size_t *capacity, json_t **header, as_error *e) {
    char why[100];
    const ssize_t n = getline(line, capacity, f);
    *header = n > 0 && (*line)[n - 1] == '\n' ? json_loadb(*line, (size_t)n, 0, NULL) : NULL;
    const char *s = json_string_value(json_object_get(*header, "schema"));
    const bool is_older = s && strcmp(s, older) == 0, is_ours = s && strcmp(s, schema) == 0;
    json_decref(*header);
    *header = NULL;
    if (is_older)
        return as_fail(e, AS_EUSAGE,
                       "--resume: %s was written by an older build; go on with that build, or delete it and run again",
                       path);
    if (!is_ours)
        return as_fail(e, AS_EUSAGE,
                       "--resume: %s is no journal of assay, or its beginning is damaged; delete it and run again",
                       path);
    if ((*header = read_line(*line, (size_t)n, 1, why)))
        return AS_OK;
    return as_fail(e, AS_EUSAGE, "--resume: %s, line 1 %s; delete the journal and run again", path, why);
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

/* A last line without its end was torn by the kill; any other that is not as it was written is refused. */
static as_status replay(FILE *f, as_journal *j, as_run_state *state, char **line, size_t *capacity, off_t *good,
                        as_error *e) {
    ssize_t n;
    while ((n = getline(line, capacity, f)) > 0) {
        char why[100];
        if ((*line)[n - 1] != '\n')
            return AS_OK;
        const uint64_t number = j->lines + 1;
        json_t *record = read_line(*line, (size_t)n, number, why);
        if (!record)
            return as_fail(e, AS_EUSAGE, "--resume: %s, line %llu %s; delete the journal and run again", j->path,
                           (unsigned long long)number, why);
        as_error detail = {0};
        const as_status s = as_run_state_apply(state, record, &detail);
        j->spent_ns = json_integer_value(json_object_get(record, "elapsed_ns"));
        j->lines = number;
        json_decref(record);
        if (s != AS_OK)
            return as_fail(e, s, "--resume: %s, line %llu: %s", j->path, (unsigned long long)number, detail.message);
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
    j->lines = 1;
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
