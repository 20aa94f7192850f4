/*
 * idle: touches its memory once, then does nothing at all.
 *
 *   idle --size 64M --seconds 10       (0 = until killed)
 *   {"program":"idle","bytes":67108864,"pid":123}             when everything is touched
 */
#include "common.h"

int main(int argc, char **argv)
{
    uint64_t size = 16 * MIB;
    double seconds = 0;
    const struct option_spec options[] = {
        {"size", OPTION_SIZE, &size, "bytes to touch (16M)"},
        {"seconds", OPTION_REAL, &seconds, "how long to sleep, 0 = until killed (0)"},
    };
    parse_options(argc, argv, options, COUNT_OF(options));
    uint8_t *region = map_pages(size ? size : PAGE);
    for (uint64_t done = 0; done + PAGE <= size; done += PAGE)
        fill_page(region + done, done + 1);
    printf("{\"program\":\"idle\",\"bytes\":%" PRIu64 ",\"pid\":%d}\n", size, getpid());
    fflush(stdout);
    linger(seconds);
    return 0;
}
