/*
 * Uses a known part of its memory in rounds, and says which: what a watcher finds can be held against
 * it.
 *
 *   working_set [--mode steady|growing|phased|receding|random|strided] [--backing anon|huge|private|shared]
 *               [--file FILE] [--size 256M] [--hot 64M] [--every 0.1] [--phase 2] [--rounds N]
 *               [--keep-translations]
 *
 * All of the region is touched once, then there is a round of accesses every so many seconds:
 *   steady    the first pages, by address
 *   random    the same number of pages all over the region, in an order of chance
 *   strided   every n-th page
 *   growing   as steady, but from nothing to the whole region, --hot more every 20 seconds
 *   phased    as steady, but another part of the region every --phase seconds
 *   receding  as phased, but from the last part to the first: not in the order in which memory came
 *
 * The unit is a page of 4 KiB, with `huge` one of 2 MiB (a process without huge pages here says so
 * and ends with status 3). Files are read with MADV_RANDOM, so that a fault brings one page.
 *
 * Output: {"address": A, "size": BYTES, "unit": BYTES} when ready, and a line a round: {"at": seconds
 * (CLOCK_MONOTONIC) at its end, "first": F, "end": E}: units F..E of the mode's own order were used.
 * The same number is the same unit in every round, so that a union of rounds is a union of ranges.
 *
 * Before a round the program forgets its address translations, as whoever maps, unmaps or protects
 * memory does: a processor sets an accessed bit only when it looks a translation up, and those of huge
 * pages all fit into its cache. --keep-translations leaves that out.
 */
#include "common.h"
#include <fcntl.h>

#define HUGE (2u * MIB)
#define GROWTH_S 20.0

static const char *mode = "steady", *backing = "anon", *file = NULL;
static uint64_t size = 256 * MIB, hot = 64 * MIB, nr_rounds = UINT64_MAX;
static double every_s = 0.1, phase_s = 2;
static bool keep_translations = false;

static const char *const modes[] = {"steady", "growing", "phased", "receding", "random", "strided"};
static const char *const backings[] = {"anon", "huge", "private", "shared"};

static bool is(const char *a, const char *b)
{
    return !strcmp(a, b);
}

static void check_one_of(const char *what, const char *word, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is(word, words[i]))
            return;
    die("working_set: no %s called %s", what, word);
}

/* Kilobytes of anonymous huge pages in the process. */
static uint64_t huge_kib(void)
{
    FILE *rollup = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    uint64_t kib = 0;
    while (rollup && fgets(line, sizeof(line), rollup))
        if (sscanf(line, "AnonHugePages: %" SCNu64, &kib) == 1)
            break;
    if (rollup)
        fclose(rollup);
    return kib;
}

static uint8_t *map_file(void)
{
    if (!file)
        die("working_set: --backing %s needs --file", backing);
    int fd = open(file, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        die("working_set: %s: %s", file, strerror(errno));
    uint8_t block[64 * 1024];
    memset(block, 'w', sizeof(block));
    for (uint64_t done = 0; done < size; done += sizeof(block))
        if (write(fd, block, sizeof(block)) != (ssize_t)sizeof(block))
            die("working_set: %s: %s", file, strerror(errno));
    int sharing = is(backing, "shared") ? MAP_SHARED : MAP_PRIVATE;
    uint8_t *at = mmap(NULL, size, PROT_READ, sharing, fd, 0);
    if (at == MAP_FAILED || madvise(at, size, MADV_RANDOM))
        die("working_set: %s: %s", file, strerror(errno));
    close(fd);
    return at;
}

static uint8_t *map_huge(void)
{
    uint8_t *at = mmap(NULL, size + HUGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        die("working_set: mmap: %s", strerror(errno));
    at = (uint8_t *)(((uintptr_t)at + HUGE - 1) / HUGE * HUGE);
    madvise(at, size, MADV_HUGEPAGE);
    return at;
}

static void use(const uint8_t *unit)
{
    (void)*(const volatile uint8_t *)unit;
}

int main(int argc, char **argv)
{
    const struct option_spec options[] = {
        {"mode", OPTION_TEXT, &mode, "steady, growing, phased, receding, random or strided"},
        {"backing", OPTION_TEXT, &backing, "anon, huge, private (file) or shared (file)"},
        {"file", OPTION_TEXT, &file, "the file of a file backing; made and overwritten"},
        {"size", OPTION_SIZE, &size, "the region"},
        {"hot", OPTION_SIZE, &hot, "what a round uses"},
        {"every", OPTION_REAL, &every_s, "seconds from round to round"},
        {"phase", OPTION_REAL, &phase_s, "seconds a phase"},
        {"rounds", OPTION_NUMBER, &nr_rounds, "end after so many"},
        {"keep-translations", OPTION_FLAG, &keep_translations, "see above"},
    };
    parse_options(argc, argv, options, COUNT_OF(options));
    check_one_of("mode", mode, modes, COUNT_OF(modes));
    check_one_of("backing", backing, backings, COUNT_OF(backings));
    const bool is_huge = is(backing, "huge"), is_file = !is_huge && !is(backing, "anon");
    const uint64_t unit = is_huge ? HUGE : PAGE;
    const uint64_t nr_units = size / unit, nr_hot = hot / unit;
    size = nr_units * unit;
    if (nr_hot == 0 || nr_hot > nr_units || every_s <= 0 || phase_s <= 0)
        die("working_set: --hot must be from a unit to --size, times above 0");

    uint8_t *region = is_huge ? map_huge() : is_file ? map_file() : map_pages(size);
    for (uint64_t at = 0; at < size; at += PAGE)
        if (is_file)
            use(region + at);
        else
            region[at] = 1;
    if (is_huge && huge_kib() < size / 1024) {
        fprintf(stderr, "working_set: no huge pages here\n");
        return 3;
    }

    /* Which unit a number of the mode's order is. */
    uint64_t *order = malloc(nr_units * sizeof(*order));
    if (!order)
        die("working_set: no memory");
    const uint64_t stride = is(mode, "strided") ? nr_units / nr_hot : 1;
    for (uint64_t i = 0; i < nr_units; i++)
        order[i] = i;
    for (uint64_t i = 0; stride > 1 && i < nr_hot; i++)
        order[i] = i * stride;
    uint64_t state = 7;
    for (uint64_t i = 0; is(mode, "random") && i < nr_units; i++) {
        const uint64_t other = i + random_below(&state, nr_units - i), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }

    printf("{\"address\": %" PRIu64 ", \"size\": %" PRIu64 ", \"unit\": %" PRIu64 "}\n",
           (uint64_t)(uintptr_t)region, size, unit);
    fflush(stdout);
    const double started = now_s();
    for (uint64_t round = 0; round < nr_rounds; round++) {
        uint64_t first = 0, end = nr_hot;
        if (is(mode, "growing")) {
            const double grown = (double)nr_hot * every_s * (double)(round + 1) / GROWTH_S;
            end = grown < (double)nr_units ? (uint64_t)grown + 1 : nr_units;
            end = end < nr_units ? end : nr_units;
        } else if (is(mode, "phased") || is(mode, "receding")) {
            const uint64_t nr_parts = nr_units / nr_hot;
            const uint64_t part = (uint64_t)((now_s() - started) / phase_s) % nr_parts;
            first = (is(mode, "receding") ? nr_parts - 1 - part : part) * nr_hot;
            end = first + nr_hot;
        }
        if (!keep_translations)
            forget_translations();
        for (uint64_t i = first; i < end; i++)
            use(region + order[i] * unit);
        const double done = now_s();
        printf("{\"at\": %.6f, \"first\": %" PRIu64 ", \"end\": %" PRIu64 "}\n", done, first, end);
        fflush(stdout);
        /* By the clock, so that rounds don't drift. */
        const double next = started + every_s * (double)(round + 1);
        if (next > done)
            sleep_s(next - done);
    }
    return 0;
}
