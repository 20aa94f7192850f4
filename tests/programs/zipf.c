/*
 * zipf: the skewed random load that caches live from.
 *
 * Reads (and writes) single pages of SIZE, anonymous or a mapped file, page ranks drawn from a Zipf
 * law with exponent THETA (0 = uniform, any value >= 0) and scattered over the region, so that hot
 * pages are not neighbours. One JSON line a second, one at the end. Optional: a sequential scan of
 * --scan-pages every --scan-every operations; another set of hot pages every --phase-every seconds;
 * growth bursts of --burst bytes at --burst-rate bytes/s every --burst-every seconds, freed
 * --burst-hold seconds after they are complete; work for --work-percent of the time only, as a server
 * does that waits for requests. Several that are to be compared begin together with --after: one that
 * fills its memory sooner would else run beside one that still does, and that one alone at the end.
 *
 *   zipf --size 512M --theta 0.99 --seconds 60 --threads 2
 *   {"t_s":1.0,"ops":1234567,"ops_per_s":1234567,"major_faults":12,"burst_bytes":0}
 *   {"program":"zipf","ops":...,"ops_per_s":...,"major_faults":...,"seconds":...}
 *
 * --noise fills anonymous pages with what does not compress. With --file and --file-percent only so much of the
 * region is the mapped file and the rest is anonymous, so that both have hot pages and cold ones.
 *
 * With --thp the last line also has "huge_bytes_filled" and "huge_bytes": how much of its memory was in
 * huge pages once it was filled, and at the end.
 */
#include "common.h"
#include "zipf.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

static uint64_t size = 64 * MIB, threads = 1, write_percent = 0, seed = 1, work_percent = 100, file_percent = 100;
static uint64_t scan_pages, scan_every = 100000;
static uint64_t burst, burst_rate = 500 * MIB;
static double theta = 0.99, seconds = 1, after = 0, phase_every = 0, burst_every = 5, burst_hold = 0.5;
static const char *path;
static bool random_advice, populate, thp, noise;

static uint8_t *region;
static uint64_t nr_pages;
static struct zipf law;
static double started, deadline;
static atomic_uint_fast64_t burst_bytes;
static atomic_bool finished;

struct worker {
    pthread_t thread;
    uint64_t number;
    atomic_uint_fast64_t ops;
    char padding[64]; /* counters of two threads never share a cache line */
};

/* Sleeps until the processor's time of this thread is no more than its share of the time since START. */
static void rest_after_work(double start)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    double due = start + ((double)used.tv_sec + (double)used.tv_nsec * 1e-9) * 100 / (double)work_percent;
    double left = due - now_s();
    if (left > 0.0005)
        sleep_s(left);
}

static void *work(void *argument)
{
    double begun = now_s();
    struct worker *me = argument;
    uint64_t random = seed * 1000003 + me->number, ops = 0, sum = 0, scan_at = 0, moved = 0;
    while (!atomic_load_explicit(&finished, memory_order_relaxed)) {
        /* A third of the region on: what was hot is among the coldest then, and the reverse. */
        if (phase_every > 0)
            moved = (uint64_t)((now_s() - started) / phase_every) * (nr_pages / 3);
        for (int i = 0; i < 256; i++) {
            uint64_t index = (zipf_scattered(&law, &random) + moved) % nr_pages;
            volatile uint64_t *word = (volatile uint64_t *)(region + index * PAGE);
            if (write_percent && random_below(&random, 100) < write_percent)
                *word += 1;
            else
                sum += *word;
            if (scan_pages && ++ops % scan_every == 0)
                for (uint64_t p = 0; p < scan_pages; p++, scan_at = (scan_at + 1) % nr_pages)
                    sum += *(volatile uint64_t *)(region + scan_at * PAGE);
        }
        atomic_fetch_add_explicit(&me->ops, 256, memory_order_relaxed);
        if (work_percent < 100)
            rest_after_work(begun);
    }
    return (void *)(uintptr_t)(sum & 1);
}

/* Grows and frees memory beside the region until the end. */
static void *burst_work(void *unused)
{
    (void)unused;
    while (now_s() + burst_every < deadline) {
        sleep_s(burst_every);
        uint8_t *extra = map_pages(burst);
        double start = now_s();
        for (uint64_t done = 0; done < burst && !atomic_load(&finished); done += PAGE) {
            fill_page(extra + done, done);
            atomic_store(&burst_bytes, done + PAGE);
            double ahead = start + (double)done / (double)burst_rate - now_s();
            if (ahead > 0.001)
                sleep_s(ahead);
        }
        sleep_s(burst_hold);
        munmap(extra, burst);
        atomic_store(&burst_bytes, 0);
    }
    return NULL;
}

/* Nothing but noise: a page that no compression makes smaller. */
static void fill_with_noise(uint8_t *page, uint64_t number)
{
    uint64_t state = number;
    uint64_t *word = (uint64_t *)page;
    for (size_t i = 0; i < PAGE / 8; i++)
        word[i] = next_random(&state);
}

/* Puts the mapped file in place of the first pages of the region. */
static void map_file(uint64_t file_pages)
{
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    off_t have = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    if (have < 0)
        die("zipf: %s: %s", path, strerror(errno));
    uint8_t page[PAGE];
    for (uint64_t i = (uint64_t)have / PAGE; i < file_pages; i++) {
        fill_page(page, i + 1);
        if (pwrite(fd, page, PAGE, (off_t)(i * PAGE)) != PAGE)
            die("zipf: writing %s: %s", path, strerror(errno));
    }
    fsync(fd);
    if (mmap(region, file_pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
        die("zipf: mmap of %s: %s", path, strerror(errno));
    close(fd);
    if (populate && madvise(region, file_pages * PAGE, MADV_POPULATE_READ))
        die("zipf: reading %s in: %s", path, strerror(errno));
    if (random_advice)
        madvise(region, file_pages * PAGE, MADV_RANDOM);
}

static void map_region(void)
{
    uint64_t file_pages = path ? nr_pages * file_percent / 100 : 0;
    region = map_pages(nr_pages * PAGE);
    if (thp && madvise(region, nr_pages * PAGE, MADV_HUGEPAGE))
        die("zipf: huge pages: %s", strerror(errno));
    for (uint64_t i = file_pages; i < nr_pages; i++)
        (noise ? fill_with_noise : fill_page)(region + i * PAGE, i + 1);
    if (file_pages)
        map_file(file_pages);
}

/* What the process has in huge pages. */
static uint64_t huge_bytes(void)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    uint64_t kib = 0;
    if (!file)
        die("zipf: smaps_rollup: %s", strerror(errno));
    while (fgets(line, sizeof line, file))
        sscanf(line, "AnonHugePages: %" SCNu64, &kib);
    fclose(file);
    return kib * 1024;
}

static uint64_t total_ops(struct worker *workers)
{
    uint64_t sum = 0;
    for (uint64_t t = 0; t < threads; t++)
        sum += atomic_load(&workers[t].ops);
    return sum;
}

int main(int argc, char **argv)
{
    double born = now_s();
    const struct option_spec options[] = {
        {"size", OPTION_SIZE, &size, "bytes of the region (64M)"},
        {"theta", OPTION_REAL, &theta, "exponent of the law, 0 = uniform (0.99)"},
        {"seconds", OPTION_REAL, &seconds, "how long to run after filling (1)"},
        {"after", OPTION_REAL, &after, "do not begin sooner than so many seconds after the start (0)"},
        {"threads", OPTION_NUMBER, &threads, "all on the same region (1)"},
        {"write-percent", OPTION_NUMBER, &write_percent, "writes among the accesses (0)"},
        {"work-percent", OPTION_NUMBER, &work_percent, "of the time a thread works, else it sleeps (100)"},
        {"seed", OPTION_NUMBER, &seed, "of every random number (1)"},
        {"file", OPTION_TEXT, &path, "map this file instead of anonymous memory; made if too short"},
        {"file-percent", OPTION_NUMBER, &file_percent, "of the region is the mapped file, the rest anonymous (100)"},
        {"noise", OPTION_FLAG, &noise, "fill anonymous pages with what does not compress"},
        {"populate", OPTION_FLAG, &populate, "read the whole mapped file in before the start"},
        {"random", OPTION_FLAG, &random_advice, "MADV_RANDOM on the mapped file: no fault-around"},
        {"thp", OPTION_FLAG, &thp, "ask for huge pages for the anonymous memory"},
        {"scan-pages", OPTION_NUMBER, &scan_pages, "pages of a sequential scan, 0 = none (0)"},
        {"scan-every", OPTION_NUMBER, &scan_every, "operations between scans, per thread (100000)"},
        {"phase-every", OPTION_REAL, &phase_every, "seconds until other pages are hot, 0 = never (0)"},
        {"burst", OPTION_SIZE, &burst, "bytes of a growth burst, 0 = none (0)"},
        {"burst-rate", OPTION_SIZE, &burst_rate, "bytes a second of growth (500M)"},
        {"burst-every", OPTION_REAL, &burst_every, "seconds between bursts (5)"},
        {"burst-hold", OPTION_REAL, &burst_hold, "seconds before the burst is freed (0.5)"},
    };
    parse_options(argc, argv, options, COUNT_OF(options));
    nr_pages = size / PAGE;
    if (!nr_pages || !threads || !scan_every || !burst_rate || !work_percent || theta < 0 || file_percent > 100)
        die("zipf: size, threads, scan-every, burst-rate and work-percent must be above 0, theta not below, file-percent at most 100");

    law = zipf_new(nr_pages, theta);
    map_region();
    uint64_t huge_bytes_filled = thp ? huge_bytes() : 0;
    double early = born + after - now_s();
    if (early > 0)
        sleep_s(early);
    double start = started = now_s();
    deadline = start + seconds;
    struct worker *workers = calloc(threads, sizeof *workers);
    if (!workers)
        die("zipf: no memory");
    for (uint64_t t = 0; t < threads; t++) {
        workers[t].number = t;
        if (pthread_create(&workers[t].thread, NULL, work, &workers[t]))
            die("zipf: no thread");
    }
    pthread_t burst_thread;
    if (burst && pthread_create(&burst_thread, NULL, burst_work, NULL))
        die("zipf: no thread");

    uint64_t last_ops = 0;
    double last = start;
    while (now_s() < deadline) {
        double left = deadline - now_s();
        sleep_s(left < 1 ? left : 1);
        double now = now_s();
        uint64_t ops = total_ops(workers);
        printf("{\"t_s\":%.3f,\"ops\":%" PRIu64 ",\"ops_per_s\":%.0f,\"major_faults\":%" PRIu64
               ",\"burst_bytes\":%" PRIuFAST64 "}\n",
               now - start, ops, (double)(ops - last_ops) / (now - last), major_faults(),
               atomic_load(&burst_bytes));
        fflush(stdout);
        last_ops = ops;
        last = now;
    }
    atomic_store(&finished, true);
    for (uint64_t t = 0; t < threads; t++)
        pthread_join(workers[t].thread, NULL);
    if (burst)
        pthread_join(burst_thread, NULL);
    double took = now_s() - start;
    uint64_t ops = total_ops(workers);
    printf("{\"program\":\"zipf\",\"pages\":%" PRIu64 ",\"theta\":%g,\"threads\":%" PRIu64
           ",\"ops\":%" PRIu64 ",\"ops_per_s\":%.0f,\"major_faults\":%" PRIu64 ",\"seconds\":%.3f",
           nr_pages, theta, threads, ops, (double)ops / took, major_faults(), took);
    if (thp)
        printf(",\"huge_bytes_filled\":%" PRIu64 ",\"huge_bytes\":%" PRIu64, huge_bytes_filled, huge_bytes());
    puts("}");
    return 0;
}
