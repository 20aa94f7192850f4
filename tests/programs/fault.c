/*
 * fault: memory whose missing pages a thread of its own supplies (userfaultfd).
 *
 *   fault --size 64M --seconds 3
 *   {"program":"fault","pages":16384,"supplied":16384,"protected":8192,"bad":0}
 *
 * The whole region is registered for missing pages and for write protection; the handler fills each
 * page with its index and takes write protection off where a write meets it. Every other page is
 * protected. The pages are read and written over and over, and verified, for --seconds. Exit 0 if all
 * was right, else 1; 3 where the kernel has no userfaultfd for us.
 */
#include "common.h"
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

static uint64_t size = 64 * MIB;
static uint8_t *region;
static int uffd;
static uint64_t supplied, unprotected;

static void unprotect(uint64_t at)
{
    struct uffdio_writeprotect range = {.range = {at, PAGE}, .mode = 0};
    if (ioctl(uffd, UFFDIO_WRITEPROTECT, &range))
        die("fault: taking write protection off: %s", strerror(errno));
    unprotected++;
}

static void supply(uint64_t at)
{
    static _Alignas(PAGE) uint64_t page[PAGE / 8];
    page[0] = (at - (uintptr_t)region) / PAGE;
    struct uffdio_copy copy = {.dst = at, .src = (uintptr_t)page, .len = PAGE};
    /* EEXIST: somebody was faster, which only means that the page is there. */
    if (ioctl(uffd, UFFDIO_COPY, &copy) && errno != EEXIST)
        die("fault: supplying a page: %s", strerror(errno));
    supplied++;
}

static void *handle(void *unused)
{
    (void)unused;
    for (;;) {
        struct uffd_msg message;
        if (read(uffd, &message, sizeof message) != sizeof message)
            continue;
        if (message.event != UFFD_EVENT_PAGEFAULT)
            continue;
        uint64_t at = message.arg.pagefault.address & ~(uint64_t)(PAGE - 1);
        if (message.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP)
            unprotect(at);
        else
            supply(at);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    double seconds = 2;
    const struct option_spec options[] = {
        {"size", OPTION_SIZE, &size, "bytes of the region (64M)"},
        {"seconds", OPTION_REAL, &seconds, "how long to read, write and verify (2)"},
    };
    parse_options(argc, argv, options, COUNT_OF(options));
    uint64_t pages = size / PAGE, bad = 0, rounds = 0, protected = 0;
    region = map_pages(pages * PAGE);
    uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP};
    struct uffdio_register whole = {
        .range = {(uintptr_t)region, pages * PAGE},
        .mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP,
    };
    if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) || ioctl(uffd, UFFDIO_REGISTER, &whole)) {
        fprintf(stderr, "fault: no userfaultfd: %s\n", strerror(errno));
        return 3;
    }
    pthread_t handler;
    if (pthread_create(&handler, NULL, handle, NULL))
        die("fault: no thread");
    double deadline = now_s() + seconds;
    do {
        for (uint64_t i = 0; i < pages; i++) {
            volatile uint64_t *word = (volatile uint64_t *)(region + i * PAGE);
            bad += word[0] != i || word[1] != rounds;
            word[1] = rounds + 1;
            if (i % 2) {
                struct uffdio_writeprotect range = {
                    .range = {(uintptr_t)word, PAGE}, .mode = UFFDIO_WRITEPROTECT_MODE_WP};
                protected += !ioctl(uffd, UFFDIO_WRITEPROTECT, &range);
            }
        }
        rounds++;
        sleep_s(0.2);
        /* However slow the machine: what the first round supplied is read back at least once. */
    } while (now_s() < deadline || rounds < 2);
    printf("{\"program\":\"fault\",\"pages\":%" PRIu64 ",\"supplied\":%" PRIu64
           ",\"protected\":%" PRIu64 ",\"unprotected\":%" PRIu64 ",\"rounds\":%" PRIu64
           ",\"bad\":%" PRIu64 "}\n", pages, supplied, protected, unprotected, rounds, bad);
    return bad ? 1 : 0;
}
