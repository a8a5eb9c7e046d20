/* A test binary as the command: starting it, and reading what it leaves. */
#include "fake_suite.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int fake_main(int argc, char **argv) {
    static const char *const commands[] = {"run",  "verify",  "list",     "doctor",   "dmon",
                                           "lock", "__probe", "__worker", "__health", "__sampler"};
    for (size_t i = 0; argc > 1 && i < sizeof commands / sizeof *commands; i++)
        if (strcmp(argv[1], commands[i]) == 0)
            return fake.sampler = strcmp(argv[1], "__sampler") == 0, as_main(argc, argv, &fake_registry);
    return -1;
}

pid_t fake_start(const char *const *words, int output_fd) {
    const char *argv[32] = {"assay"};
    int n = 0;
    while (words[n] && n < 30) {
        argv[n + 1] = words[n];
        n++;
    }
    fflush(NULL);
    const pid_t pid = fork();
    if (pid != 0)
        return pid;
    const int quiet = open("/dev/null", O_RDWR);
    dup2(quiet, STDIN_FILENO);
    dup2(output_fd >= 0 ? output_fd : quiet, STDOUT_FILENO);
    dup2(output_fd >= 0 ? output_fd : quiet, STDERR_FILENO);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    execv("/proc/self/exe", (char *const *)argv);
    _exit(126);
}

int fake_assay(const char *const *words, char **output) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    const pid_t pid = fake_start(words, ends[1]);
    close(ends[1]);
    FILE *in = fdopen(ends[0], "r");
    char *text = NULL;
    size_t capacity = 0;
    if (in && getdelim(&text, &capacity, '\0', in) < 0 && text)
        text[0] = '\0';
    if (in)
        fclose(in);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (output)
        *output = text;
    else
        free(text);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

char *fake_folder(void) {
    const char *base = getenv("TMPDIR");
    char *folder = NULL;
    if (asprintf(&folder, "%s/assay-test-XXXXXX", base ? base : "/tmp") < 0)
        return NULL;
    return mkdtemp(folder);
}

void fake_remove_folder(char *folder) {
    DIR *d = opendir(folder);
    for (struct dirent *entry; d && (entry = readdir(d));)
        unlinkat(dirfd(d), entry->d_name, 0);
    if (d)
        closedir(d);
    rmdir(folder);
    free(folder);
}

json_t *fake_case(const json_t *result, const char *list, const char *id) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(result, list), i, row) if (strcmp(fake_text(row, "id"), id) == 0) return row;
    return NULL;
}

const char *fake_text(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}
