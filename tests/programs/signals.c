/*
 * signals: says which signals arrive.
 *
 *   signals --seconds 10
 *   {"program":"signals","pid":123,"pgid":123}                when it listens
 *   {"signal":"USR1"}                                         one line for each that came
 *
 * Listens to HUP INT QUIT USR1 USR2 CONT WINCH and TERM; TERM ends it with status 0 (with
 * --ignore-term it goes on). STOP and TSTP keep their default effect.
 */
#include "common.h"
#include <signal.h>

int main(int argc, char **argv)
{
    static const struct { int number; const char *name; } known[] = {
        {SIGHUP, "HUP"}, {SIGINT, "INT"}, {SIGQUIT, "QUIT"}, {SIGUSR1, "USR1"}, {SIGUSR2, "USR2"},
        {SIGCONT, "CONT"}, {SIGWINCH, "WINCH"}, {SIGTERM, "TERM"},
    };
    double seconds = 10;
    bool ignore_term = false;
    const struct option_spec options[] = {
        {"seconds", OPTION_REAL, &seconds, "how long to listen (10)"},
        {"ignore-term", OPTION_FLAG, &ignore_term, "report TERM and go on"},
    };
    parse_options(argc, argv, options, COUNT_OF(options));
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < COUNT_OF(known); i++)
        sigaddset(&set, known[i].number);
    sigprocmask(SIG_BLOCK, &set, NULL);
    printf("{\"program\":\"signals\",\"pid\":%d,\"pgid\":%d}\n", getpid(), getpgrp());
    fflush(stdout);
    double deadline = now_s() + seconds;
    for (double left = seconds; left > 0; left = deadline - now_s()) {
        struct timespec wait = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
        int number = sigtimedwait(&set, NULL, &wait);
        for (size_t i = 0; i < COUNT_OF(known) && number > 0; i++)
            if (known[i].number == number)
                printf("{\"signal\":\"%s\"}\n", known[i].name);
        fflush(stdout);
        if (number == SIGTERM && !ignore_term)
            return 0;
    }
    return 0;
}
