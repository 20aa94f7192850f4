/*
 * latency: how long does a program wait for its own memory management? One thread reads all of a region again and
 * again, so that every page is in use; another maps, touches, reads and unmaps a page all the time, and times each step.
 *
 *   latency --size 6G [--huge]
 *   {"program":"latency","pid":123}                            when the region is filled
 *   then, for each line on stdin, what was seen since the line before; microseconds:
 *   {"program":"latency","rounds":1234,"mmap_p999_us":12,"mmap_max_us":80,"fault_p999_us":..,"fault_max_us":..,
 *    "munmap_p999_us":..,"munmap_max_us":..,"read_p999_us":..,"read_max_us":..}
 *
 * It ends with its stdin, and with 1 if a page of the region was not what was written there.
 */
#include "common.h"
#include <pthread.h>

#define LONGEST_US 2000000u

/* How often a step took so many microseconds. */
struct step {
    uint32_t *counts;
    uint64_t total;
};
enum { STEP_MMAP, STEP_FAULT, STEP_MUNMAP, STEP_READ, NR_STEPS };
static const char *const names[NR_STEPS] = {"mmap", "fault", "munmap", "read"};
static struct step steps[NR_STEPS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint8_t *region;
static uint64_t nr_pages;
static volatile bool is_over;
static double pause_s = 0.3;

static void note(int step, double took_s)
{
    double us = took_s * 1e6;
    uint32_t at = us < LONGEST_US - 1 ? (uint32_t)us : LONGEST_US - 1;
    steps[step].counts[at]++;
    steps[step].total++;
}

/* Uses every page, then waits: what is used all the time would only keep the processor busy. */
static void *use(void *unused)
{
    (void)unused;
    while (!is_over) {
        for (uint64_t page = 0; page < nr_pages && !is_over; page++)
            if (*(volatile uint8_t *)(region + page * PAGE) != 1 + page % 255) {
                fprintf(stderr, "latency: page %" PRIu64 " is wrong\n", page);
                _exit(1);
            }
        linger(pause_s);
    }
    return NULL;
}

static void *map_and_unmap(void *unused)
{
    uint64_t random = 1;
    (void)unused;
    while (!is_over) {
        /* The clock is not read under the lock: who reports would be measured. */
        double begin = now_s();
        volatile uint8_t *at = map_pages(PAGE);
        double mapped = now_s();
        *at = 1;
        double touched = now_s();
        (void)*(volatile uint8_t *)(region + random_below(&random, nr_pages) * PAGE);
        double read = now_s();
        munmap((void *)at, PAGE);
        double end = now_s();
        pthread_mutex_lock(&lock);
        note(STEP_MMAP, mapped - begin);
        note(STEP_FAULT, touched - mapped);
        note(STEP_READ, read - touched);
        note(STEP_MUNMAP, end - read);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static uint32_t share(const struct step *step, double part)
{
    uint64_t wanted = (uint64_t)((double)step->total * part), seen = 0;
    for (uint32_t us = 0; us < LONGEST_US; us++) {
        seen += step->counts[us];
        if (seen > wanted || (seen == step->total && seen))
            return us;
    }
    return 0;
}

static void report(void)
{
    pthread_mutex_lock(&lock);
    printf("{\"program\":\"latency\",\"rounds\":%" PRIu64, steps[STEP_MMAP].total);
    for (int i = 0; i < NR_STEPS; i++) {
        printf(",\"%s_p999_us\":%u,\"%s_max_us\":%u", names[i], share(&steps[i], 0.999), names[i], share(&steps[i], 1));
        memset(steps[i].counts, 0, LONGEST_US * sizeof(uint32_t));
        steps[i].total = 0;
    }
    printf("}\n");
    fflush(stdout);
    pthread_mutex_unlock(&lock);
}

int main(int argc, char **argv)
{
    uint64_t size = 300 * (uint64_t)MIB;
    bool is_huge = false;
    const struct option_spec options[] = {
        {"size", OPTION_SIZE, &size, "of the region (300M)"},
        {"huge", OPTION_FLAG, &is_huge, "in huge pages"},
        {"pause", OPTION_REAL, &pause_s, "seconds between two rounds of reading all of it (0.3)"},
    };
    parse_options(argc, argv, options, COUNT_OF(options));
    nr_pages = size / PAGE;
    if (!nr_pages)
        die("latency: --size is less than a page");
    for (int i = 0; i < NR_STEPS; i++)
        if (!(steps[i].counts = calloc(LONGEST_US, sizeof(uint32_t))))
            die("latency: no memory");
    region = map_pages(nr_pages * PAGE);
    if (madvise(region, nr_pages * PAGE, is_huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE))
        die("latency: madvise: %s", strerror(errno));
    for (uint64_t page = 0; page < nr_pages; page++)
        region[page * PAGE] = 1 + page % 255;
    pthread_t user, mapper;
    if (pthread_create(&user, NULL, use, NULL) || pthread_create(&mapper, NULL, map_and_unmap, NULL))
        die("latency: no threads");
    printf("{\"program\":\"latency\",\"pid\":%d}\n", getpid());
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof(line), stdin))
        report();
    is_over = true;
    pthread_join(user, NULL);
    pthread_join(mapper, NULL);
    return 0;
}
