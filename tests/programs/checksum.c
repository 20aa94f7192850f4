/*
 * checksum: proves that no page is lost or stale.
 *
 * Fills SIZE with pages that carry their index, a version and a checksum; THREADS read and write
 * random pages of their own share for SECONDS more, verifying every page they touch against the version
 * they wrote last; at the end every page is verified. Exit 0 if all was right, else 1.
 *
 *   checksum --size 300M --seconds 60 --threads 2 --write-percent 30
 *   {"program":"checksum","pages":76800,"reads":...,"writes":...,"verified":...,"bad":0,...}
 */
#include "common.h"
#include <pthread.h>

struct page {
    uint64_t index, version, sum;
    uint64_t payload[PAGE / 8 - 3];
};
_Static_assert(sizeof(struct page) == PAGE, "a page is a page");

static uint64_t size = 64 * MIB, threads = 1, write_percent = 30, seed = 1;
static double seconds = 1;
static struct page *pages;
static uint32_t *versions; /* what was written last, kept apart from the pages */
static uint64_t nr_pages;

struct worker {
    pthread_t thread;
    uint64_t first, end, reads, writes, verified, bad;
};

static uint64_t sum_of(const struct page *page)
{
    uint64_t sum = page->index * 0x9e3779b97f4a7c15ull ^ page->version;
    for (size_t i = 0; i < COUNT_OF(page->payload); i++)
        sum = (sum ^ page->payload[i]) * 0x100000001b3ull;
    return sum;
}

static void write_page(uint64_t index)
{
    struct page *page = &pages[index];
    versions[index]++;
    fill_page((uint8_t *)page, seed ^ (index << 20) ^ versions[index]);
    page->index = index;
    page->version = versions[index];
    page->sum = sum_of(page);
}

static void verify_page(uint64_t index, struct worker *me)
{
    const struct page *page = &pages[index];
    me->verified++;
    if (page->index == index && page->version == versions[index] && page->sum == sum_of(page))
        return;
    if (me->bad++ < 5)
        fprintf(stderr, "checksum: page %" PRIu64 " holds index %" PRIu64 " version %" PRIu64
                " instead of version %" PRIu32 "\n",
                index, page->index, page->version, versions[index]);
}

static void *work(void *argument)
{
    struct worker *me = argument;
    uint64_t random = seed + me->first;
    for (uint64_t i = me->first; i < me->end; i++)
        write_page(i);
    /* Filling may take longer than SECONDS where memory is short and the processor slow. */
    double deadline = now_s() + seconds;
    while (now_s() < deadline) {
        for (int i = 0; i < 64; i++) {
            uint64_t index = me->first + random_below(&random, me->end - me->first);
            verify_page(index, me);
            if (random_below(&random, 100) < write_percent) {
                write_page(index);
                me->writes++;
            } else {
                me->reads++;
            }
        }
    }
    for (uint64_t i = me->first; i < me->end; i++)
        verify_page(i, me);
    return NULL;
}

int main(int argc, char **argv)
{
    const struct option_spec options[] = {
        {"size", OPTION_SIZE, &size, "bytes to fill (64M)"},
        {"seconds", OPTION_REAL, &seconds, "how long to read and write after filling (1)"},
        {"threads", OPTION_NUMBER, &threads, "each with its own share of the pages (1)"},
        {"write-percent", OPTION_NUMBER, &write_percent, "writes among the accesses (30)"},
        {"seed", OPTION_NUMBER, &seed, "of every random number (1)"},
    };
    parse_options(argc, argv, options, COUNT_OF(options));
    nr_pages = size / PAGE;
    if (threads == 0 || nr_pages < threads)
        die("checksum: needs at least one thread and a page for each");
    pages = (struct page *)map_pages(nr_pages * PAGE);
    versions = calloc(nr_pages, sizeof *versions);
    struct worker *workers = calloc(threads, sizeof *workers);
    if (!versions || !workers)
        die("checksum: no memory");

    double start = now_s();
    for (uint64_t t = 0; t < threads; t++) {
        workers[t].first = nr_pages * t / threads;
        workers[t].end = nr_pages * (t + 1) / threads;
        if (pthread_create(&workers[t].thread, NULL, work, &workers[t]))
            die("checksum: no thread");
    }
    struct worker all = {0};
    for (uint64_t t = 0; t < threads; t++) {
        pthread_join(workers[t].thread, NULL);
        all.reads += workers[t].reads;
        all.writes += workers[t].writes;
        all.verified += workers[t].verified;
        all.bad += workers[t].bad;
    }
    printf("{\"program\":\"checksum\",\"pages\":%" PRIu64 ",\"reads\":%" PRIu64 ",\"writes\":%" PRIu64
           ",\"verified\":%" PRIu64 ",\"bad\":%" PRIu64 ",\"major_faults\":%" PRIu64
           ",\"seconds\":%.3f}\n",
           nr_pages, all.reads, all.writes, all.verified, all.bad, major_faults(), now_s() - start);
    return all.bad ? 1 : 0;
}
