// Drops from page cache what is there of the files below a directory: forget DIRECTORY.
#define _GNU_SOURCE
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <unistd.h>

static int forget(const char *path, const struct stat *found, int kind, struct FTW *where)
{
    (void)found;
    (void)where;
    if (kind == FTW_F) {
        int file = open(path, O_RDONLY);
        if (file >= 0) {
            posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
            close(file);
        }
    }
    return 0;
}

int main(int nr_words, char **words)
{
    if (nr_words != 2) {
        fprintf(stderr, "usage: forget DIRECTORY\n");
        return 2;
    }
    return nftw(words[1], forget, 64, FTW_PHYS | FTW_MOUNT) != 0;
}
