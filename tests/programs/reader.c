/*
 * reader: reads pages of a file through a descriptor, as stdin says, one command a line.
 *
 *   reader PATH
 *   ready 0x0 4096 4711           0, pages of the file, pid
 *
 * Every command is answered by `ok` or `error ...`. FIRST and COUNT are pages of the file.
 *   read FIRST COUNT              each page once, one after the other; no page is read ahead
 *   node N                        what it reads in from now on comes to this memory node
 */
#include "common.h"
#include <fcntl.h>
#include <sys/syscall.h>

int main(int nr_words, char **words)
{
    static char page[PAGE], line[256];
    if (nr_words != 2)
        die("usage: reader PATH");
    int file = open(words[1], O_RDONLY);
    if (file < 0 || posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM))
        die("reader: %s: %s", words[1], strerror(errno));
    off_t bytes = lseek(file, 0, SEEK_END);
    printf("ready 0x0 %" PRIu64 " %d\n", (uint64_t)bytes / PAGE, (int)getpid());
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        uint64_t first, count;
        bool is_read = sscanf(line, "read %" SCNu64 " %" SCNu64, &first, &count) == 2;
        if (sscanf(line, "node %" SCNu64, &first) == 1) {
            unsigned long nodes = 1UL << first;

            /* MPOL_BIND */
            is_read = !syscall(SYS_set_mempolicy, 2, &nodes, 64UL);
            count = 0;
        }
        for (uint64_t at = 0; is_read && at < count; at++)
            is_read = pread(file, page, PAGE, (off_t)((first + at) * PAGE)) == PAGE;
        printf("%s\n", is_read ? "ok" : "error: that is no such part of the file");
        fflush(stdout);
    }
    return 0;
}
