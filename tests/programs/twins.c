/*
 * twins: pages that are all alike but for a few, offered to the kernel for merging (KSM).
 *
 *   twins --size 64M --seconds 3 [--merge]
 *   {"program":"twins","pages":16384,"merged":15000,"bad":0}
 *
 * Every 64th page is written again and again, which ends its sharing; all are verified in every round.
 * "merged" is the kernel's highest count of this process's merged pages (0 where KSM does not run or
 * the kernel does not tell). --merge: goes on for up to a minute until some are.
 */
#include "common.h"

static uint64_t merged_pages(void)
{
    uint64_t pages = 0;
    char line[128];
    FILE *file = fopen("/proc/self/ksm_stat", "r");
    while (file && fgets(line, sizeof line, file))
        sscanf(line, "ksm_merging_pages %" SCNu64, &pages);
    if (file)
        fclose(file);
    return pages;
}

int main(int argc, char **argv)
{
    uint64_t size = 64 * MIB, bad = 0, merged = 0;
    double seconds = 2;
    bool must_merge = false;
    const struct option_spec options[] = {
        {"size", OPTION_SIZE, &size, "bytes of the region (64M)"},
        {"seconds", OPTION_REAL, &seconds, "how long to write and verify (2)"},
        {"merge", OPTION_FLAG, &must_merge, "and until something was merged"},
    };
    parse_options(argc, argv, options, COUNT_OF(options));
    uint64_t pages = size / PAGE, rounds = 0;
    uint8_t *region = map_pages(pages * PAGE);
    for (uint64_t i = 0; i < pages; i++)
        memset(region + i * PAGE, 0x5a, PAGE);
    if (madvise(region, pages * PAGE, MADV_MERGEABLE))
        die("twins: the kernel has no KSM: %s", strerror(errno));
    double deadline = now_s() + seconds;
    do {
        rounds++;
        for (uint64_t i = 0; i < pages; i += 64)
            *(uint64_t *)(region + i * PAGE) = rounds;
        for (uint64_t i = 0; i < pages; i++) {
            const uint64_t *page = (const uint64_t *)(region + i * PAGE);
            bad += page[0] != (i % 64 ? 0x5a5a5a5a5a5a5a5aull : rounds);
            bad += page[1] != 0x5a5a5a5a5a5a5a5aull;
        }
        uint64_t found = merged_pages();
        merged = found > merged ? found : merged;
        sleep_s(0.2);
    } while (now_s() < deadline || (must_merge && !merged && now_s() < deadline + 60));
    printf("{\"program\":\"twins\",\"pages\":%" PRIu64 ",\"merged\":%" PRIu64 ",\"rounds\":%" PRIu64
           ",\"bad\":%" PRIu64 "}\n", pages, merged, rounds, bad);
    return bad ? 1 : 0;
}
