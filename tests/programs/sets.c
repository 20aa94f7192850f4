/*
 * sets: uses one part of its memory after the other, round and round: phases that repeat.
 *
 * Fills SIZE, cuts it into SETS parts of equal size, and reads pages of one part at random for PHASE seconds
 * before it goes on to the next. With --foretold-ms another process asks the kernel for all of a part
 * (MADV_WILLNEED) so many milliseconds after its phase began, as whoever knew the phase again could. A line as
 * each phase begins, and one at the end.
 *
 *   sets --size 300M --sets 2 --phase 2 --phases 6 --foretold-ms 20
 *   {"phase":0,"part":0}
 *   {"program":"sets","pages":76800,"phases":6,"ops":...,"ops_per_s":...,"major_faults":...,"seconds":12.000}
 */
#include "common.h"
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#ifndef MADV_WILLNEED
#define MADV_WILLNEED 3
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#define NOT_FORETOLD UINT64_MAX
/* The kernel is asked for so much at a time. */
#define STEP (16ull * MIB)

static uint64_t size = 300ull * MIB, sets = 2, phases = 6, foretold_ms = NOT_FORETOLD, seed = 1;
static double phase = 2;

/* Asks for the memory it is told of: address and bytes, until its pipe is closed. */
__attribute__((noreturn))
static void foretell(int in, pid_t whose)
{
    struct iovec wanted;
    int pidfd = (int)syscall(SYS_pidfd_open, whose, 0);
    if (pidfd < 0)
        die("sets: no pidfd: %s", strerror(errno));
    while (read(in, &wanted, sizeof wanted) == sizeof wanted) {
        usleep((useconds_t)(foretold_ms * 1000));
        for (uint64_t at = 0; at < wanted.iov_len; at += STEP) {
            struct iovec step = {
                (char *)wanted.iov_base + at,
                wanted.iov_len - at < STEP ? wanted.iov_len - at : STEP,
            };
            if (syscall(SYS_process_madvise, pidfd, &step, 1ul, MADV_WILLNEED, 0u) < 0)
                die("sets: MADV_WILLNEED: %s", strerror(errno));
        }
    }
    exit(0);
}

int main(int argc, char **argv)
{
    const struct option_spec options[] = {
        {"size", OPTION_SIZE, &size, "bytes to fill (300M)"},
        {"sets", OPTION_NUMBER, &sets, "parts that are used in turn (2)"},
        {"phase", OPTION_REAL, &phase, "how long each, seconds (2)"},
        {"phases", OPTION_NUMBER, &phases, "how many in all (6)"},
        {"foretold-ms", OPTION_NUMBER, &foretold_ms, "when a part is asked for, after its phase began (never)"},
        {"seed", OPTION_NUMBER, &seed, "of every random number (1)"},
    };
    parse_options(argc, argv, options, COUNT_OF(options));
    uint64_t nr_pages = size / PAGE;
    if (!sets || nr_pages < sets || !phases || phase <= 0)
        die("sets: needs a page for each part, a phase and its length");

    int to[2] = {-1, -1};
    pid_t child = 0;
    if (foretold_ms != NOT_FORETOLD) {
        pid_t self = getpid();
        /* Before anything is filled, or the two would share the pages. */
        if (pipe(to) || (child = fork()) < 0)
            die("sets: no child: %s", strerror(errno));
        if (!child) {
            close(to[1]);
            foretell(to[0], self);
        }
        close(to[0]);
    }
    uint8_t *pages = map_pages(nr_pages * PAGE);
    for (uint64_t i = 0; i < nr_pages; i++)
        fill_page(pages + i * PAGE, seed ^ (i << 20));

    uint64_t random = seed, ops = 0, sum = 0, nr_each = nr_pages / sets;
    double start = now_s();
    for (uint64_t n = 0; n < phases; n++) {
        uint8_t *part = pages + n % sets * nr_each * PAGE;
        struct iovec wanted = {part, nr_each * PAGE};
        if (child && write(to[1], &wanted, sizeof wanted) != sizeof wanted)
            die("sets: who foretells has gone");
        printf("{\"phase\":%" PRIu64 ",\"part\":%" PRIu64 "}\n", n, n % sets);
        fflush(stdout);
        double end = start + phase * (double)(n + 1);
        for (; now_s() < end; ops += 64)
            for (int i = 0; i < 64; i++)
                sum += *(volatile uint8_t *)(part + random_below(&random, nr_each) * PAGE);
    }
    double seconds = now_s() - start;
    int status = 0;
    if (child) {
        close(to[1]);
        waitpid(child, &status, 0);
    }
    printf("{\"program\":\"sets\",\"pages\":%" PRIu64 ",\"phases\":%" PRIu64 ",\"ops\":%" PRIu64
           ",\"ops_per_s\":%.0f,\"major_faults\":%" PRIu64 ",\"sum\":%" PRIu64 ",\"seconds\":%.3f}\n",
           nr_pages, phases, ops, (double)ops / seconds, major_faults(), sum, seconds);
    return status ? 2 : 0;
}
