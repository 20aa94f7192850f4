/*
 * warm: reads pages of a file through a descriptor by a Zipf law, and counts how many are not in memory. With --touches it tells the
 * kernel, by reads of one byte, which pages are warm: those that the law draws most often, as far as they are in memory.
 *
 * With --windows it does not know the law: pages are warm that were read in most of the last goes, each of which counts a page once,
 * as a look at the kernel's flags would.
 *
 *   warm --file PATH --size 128M --reads 400000 --touches 5 --warm-pages 8000
 *   {"program":"warm","reads":..,"misses":..,"stream_reads":..,"touched":..,"touch_percent":..}
 *
 * The first quarter of the reads is not counted. With --stream PATH every other read is one of the next page of that file, which is
 * not counted either. Both files are made if they are not there. Reads by one descriptor of the page that it read last count
 * once, so touches go round by one descriptor each.
 */
#include "common.h"

#include <fcntl.h>
#include <sys/uio.h>

#include "zipf.h"

#define TOUCHES_MAX 8u

static char buffer[PAGE];

static int open_file(const char *path, uint64_t bytes)
{
    int file = open(path, O_RDWR | O_CREAT, 0600);
    if (file < 0)
        die("%s can't be opened: %s", path, strerror(errno));
    if ((uint64_t)lseek(file, 0, SEEK_END) < bytes) {
        memset(buffer, 'x', sizeof buffer);
        for (uint64_t at = 0; at < bytes; at += PAGE)
            if (pwrite(file, buffer, PAGE, (off_t)at) != PAGE)
                die("%s can't be written: %s", path, strerror(errno));
    }
    if (fsync(file))
        die("%s can't be written: %s", path, strerror(errno));
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
    return file;
}

/* Reads so many bytes of a page if it is in memory. */
static bool read_if_there(int file, uint64_t page, size_t bytes)
{
    struct iovec vector = {buffer, bytes};
    return preadv2(file, &vector, 1, (off_t)(page * PAGE), RWF_NOWAIT) > 0;
}

/* A page that was read in every window has this heat. */
enum { HEAT_ALL = 1 << 16, HEAT_STEPS = 64 };

/* What is known of a page without the law. */
struct seen {
    uint32_t heat;
    bool is_read;
};

/* A window of so many ends: the least heat, in steps, of the pages that are warm. */
static uint32_t end_window(struct seen *seen, uint64_t pages, uint64_t windows, uint64_t warm_pages)
{
    uint64_t with_heat[HEAT_STEPS + 1] = {0}, warm = 0;
    for (uint64_t page = 0; page < pages; page++) {
        struct seen *of = &seen[page];
        of->heat -= (uint32_t)(of->heat / windows);
        of->heat += of->is_read ? (uint32_t)(HEAT_ALL / windows) : 0;
        of->is_read = false;
        with_heat[of->heat * HEAT_STEPS / HEAT_ALL]++;
    }
    uint32_t least = HEAT_STEPS + 1;
    while (least > 1 && warm + with_heat[least - 1] <= warm_pages)
        warm += with_heat[--least];
    return least;
}

static uint64_t cpu_ns(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now))
        die("the CPU time can't be read: %s", strerror(errno));
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static bool read_page(int file, uint64_t page)
{
    if (read_if_there(file, page, PAGE))
        return true;
    if (pread(file, buffer, PAGE, (off_t)(page * PAGE)) != PAGE)
        die("a read failed: %s", strerror(errno));
    return false;
}

int main(int argc, char **argv)
{
    const char *path = NULL, *stream_path = NULL;
    uint64_t bytes = 128 * MIB, reads = 400000, touches = 0, warm_pages = 8000, every = 20000, windows = 0, seed = 7;
    double theta = 0.99;
    const struct option_spec options[] = {
        {"file", OPTION_TEXT, &path, "the file that is read"},
        {"size", OPTION_SIZE, &bytes, "its size (128M)"},
        {"theta", OPTION_REAL, &theta, "of the Zipf law (0.99)"},
        {"reads", OPTION_NUMBER, &reads, "reads by the law (400000)"},
        {"stream", OPTION_TEXT, &stream_path, "a file that is read from end to end meanwhile"},
        {"touches", OPTION_NUMBER, &touches, "touches of each warm page in one go (0)"},
        {"warm-pages", OPTION_NUMBER, &warm_pages, "pages that are drawn most often and touched (8000)"},
        {"every", OPTION_NUMBER, &every, "reads from one go to the next (20000)"},
        {"windows", OPTION_NUMBER, &windows, "goes that tell which pages are warm, instead of the law (0)"},
    };
    parse_options(argc, argv, options, COUNT_OF(options));
    if (!path || touches > TOUCHES_MAX || bytes < PAGE || !every || warm_pages > bytes / PAGE)
        die("--file is needed, --touches is %u at most, --every 1 at least, --warm-pages as many as the file has at most", TOUCHES_MAX);
    int file = open_file(path, bytes), touchers[TOUCHES_MAX];
    for (uint64_t i = 0; i < touches; i++)
        touchers[i] = open_file(path, 0);
    const uint64_t stream_bytes = (reads / 2 + 1) * PAGE;
    int stream = stream_path ? open_file(stream_path, stream_bytes) : -1;
    struct zipf law = zipf_new(bytes / PAGE, theta);
    struct seen *seen = calloc(law.count, sizeof *seen);
    if (!seen)
        die("there is no memory for %" PRIu64 " pages", law.count);
    uint64_t touch_ns = 0, misses = 0, counted = 0, touched = 0, stream_page = 0;
    for (uint64_t i = 0; i < reads; i++) {
        uint64_t page = zipf_scattered(&law, &seed);
        bool is_there = read_page(file, page);
        seen[page].is_read = true;
        if (i >= reads / 4) {
            counted++;
            misses += !is_there;
        }
        if (stream >= 0 && i % 2)
            read_page(stream, stream_page++);
        if (!touches || i % every != every - 1)
            continue;
        uint64_t begun_ns = cpu_ns();
        uint32_t least = windows ? end_window(seen, law.count, windows, warm_pages) : 0;
        for (uint64_t rank = 0; rank < (windows ? law.count : warm_pages); rank++) {
            page = (uint64_t)((__uint128_t)rank * law.stride % law.count);
            if (windows && seen[page].heat * HEAT_STEPS / HEAT_ALL < least)
                continue;
            for (uint64_t k = 0; k < touches; k++)
                touched += read_if_there(touchers[k], page, 1);
        }
        touch_ns += cpu_ns() - begun_ns;
    }
    free(seen);
    printf("{\"program\":\"warm\",\"reads\":%" PRIu64 ",\"misses\":%" PRIu64 ",\"stream_reads\":%" PRIu64 ",\"touched\":%" PRIu64 ",\"touch_percent\":%" PRIu64 "}\n",
           counted, misses, stream_page, touched, touch_ns * 100 / cpu_ns());
    return 0;
}
