/*
 * direct: reads a file past page cache (O_DIRECT) into mapped pages of another one, again and again.
 *
 *   direct SOURCE TARGET          both as long as SOURCE, whose length is a multiple of a page
 *   ready                         after the first round
 *
 * While it reads, the kernel pins pages of TARGET. Goes on until stdin ends, then compares both files and prints
 * `ok ROUNDS` or `differs`.
 */
#include "common.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>

static void read_all(int file, uint8_t *into, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t got = pread(file, into + done, length - done, (off_t)done);
        if (got <= 0)
            die("direct: can't read: %s", got < 0 ? strerror(errno) : "too short");
        done += (size_t)got;
    }
}

int main(int argc, char **argv)
{
    if (argc != 3)
        die("usage: direct SOURCE TARGET");
    int source = open(argv[1], O_RDONLY | O_DIRECT), target = open(argv[2], O_RDWR);
    int plain = open(argv[1], O_RDONLY);
    struct stat found;
    if (source < 0 || target < 0 || plain < 0 || fstat(source, &found) || ftruncate(target, found.st_size))
        die("direct: can't open both files: %s", strerror(errno));
    size_t length = (size_t)found.st_size;
    uint8_t *mapped = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, target, 0);
    if (mapped == MAP_FAILED)
        die("direct: can't map: %s", strerror(errno));
    struct pollfd input = {.fd = 0, .events = POLLIN};
    uint64_t rounds = 0;
    do {
        read_all(source, mapped, length);
        if (!rounds++) {
            puts("ready");
            fflush(stdout);
        }
    } while (poll(&input, 1, 0) == 0);
    uint8_t *truth = malloc(length);
    if (!truth)
        die("direct: no memory");
    read_all(plain, truth, length);
    if (memcmp(truth, mapped, length))
        puts("differs");
    else
        printf("ok %" PRIu64 "\n", rounds);
    return 0;
}
