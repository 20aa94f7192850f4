/*
 * What the workloads share: options, sizes, randomness, time, pages.
 *
 * A workload is one small C11 program that does one thing to memory and says what it did. It knows
 * nothing of Strata: it is the "unmodified program". Output is one JSON object a line on stdout,
 * complaints go to stderr. Exit status: 0 done, 1 its data was wrong, 2 wrong usage or no memory.
 */
#ifndef COMMON_H
#define COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096u
#define MIB (1024u * 1024u)
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

__attribute__((noreturn, format(printf, 1, 2), unused))
static void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(2);
}

/* "300M", "2G", "4096": bytes, powers of 1024. */
__attribute__((unused))
static uint64_t parse_size(const char *text)
{
    char *end;
    errno = 0;
    double number = strtod(text, &end);
    uint64_t unit = 1;
    switch (*end) {
    case 'K': case 'k': unit = 1ull << 10; end++; break;
    case 'M': case 'm': unit = 1ull << 20; end++; break;
    case 'G': case 'g': unit = 1ull << 30; end++; break;
    case 'T': case 't': unit = 1ull << 40; end++; break;
    default: break;
    }
    if (end == text || *end != 0 || errno || number < 0)
        die("not a size: %s", text);
    return (uint64_t)(number * (double)unit);
}

/* One option, `--name VALUE` (a FLAG has no value). */
enum option_kind { OPTION_SIZE, OPTION_NUMBER, OPTION_REAL, OPTION_TEXT, OPTION_FLAG };
struct option_spec {
    const char *name;
    enum option_kind kind;
    void *to; /* uint64_t, uint64_t, double, const char *, bool */
    const char *help;
};

__attribute__((unused))
static void parse_options(int argc, char **argv, const struct option_spec *specs, size_t count)
{
    for (int i = 1; i < argc; i++) {
        const struct option_spec *spec = NULL;
        for (size_t k = 0; k < count && !spec; k++)
            if (!strncmp(argv[i], "--", 2) && !strcmp(argv[i] + 2, specs[k].name))
                spec = &specs[k];
        if (!spec || (spec->kind != OPTION_FLAG && i + 1 == argc)) {
            fprintf(stderr, "%s: unknown or incomplete option %s; options:\n", argv[0], argv[i]);
            for (size_t k = 0; k < count; k++)
                fprintf(stderr, "  --%-16s %s\n", specs[k].name, specs[k].help);
            exit(2);
        }
        switch (spec->kind) {
        case OPTION_SIZE: *(uint64_t *)spec->to = parse_size(argv[++i]); break;
        case OPTION_NUMBER: *(uint64_t *)spec->to = strtoull(argv[++i], NULL, 10); break;
        case OPTION_REAL: *(double *)spec->to = strtod(argv[++i], NULL); break;
        case OPTION_TEXT: *(const char **)spec->to = argv[++i]; break;
        case OPTION_FLAG: *(bool *)spec->to = true; break;
        }
    }
}

/* splitmix64 (Steele, Lea, Flood 2014): the same numbers on every machine for ever. */
__attribute__((unused))
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

/* Uniform in 0..bound by multiplication (Lemire 2019, without the rejection step). */
__attribute__((unused))
static uint64_t random_below(uint64_t *state, uint64_t bound)
{
    return (uint64_t)(((__uint128_t)next_random(state) * bound) >> 64);
}

__attribute__((unused))
static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

__attribute__((unused))
static void sleep_s(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&t, &t) && errno == EINTR)
        ;
}

/* Sleeps that long; 0 means until killed. */
__attribute__((unused))
static void linger(double seconds)
{
    if (seconds > 0)
        sleep_s(seconds);
    else
        for (;;)
            pause();
}

/* Private anonymous memory in base pages, so that every page is one folio; none of it touched. */
__attribute__((unused))
static uint8_t *map_pages(uint64_t bytes)
{
    uint8_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        die("mmap of %" PRIu64 " bytes failed: %s", bytes, strerror(errno));
    madvise(at, bytes, MADV_NOHUGEPAGE);
    return at;
}

/* Taking rights from a range of many pages makes the kernel drop all translations of the process. */
__attribute__((unused))
static void forget_translations(void)
{
    const uint64_t size = 256 * PAGE;
    uint8_t *scratch = map_pages(size);
    for (uint64_t at = 0; at < size; at += PAGE)
        scratch[at] = 1;
    if (mprotect(scratch, size, PROT_READ) || munmap(scratch, size))
        die("can't forget translations: %s", strerror(errno));
}

/* Makes a page's content half noise, half repetition, so that it compresses about 2:1 to 3:1. */
__attribute__((unused))
static void fill_page(uint8_t *page, uint64_t seed)
{
    uint64_t state = seed;
    uint64_t *word = (uint64_t *)page;
    for (size_t i = 0; i < PAGE / 8; i++)
        word[i] = i % 8 < 3 ? next_random(&state) : seed;
}

/* Whether pages of a region still hold what fill_page(page, 1 + its number) made. */
__attribute__((unused))
static bool are_filled(const uint8_t *region, uint64_t bytes)
{
    uint8_t expected[PAGE] __attribute__((aligned(8)));
    for (uint64_t done = 0; done + PAGE <= bytes; done += PAGE) {
        fill_page(expected, done + 1);
        if (memcmp(region + done, expected, PAGE))
            return false;
    }
    return true;
}

__attribute__((unused))
static uint64_t major_faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_majflt;
}

#endif
