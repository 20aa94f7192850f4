/*
 * execchain: replaces itself, again and again, keeping its pid and losing its address space.
 *
 *   execchain --depth 5 --size 16M --seconds 0.2
 *   {"program":"execchain","depth":5,"pid":123}               once in every link of the chain
 *
 * Each link touches --size bytes, stays --seconds and verifies them before the next; exit 1 if they are
 * not right.
 */
#include "common.h"

int main(int argc, char **argv)
{
    uint64_t depth = 3, size = MIB;
    double seconds = 0.1;
    const struct option_spec options[] = {
        {"depth", OPTION_NUMBER, &depth, "how often it replaces itself (3)"},
        {"size", OPTION_SIZE, &size, "bytes touched in every link (1M)"},
        {"seconds", OPTION_REAL, &seconds, "how long every link stays (0.1)"},
    };
    parse_options(argc, argv, options, COUNT_OF(options));
    uint8_t *region = map_pages(size ? size : PAGE);
    for (uint64_t done = 0; done + PAGE <= size; done += PAGE)
        fill_page(region + done, done + 1);
    printf("{\"program\":\"execchain\",\"depth\":%" PRIu64 ",\"pid\":%d}\n", depth, getpid());
    fflush(stdout);
    sleep_s(seconds);
    if (!are_filled(region, size))
        return 1;
    if (!depth)
        return 0;
    char next_depth[24], next_size[24], next_seconds[32];
    snprintf(next_depth, sizeof next_depth, "%" PRIu64, depth - 1);
    snprintf(next_size, sizeof next_size, "%" PRIu64, size);
    snprintf(next_seconds, sizeof next_seconds, "%.6f", seconds);
    execl("/proc/self/exe", argv[0], "--depth", next_depth, "--size", next_size, "--seconds",
          next_seconds, (char *)NULL);
    die("execchain: exec failed: %s", strerror(errno));
}
