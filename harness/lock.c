#include "lock.h"
#include "process.h"
#include "sysfile.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char variable[] = "ASSAY_LOCKS";

/* ---- files ---- */

static as_status lock_path(const char *uuid, char path[PATH_MAX], as_error *e) {
    const char *folder = getenv("ASSAY_LOCK_DIR");
    const int n = snprintf(path, PATH_MAX, "%s/assay-gpu-%s.lock", folder && *folder ? folder : "/tmp", uuid);
    return n < PATH_MAX ? AS_OK : as_fail(e, AS_EENV, "ASSAY_LOCK_DIR is too long a path; choose a shorter one");
}

/* Opened without O_CREAT first: with fs.protected_regular, O_CREAT on another user's file in a sticky folder fails
 * even for root. A file that is not yet writable for all (its maker sits between open and fchmod) can be locked when
 * open for reading. */
static int open_file(const char *path) {
    const int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    int fd = open(path, O_RDWR | flags);
    if (fd < 0 && errno == ENOENT) {
        fd = open(path, O_RDWR | O_CREAT | O_EXCL | flags, 0666);
        if (fd >= 0)
            (void)!fchmod(fd, 0666); /* whatever the umask: other users must be able to open it */
        else if (errno == EEXIST)
            fd = open(path, O_RDWR | flags);
    }
    return fd < 0 && errno == EACCES ? open(path, O_RDONLY | flags) : fd;
}

static bool is_file_at(int fd, const char *path) {
    struct stat open_one, named;
    return fstat(fd, &open_one) == 0 && lstat(path, &named) == 0 && S_ISREG(open_one.st_mode) &&
           open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
}

/* ---- who holds it: one line in the file, for the message only; flock decides ---- */

/* Field 22 of /proc/PID/stat: with it a later process of the same number is not taken for the holder. 0: no such
 * process. */
static unsigned long long start_ticks(long pid) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    if (!as_sysfile_read("", path, text, sizeof text))
        return 0;
    const char *at = strrchr(text, ')'); /* the name before it may hold anything */
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

static void sign(int fd, int argc, char **argv) {
    char text[512], command[200] = "", since[32];
    size_t used = 0;
    for (int i = 0; i < argc && used < sizeof command - 1; i++)
        used += (size_t)snprintf(command + used, sizeof command - used, "%s%s", i ? " " : "", argv[i]);
    const time_t now = time(NULL);
    struct tm t;
    gmtime_r(&now, &t);
    strftime(since, sizeof since, "%Y-%m-%dT%H:%M:%SZ", &t);
    const int n = snprintf(text, sizeof text, "pid %ld ticks %llu since %s command %s\n", (long)getpid(),
                           start_ticks(getpid()), since, command);
    if (pwrite(fd, text, (size_t)n, 0) == n) /* a full disk costs the name of the holder, not the lock */
        (void)!ftruncate(fd, n);
}

/* Anybody may write the file: what is printed is cut and cleaned. */
static void describe_holder(int fd, char *out, size_t size) {
    char text[512] = "", since[32] = "", command[200] = "";
    long pid = 0;
    unsigned long long ticks = 0;
    const ssize_t n = pread(fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    if (sscanf(text, "pid %ld ticks %llu since %31s command %199[^\n]", &pid, &ticks, since, command) < 3 || pid < 1 ||
        ticks == 0 || start_ticks(pid) != ticks) {
        snprintf(out, size, "a process without a name (of another container, or left by a holder that ended)");
        return;
    }
    snprintf(out, size, "pid %ld since %s: %s", pid, since, command);
    for (char *c = out; *c; c++)
        if (!isprint((unsigned char)*c))
            *c = '?';
}

/* ---- taking ---- */

/* One attempt. *fd is open in any case but failure; *held tells. */
static as_status attempt(const as_lock *k, int *fd, bool *held, as_error *e) {
    char path[PATH_MAX];
    AS_TRY(lock_path(k->uuid, path, e));
    for (;;) {
        if ((*fd = open_file(path)) < 0)
            return as_fail_code(e, AS_EENV, errno,
                                "the lock of %s, %s: %s; remove what stands there, or set ASSAY_LOCK_DIR to a folder "
                                "that all users of this GPU share",
                                k->device, path, strerror(errno));
        struct stat s;
        if (fstat(*fd, &s) != 0 || !S_ISREG(s.st_mode)) {
            close(*fd);
            return as_fail(e, AS_EENV, "the lock of %s, %s, is no regular file; remove it", k->device, path);
        }
        *held = flock(*fd, LOCK_EX | LOCK_NB) == 0;
        if (!*held && errno != EWOULDBLOCK) {
            close(*fd);
            return as_fail_code(e, AS_EENV, errno, "the lock of %s, %s: %s; set ASSAY_LOCK_DIR to a local folder",
                                k->device, path, strerror(errno));
        }
        if (!*held || is_file_at(*fd, path))
            return AS_OK;
        close(*fd); /* a cleaner of /tmp took the file away meanwhile: another run would lock a new one */
    }
}

static as_status take(as_lock *k, int argc, char **argv, int64_t wait_ns, bool *waited, as_error *e) {
    const int64_t deadline = as_now_ns() + wait_ns;
    bool told = false;
    for (;;) {
        bool held;
        int fd;
        char holder[300];
        AS_TRY(attempt(k, &fd, &held, e));
        if (held) {
            k->fd = fd;
            sign(fd, argc, argv);
            return AS_OK;
        }
        describe_holder(fd, holder, sizeof holder);
        close(fd);
        if (as_now_ns() >= deadline)
            return as_fail(e, AS_EENV, "%s (%s) is in use by %s; %s", k->device, k->uuid, holder,
                           wait_ns ? "try again later, or raise --wait" : "wait for it with --wait 10m");
        if (!told)
            fprintf(stderr, "assay: waiting up to %.0f s for %s (%s), in use by %s\n", (double)wait_ns * 1e-9,
                    k->device, k->uuid, holder);
        told = *waited = true;
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
}

/* ---- the list ---- */

/* Room for it in the order of UUIDs; one that is there already is returned. NULL: full. */
static as_lock *insert(as_locks *l, const char *uuid, const char *device) {
    int at = 0;
    while (at < l->count && strcmp(l->lock[at].uuid, uuid) < 0)
        at++;
    if (at < l->count && strcmp(l->lock[at].uuid, uuid) == 0)
        return &l->lock[at];
    if (l->count == AS_MAX_DEVICES)
        return NULL;
    memmove(&l->lock[at + 1], &l->lock[at], sizeof *l->lock * (size_t)(l->count - at));
    l->count++;
    l->lock[at] = (as_lock){.fd = -1};
    snprintf(l->lock[at].uuid, AS_UUID_BYTES, "%s", uuid);
    snprintf(l->lock[at].device, sizeof l->lock[at].device, "%s", device);
    return &l->lock[at];
}

static bool is_uuid(const char *text) {
    const size_t n = strlen(text);
    return n > 0 && n < AS_UUID_BYTES &&
           strspn(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-") == n;
}

as_status as_locks_want(as_locks *l, const json_t *description, as_error *e) {
    const char *uuid = json_string_value(json_object_get(description, "uuid")),
               *name = json_string_value(json_object_get(description, "name"));
    if (!uuid)
        return AS_OK;
    if (!is_uuid(uuid) || !insert(l, uuid, name ? name : "device"))
        return as_fail(e, AS_EENV, "%s has the uuid '%.80s', which cannot be locked; take other devices with --device",
                       name ? name : "a device", uuid);
    return AS_OK;
}

/* A descriptor is proof if it is the lock's own file and its open file description holds the lock. */
static as_status adopt(as_locks *l, const char *uuid, int fd, as_error *e) {
    char path[PATH_MAX];
    AS_TRY(lock_path(uuid, path, e));
    if (!is_file_at(fd, path))
        return as_fail(e, AS_EENV, "%s: descriptor %d is not %s; start the command through `assay lock -- COMMAND`",
                       variable, fd, path);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return as_fail(e, AS_EENV,
                       "%s: descriptor %d does not hold the lock of %s; start the command through `assay "
                       "lock -- COMMAND`",
                       variable, fd, uuid);
    as_lock *k = insert(l, uuid, "device");
    if (!k)
        return as_fail(e, AS_EUSAGE, "%s names more than %d devices", variable, AS_MAX_DEVICES);
    fcntl(fd, F_SETFD, FD_CLOEXEC); /* a program that a case leaves behind must not keep the GPU */
    k->fd = fd;
    k->inherited = true;
    return AS_OK;
}

static as_status inherit(as_locks *l, as_error *e) {
    const char *value = getenv(variable);
    char *text = value ? strdup(value) : NULL, *save = NULL;
    as_status s = value && !text ? as_fail(e, AS_ENOMEM, "out of memory") : AS_OK;
    for (char *word = text ? strtok_r(text, ",", &save) : NULL; word && s == AS_OK; word = strtok_r(NULL, ",", &save)) {
        char *colon = strchr(word, ':');
        int64_t fd = -1;
        if (colon)
            *colon = '\0';
        if (!colon || !is_uuid(word) || as_parse_int(colon + 1, 0, INT_MAX, &fd, NULL) != AS_OK)
            s = as_fail(e, AS_EUSAGE, "%s=%.80s: malformed; it is set by `assay lock -- COMMAND` only", variable,
                        value);
        else
            s = adopt(l, word, (int)fd, e);
    }
    free(text);
    unsetenv(variable); /* descendants do not get the descriptors */
    return s;
}

as_status as_locks_take(as_locks *l, int argc, char **argv, int64_t wait_ns, bool *waited, as_error *e) {
    *waited = false;
    AS_TRY(inherit(l, e));
    for (int i = 0; i < l->count; i++)
        if (l->lock[i].fd < 0)
            AS_TRY(take(&l->lock[i], argc, argv, wait_ns, waited, e));
    return AS_OK;
}

as_status as_locks_hand_down(const as_locks *l, as_error *e) {
    char text[AS_MAX_DEVICES * (AS_UUID_BYTES + 12)] = "";
    size_t used = 0;
    for (int i = 0; i < l->count; i++) {
        fcntl(l->lock[i].fd, F_SETFD, 0);
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s%s:%d", i ? "," : "", l->lock[i].uuid, l->lock[i].fd);
    }
    if (l->count > 0 && setenv(variable, text, 1) != 0)
        return as_fail(e, AS_ENOMEM, "out of memory");
    return AS_OK;
}

void as_locks_free(as_locks *l) {
    for (int i = 0; i < l->count; i++)
        if (l->lock[i].fd >= 0) {
            if (!l->lock[i].inherited)
                (void)!ftruncate(l->lock[i].fd, 0); /* no name of a holder that has gone */
            close(l->lock[i].fd);
        }
    memset(l, 0, sizeof *l);
}
