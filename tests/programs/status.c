/*
 * status: ends in the way it is told to.
 *
 *   status --code 7                    exits with 7
 *   status --signal 11                 dies by that signal
 *   status --oom                       takes memory until something stops it
 *
 * --seconds comes before the end. It also copies stdin to stdout with --echo, and prints its
 * working directory and $STATUS_PROBE with --where: what a wrapper must not change.
 */
#include "common.h"
#include <signal.h>

int main(int argc, char **argv)
{
    uint64_t code = 0, number = 0;
    double seconds = 0;
    bool oom = false, echo = false, where = false;
    const struct option_spec options[] = {
        {"code", OPTION_NUMBER, &code, "exit status (0)"},
        {"signal", OPTION_NUMBER, &number, "die by this signal instead (0 = no)"},
        {"oom", OPTION_FLAG, &oom, "touch memory without end"},
        {"seconds", OPTION_REAL, &seconds, "sleep first (0)"},
        {"echo", OPTION_FLAG, &echo, "copy stdin to stdout"},
        {"where", OPTION_FLAG, &where, "print directory, probe variable, uid and terminal"},
    };
    parse_options(argc, argv, options, COUNT_OF(options));
    if (echo) {
        for (int c = getchar(); c != EOF; c = getchar())
            putchar(c);
    }
    if (where) {
        char directory[4096];
        const char *probe = getenv("STATUS_PROBE");
        printf("{\"program\":\"status\",\"cwd\":\"%s\",\"probe\":\"%s\",\"uid\":%d,\"tty\":%s}\n",
               getcwd(directory, sizeof directory) ? directory : "?", probe ? probe : "", getuid(),
               isatty(0) ? "true" : "false");
    }
    fflush(stdout);
    if (seconds > 0)
        sleep_s(seconds);
    for (uint64_t taken = 0; oom; taken += 16 * MIB) {
        uint8_t *region = map_pages(16 * MIB);
        for (uint64_t done = 0; done < 16 * MIB; done += PAGE) {
            uint64_t random = taken + done;
            for (uint64_t at = 0; at < PAGE; at += 8) /* noise: does not compress */
                *(uint64_t *)(region + done + at) = next_random(&random);
        }
    }
    if (number) {
        struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal((int)number, SIG_DFL);
        raise((int)number);
    }
    return (int)code;
}
