/*
 * pagemap_scan PID START END: for every line on stdin one PAGEMAP_SCAN (Linux 6.7) over the range
 * (hexadecimal), answered by `PAGES NANOSECONDS`: pages found present, and the CPU time the scan took.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>

#ifndef PAGEMAP_SCAN
#define PAGE_IS_PRESENT (1 << 3)
struct page_region {
    uint64_t start, end, categories;
};
struct pm_scan_arg {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define PAGEMAP_SCAN _IOWR('f', 16, struct pm_scan_arg)
#endif

static struct page_region regions[4096];

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

int main(int argc, char **argv)
{
    char path[64], line[16];
    if (argc != 4)
        return 2;
    uint64_t start = strtoull(argv[2], NULL, 16), end = strtoull(argv[3], NULL, 16);
    snprintf(path, sizeof path, "/proc/%s/pagemap", argv[1]);
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return 1;
    while (fgets(line, sizeof line, stdin)) {
        uint64_t pages = 0, began = now_ns(), at = start;
        while (at < end) {
            struct pm_scan_arg scan = {
                .size = sizeof scan, .start = at, .end = end, .vec = (uintptr_t)regions,
                .vec_len = sizeof regions / sizeof *regions, .category_mask = PAGE_IS_PRESENT,
                .return_mask = PAGE_IS_PRESENT};
            int got = ioctl(fd, PAGEMAP_SCAN, &scan);
            if (got < 0)
                return 1;
            for (int i = 0; i < got; i++)
                pages += (regions[i].end - regions[i].start) / 4096;
            at = scan.walk_end;
        }
        printf("%llu %llu\n", (unsigned long long)pages, (unsigned long long)(now_ns() - began));
        fflush(stdout);
    }
    return 0;
}
