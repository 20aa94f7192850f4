/*
 * reader: reads and writes pages of a file through a descriptor, as stdin says, one command a line.
 *
 *   reader PATH
 *   ready 0x0 4096 4711           0, pages of the file, pid
 *
 * Every command is answered by `ok` or `error ...`. FIRST and COUNT are pages of the file.
 *   read FIRST COUNT              each page once, one after the other; no page is read ahead
 *   write FIRST COUNT VERSION     each page anew: its number and the version, again and again
 *   check FIRST COUNT VERSION     reads each page: is it as it was written?
 *   cut COUNT                     the file ends after so many pages
 *   direct                        what is read and written from now on goes past page cache (O_DIRECT)
 *   node N                        what it reads in from now on comes to this memory node
 */
#include "common.h"
#include <fcntl.h>
#include <sys/syscall.h>

static _Alignas(PAGE) uint64_t page[PAGE / sizeof(uint64_t)], expected[PAGE / sizeof(uint64_t)];

static bool obey(int file, const char *verb, uint64_t first, uint64_t count, uint64_t version)
{
    bool writes = !strcmp(verb, "write"), checks = !strcmp(verb, "check");
    if (!strcmp(verb, "cut"))
        return !ftruncate(file, (off_t)(first * PAGE));
    if (!strcmp(verb, "direct"))
        return !fcntl(file, F_SETFL, fcntl(file, F_GETFL) | O_DIRECT);
    if (!strcmp(verb, "node")) {
        unsigned long nodes = 1UL << first;

        /* MPOL_BIND */
        return !syscall(SYS_set_mempolicy, 2, &nodes, 64UL);
    }
    if (!writes && !checks && strcmp(verb, "read"))
        return false;
    for (uint64_t at = first; at < first + count; at++) {
        off_t offset = (off_t)(at * PAGE);
        for (size_t word = 0; word < COUNT_OF(expected); word++)
            expected[word] = at << 8 | version;
        if (writes ? pwrite(file, expected, PAGE, offset) != PAGE : pread(file, page, PAGE, offset) != PAGE)
            return false;
        if (checks && memcmp(page, expected, PAGE))
            return false;
    }
    return true;
}

int main(int nr_words, char **words)
{
    char line[256], verb[16];
    if (nr_words != 2)
        die("usage: reader PATH");
    int file = open(words[1], O_RDWR);
    if (file < 0 || posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM))
        die("reader: %s: %s", words[1], strerror(errno));
    off_t bytes = lseek(file, 0, SEEK_END);
    printf("ready 0x0 %" PRIu64 " %d\n", (uint64_t)bytes / PAGE, (int)getpid());
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        uint64_t first = 0, count = 0, version = 0;
        bool is_done = sscanf(line, "%15s %" SCNu64 " %" SCNu64 " %" SCNu64, verb, &first, &count, &version) > 0 &&
                       obey(file, verb, first, count, version);
        printf("%s\n", is_done ? "ok" : "error: that is no such part of the file");
        fflush(stdout);
    }
    return 0;
}
