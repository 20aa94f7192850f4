/*
 * zipf_trace: the pages that zipf would access, as a trace for `strata sim`.
 *
 * Writes the number of a page for each access of a thread of `zipf` with the same options, four bytes each (the format
 * u32le): the region once in order, as filling it does, then OPS operations. What zipf does by the clock is done by
 * operations here: another set of hot pages every --phase-every operations.
 *
 *   zipf_trace --size 300M --theta 0.99 --ops 8000000 > zipf.u32le
 *   strata sim zipf.u32le --trace-format u32le --via mmap --backing anon --policy two-list --memory 181MiB --steered
 */
#include "common.h"
#include "zipf.h"

static uint64_t size = 64 * MIB, ops = 1000000, seed = 1, number = 0;
static uint64_t scan_pages, scan_every = 100000, phase_every;
static double theta = 0.99;

static void put(uint64_t page)
{
    uint32_t word = (uint32_t)page;
    uint8_t bytes[4] = {word & 0xff, word >> 8 & 0xff, word >> 16 & 0xff, word >> 24};
    if (fwrite(bytes, sizeof bytes, 1, stdout) != 1)
        die("zipf_trace: writing: %s", strerror(errno));
}

int main(int argc, char **argv)
{
    const struct option_spec options[] = {
        {"size", OPTION_SIZE, &size, "bytes of the region (64M)"},
        {"theta", OPTION_REAL, &theta, "exponent of the law, 0 = uniform (0.99)"},
        {"ops", OPTION_NUMBER, &ops, "operations after filling (1000000)"},
        {"seed", OPTION_NUMBER, &seed, "of every random number (1)"},
        {"number", OPTION_NUMBER, &number, "which of the threads (0)"},
        {"scan-pages", OPTION_NUMBER, &scan_pages, "pages of a sequential scan, 0 = none (0)"},
        {"scan-every", OPTION_NUMBER, &scan_every, "operations between scans (100000)"},
        {"phase-every", OPTION_NUMBER, &phase_every, "operations until other pages are hot, 0 = never (0)"},
    };
    parse_options(argc, argv, options, COUNT_OF(options));
    uint64_t nr_pages = size / PAGE;
    if (!nr_pages || nr_pages > UINT32_MAX || !scan_every || theta < 0)
        die("zipf_trace: size and scan-every must be above 0, theta not below, size below 16 TiB");
    struct zipf law = zipf_new(nr_pages, theta);
    uint64_t random = seed * 1000003 + number, scan_at = 0;
    for (uint64_t page = 0; page < nr_pages; page++)
        put(page);
    for (uint64_t op = 0; op < ops; op++) {
        uint64_t moved = phase_every ? op / phase_every * (nr_pages / 3) : 0;
        put((zipf_scattered(&law, &random) + moved) % nr_pages);
        if (scan_pages && (op + 1) % scan_every == 0)
            for (uint64_t p = 0; p < scan_pages; p++, scan_at = (scan_at + 1) % nr_pages)
                put(scan_at);
    }
    if (fflush(stdout))
        die("zipf_trace: writing: %s", strerror(errno));
    return 0;
}
