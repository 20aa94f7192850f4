/*
 * forker: a parent with many children.
 *
 *   forker --children 200 --seconds 1 --size 1M
 *   {"program":"forker","children":200,"failed":0}            when all have ended
 *
 * Each child touches --size bytes of its own (and --shared bytes inherited from the parent), sleeps
 * --seconds, verifies both and exits. --orphan: the parent exits at once and leaves the children behind.
 * --hold: each child then waits until standard input ends.
 */
#include "common.h"
#include <sys/wait.h>

int main(int argc, char **argv)
{
    uint64_t children = 10, size = 0, shared = 0;
    double seconds = 0.2;
    bool orphan = false, hold = false;
    const struct option_spec options[] = {
        {"children", OPTION_NUMBER, &children, "how many (10)"},
        {"size", OPTION_SIZE, &size, "bytes each child touches for itself (0)"},
        {"shared", OPTION_SIZE, &shared, "bytes the parent fills and every child reads (0)"},
        {"seconds", OPTION_REAL, &seconds, "how long each child sleeps (0.2)"},
        {"orphan", OPTION_FLAG, &orphan, "the parent does not wait"},
        {"hold", OPTION_FLAG, &hold, "each child then waits until standard input ends"},
    };
    parse_options(argc, argv, options, COUNT_OF(options));
    uint8_t *inherited = map_pages(shared ? shared : PAGE);
    for (uint64_t done = 0; done + PAGE <= shared; done += PAGE)
        fill_page(inherited + done, done + 1);
    uint64_t started = 0, failed = 0;
    for (; started < children; started++) {
        pid_t pid = fork();
        if (pid < 0)
            break;
        if (pid == 0) {
            uint8_t *own = map_pages(size ? size : PAGE);
            for (uint64_t done = 0; done + PAGE <= size; done += PAGE)
                fill_page(own + done, done + 1);
            bool is_right = are_filled(inherited, shared);
            sleep_s(seconds);
            for (char byte; hold && read(STDIN_FILENO, &byte, 1) > 0;)
                ;
            _exit(is_right && are_filled(own, size) && are_filled(inherited, shared) ? 0 : 1);
        }
    }
    if (started < children)
        fprintf(stderr, "forker: only %" PRIu64 " children: %s\n", started, strerror(errno));
    for (uint64_t i = 0; i < started && !orphan; i++) {
        int status;
        if (wait(&status) < 0 || status != 0)
            failed++;
    }
    printf("{\"program\":\"forker\",\"children\":%" PRIu64 ",\"failed\":%" PRIu64 "}\n", started, failed);
    return started == children && !failed ? 0 : 1;
}
