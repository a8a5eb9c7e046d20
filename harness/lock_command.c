/* `assay lock [--device NAME,...] [--wait TIME] -- COMMAND...`: becomes COMMAND, which holds the locks. */
#include "lock.h"
#include "plan_cases.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void print_help(void) {
    puts("usage: assay lock [--device NAME[,NAME]] [--wait TIME] -- COMMAND [WORD]...\n\n"
         "Takes the lock of each GPU (default: of all that are there) and becomes COMMAND, which holds them until it\n"
         "and what it started have ended. `assay run` under it uses these locks. Refused with exit code 3 while\n"
         "another run holds one; --wait 10m waits for it.");
}

/* The options stand before "--"; of those of `run` only these two make sense here. */
static as_status parse(as_options *o, int argc, char **argv, int *command, bool *help, as_error *e) {
    int end = 2;
    while (end < argc && strcmp(argv[end], "--") != 0)
        end++;
    for (int i = 2; i < end; i++)
        if (argv[i][0] == '-' && strncmp(argv[i], "--device", 8) != 0 && strncmp(argv[i], "--wait", 6) != 0 &&
            strcmp(argv[i], "--help") != 0 && strcmp(argv[i], "-h") != 0)
            return as_fail(e, AS_EUSAGE, "lock knows --device and --wait, not %.60s; the command stands after --",
                           argv[i]);
    AS_TRY(as_options_parse(o, end, argv, help, e));
    *command = end + 1;
    if (!*help && *command >= argc)
        return as_fail(e, AS_EUSAGE, "lock needs a command: assay lock -- COMMAND [WORD]...");
    return AS_OK;
}

static as_status lock_all(as_locks *locks, as_plan *plan, int argc, char **argv, as_error *e) {
    const as_names *names = &plan->options->devices;
    bool waited;
    AS_TRY(as_probe(&plan->machine, plan->registry, e));
    for (int i = 0; i < names->count; i++)
        AS_TRY(as_plan_check_device(plan, names->name[i], e));
    for (int i = 0; i < plan->machine.devices; i++)
        if (as_plan_device_wanted(plan->options, &plan->machine.device[i]))
            AS_TRY(as_locks_want(locks, plan->machine.description[i], e));
    AS_TRY(as_locks_take(locks, argc, argv, plan->options->wait_ns, &waited, e));
    if (locks->count == 0)
        fprintf(stderr, "assay: no device that was asked for has a lock; the command runs without one\n");
    return as_locks_hand_down(locks, e);
}

int as_lock_command(const as_registry *registry, int argc, char **argv) {
    as_error e = {0};
    as_options o = {0};
    as_locks locks = {0};
    bool help = false;
    int command = 0;
    as_status s = parse(&o, argc, argv, &command, &help, &e);
    as_plan plan = {.registry = registry, .options = &o};
    if (s == AS_OK && help) {
        print_help();
        as_options_free(&o);
        return 0;
    }
    if (s == AS_OK)
        s = lock_all(&locks, &plan, argc, argv, &e);
    if (s == AS_OK) {
        signal(SIGXFSZ, SIG_DFL); /* as the command would have it without us */
        fflush(NULL);
        execvp(argv[command], argv + command);
        s = as_fail_code(&e, AS_EENV, errno, "cannot start %.200s: %s", argv[command], strerror(errno));
    }
    fprintf(stderr, "assay: %s\n", e.message);
    as_locks_free(&locks);
    as_machine_free(&plan.machine);
    as_options_free(&o);
    return as_exit_code(s);
}
