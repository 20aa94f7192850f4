/*
 * known: accesses whose exact order can be had as a trace, to hold a recording of them against.
 *
 * Reads single pages of SIZE at a steady rate, OPS of them after filling: by PATTERN log (ranks whose
 * logarithm is uniform, scattered: a skewed load), loop (all pages in turn), or phases (a tenth of the
 * pages at random, another tenth after each tenth of the time). With --trace FILE it accesses nothing
 * and writes the page numbers of the same accesses, the filling first, as 32-bit little endian.
 *
 *   known --size 64M --pattern log --ops 400000 --rate 40000
 *   known --size 64M --pattern log --ops 400000 --trace log.u32le
 */
#include "common.h"
#include <math.h>

static uint64_t size = 64 * MIB, ops = 400000, rate = 40000, seed = 1, write_percent = 0;
static const char *pattern = "log", *trace;

static uint64_t nr_pages;

/* The page of access number `op`. */
static uint64_t page_of(uint64_t op, uint64_t *random)
{
    if (!strcmp(pattern, "loop"))
        return op % nr_pages;
    if (!strcmp(pattern, "phases")) {
        uint64_t share = nr_pages / 10, phase = op * 10 / ops;
        return phase * share + random_below(random, share);
    }
    double unit = (double)(next_random(random) >> 11) * 0x1p-53;
    uint64_t rank = (uint64_t)exp(unit * log((double)nr_pages));
    /* A prime far above any number of pages scatters the hot ones. */
    return (uint64_t)((__uint128_t)rank * 2654435761u % nr_pages);
}

static void write_trace(void)
{
    FILE *file = fopen(trace, "wb");
    if (!file)
        die("known: %s: %s", trace, strerror(errno));
    uint64_t random = seed;
    for (uint64_t n = 0; n < nr_pages + ops; n++) {
        uint32_t page = (uint32_t)(n < nr_pages ? n : page_of(n - nr_pages, &random));
        uint8_t bytes[4] = {(uint8_t)page, (uint8_t)(page >> 8), (uint8_t)(page >> 16),
                            (uint8_t)(page >> 24)};
        if (fwrite(bytes, sizeof bytes, 1, file) != 1)
            die("known: writing %s failed", trace);
    }
    if (fclose(file))
        die("known: writing %s failed", trace);
}

int main(int argc, char **argv)
{
    const struct option_spec options[] = {
        {"size", OPTION_SIZE, &size, "bytes of the region (64M)"},
        {"pattern", OPTION_TEXT, &pattern, "log, loop or phases (log)"},
        {"ops", OPTION_NUMBER, &ops, "accesses after filling (400000)"},
        {"rate", OPTION_NUMBER, &rate, "accesses a second (40000)"},
        {"write-percent", OPTION_NUMBER, &write_percent, "writes among the accesses (0)"},
        {"seed", OPTION_NUMBER, &seed, "of every random number (1)"},
        {"trace", OPTION_TEXT, &trace, "write the accesses to this file instead of doing them"},
    };
    parse_options(argc, argv, options, COUNT_OF(options));
    nr_pages = size / PAGE;
    if (nr_pages < 10 || nr_pages > UINT32_MAX || !rate || !ops)
        die("known: at least 10 pages, and a rate and ops above 0");
    if (strcmp(pattern, "log") && strcmp(pattern, "loop") && strcmp(pattern, "phases"))
        die("known: a pattern is log, loop or phases, not %s", pattern);
    if (trace) {
        write_trace();
        return 0;
    }
    uint8_t *region = map_pages(nr_pages * PAGE);
    for (uint64_t i = 0; i < nr_pages; i++)
        fill_page(region + i * PAGE, i + 1);
    uint64_t random = seed, sum = 0, choice = seed + 1;
    double start = now_s();
    for (uint64_t op = 0; op < ops; op++) {
        volatile uint64_t *word = (volatile uint64_t *)(region + page_of(op, &random) * PAGE);
        if (write_percent && random_below(&choice, 100) < write_percent)
            *word += 1;
        else
            sum += *word;
        double ahead = start + (double)op / (double)rate - now_s();
        if (ahead > 0.001)
            sleep_s(ahead);
    }
    printf("{\"program\":\"known\",\"pages\":%" PRIu64 ",\"ops\":%" PRIu64 ",\"major_faults\":%" PRIu64
           ",\"seconds\":%.3f,\"sum\":%" PRIu64 "}\n",
           nr_pages, ops, major_faults(), now_s() - start, sum & 1);
    return 0;
}
