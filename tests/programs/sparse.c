/*
 * sparse: a huge mapping with next to nothing in it.
 *
 *   sparse --size 1T --touch 64 --rate 1000 --seconds 5
 *   {"program":"sparse","bytes":1099511627776,"touched":64,"address":"0x7e...","pid":123}
 *
 * The touched pages are spread evenly, so that each lies in a page table of its own. They are verified
 * at the end; exit 1 if they are not right.
 */
#include "common.h"

int main(int argc, char **argv)
{
    uint64_t size = 1ull << 40, touch = 64, rate = 0;
    double seconds = 1;
    const struct option_spec options[] = {
        {"size", OPTION_SIZE, &size, "bytes to map (1T)"},
        {"touch", OPTION_NUMBER, &touch, "pages to touch (64)"},
        {"rate", OPTION_NUMBER, &rate, "pages to touch a second, 0 = as fast as it goes (0)"},
        {"seconds", OPTION_REAL, &seconds, "how long to stay, 0 = until killed (1)"},
    };
    parse_options(argc, argv, options, COUNT_OF(options));
    if (size / PAGE < touch || !touch)
        die("sparse: --touch must lie between 1 and the pages of --size");
    uint8_t *region = map_pages(size);
    uint64_t step = size / touch / PAGE * PAGE;
    for (uint64_t i = 0; i < touch; i++) {
        region[i * step] = 1 + i % 255;
        if (rate && i % 64 == 63)
            linger(64.0 / (double)rate);
    }
    printf("{\"program\":\"sparse\",\"bytes\":%" PRIu64 ",\"touched\":%" PRIu64
           ",\"address\":\"%p\",\"pid\":%d}\n", size, touch, (void *)region, getpid());
    fflush(stdout);
    linger(seconds);
    for (uint64_t i = 0; i < touch; i++)
        if (region[i * step] != 1 + i % 255)
            return 1;
    return 0;
}
