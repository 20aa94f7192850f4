/*
 * mapstorm: very many mappings, or mappings that come and go all the time.
 *
 *   mapstorm --mappings 60000 --seconds 5
 *   {"program":"mapstorm","mappings":60000,"pid":123}         when all are there
 *   {"program":"mapstorm","rounds":1234}                      at the end with --churn
 *
 * Neighbours differ in their protection, so that the kernel can't merge them; every mapping is one
 * touched page. --churn: instead of sleeping, maps, touches, moves and unmaps small regions. What was
 * touched is verified; exit 1 if it is not right.
 */
#include "common.h"

static uint64_t churn(double seconds)
{
    uint64_t rounds = 0, random = 1;
    double deadline = now_s() + seconds;
    while (now_s() < deadline) {
        uint64_t bytes = (1 + random_below(&random, 256)) * PAGE;
        uint8_t *at = map_pages(bytes);
        for (uint64_t done = 0; done < bytes; done += PAGE)
            at[done] = 1 + done / PAGE % 255;
        uint8_t *moved = mremap(at, bytes, bytes + PAGE, MREMAP_MAYMOVE);
        if (moved == MAP_FAILED)
            die("mapstorm: mremap failed: %s", strerror(errno));
        for (uint64_t done = 0; done < bytes; done += PAGE)
            if (moved[done] != 1 + done / PAGE % 255)
                exit(1);
        if (mprotect(moved, PAGE, PROT_NONE))
            die("mapstorm: mprotect failed: %s", strerror(errno));
        munmap(moved, bytes + PAGE);
        rounds++;
    }
    return rounds;
}

int main(int argc, char **argv)
{
    uint64_t mappings = 60000;
    double seconds = 1;
    bool churning = false;
    const struct option_spec options[] = {
        {"mappings", OPTION_NUMBER, &mappings, "how many (60000; vm.max_map_count is 65530)"},
        {"seconds", OPTION_REAL, &seconds, "how long to stay (1)"},
        {"churn", OPTION_FLAG, &churning, "map and unmap while staying"},
    };
    parse_options(argc, argv, options, COUNT_OF(options));
    uint8_t *region = map_pages((mappings ? mappings : 1) * PAGE);
    for (uint64_t i = 0; i < mappings; i++) {
        region[i * PAGE] = 1 + i % 255;
        if (i % 2 && mprotect(region + i * PAGE, PAGE, PROT_READ))
            die("mapstorm: mapping %" PRIu64 ": %s", i, strerror(errno));
    }
    printf("{\"program\":\"mapstorm\",\"mappings\":%" PRIu64 ",\"pid\":%d}\n", mappings, getpid());
    fflush(stdout);
    if (churning)
        printf("{\"program\":\"mapstorm\",\"rounds\":%" PRIu64 "}\n", churn(seconds));
    else
        linger(seconds);
    for (uint64_t i = 0; i < mappings; i++)
        if (region[i * PAGE] != 1 + i % 255)
            return 1;
    return 0;
}
