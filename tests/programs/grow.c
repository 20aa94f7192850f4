/*
 * grow: allocates and touches memory at a rate up to a size, then keeps it.
 *
 *   grow --size 300M --rate 100M --seconds 5
 *   {"program":"grow","bytes":314572800,"seconds":3.001}      when the size is reached
 *
 * --seconds is how long it stays afterwards (0 = until killed); --rate 0 is as fast as it goes.
 */
#include "common.h"

int main(int argc, char **argv)
{
    uint64_t size = 64 * MIB, rate = 0;
    double seconds = 0;
    const struct option_spec options[] = {
        {"size", OPTION_SIZE, &size, "bytes to reach (64M)"},
        {"rate", OPTION_SIZE, &rate, "bytes a second, 0 = no limit (0)"},
        {"seconds", OPTION_REAL, &seconds, "how long to stay afterwards, 0 = until killed (0)"},
    };
    parse_options(argc, argv, options, COUNT_OF(options));
    uint8_t *region = map_pages(size);
    double start = now_s();
    for (uint64_t done = 0; done + PAGE <= size; done += PAGE) {
        fill_page(region + done, done + 1);
        double ahead = rate ? start + (double)done / (double)rate - now_s() : 0;
        if (ahead > 0.001)
            sleep_s(ahead);
    }
    printf("{\"program\":\"grow\",\"bytes\":%" PRIu64 ",\"seconds\":%.3f}\n", size, now_s() - start);
    fflush(stdout);
    linger(seconds);
    return 0;
}
