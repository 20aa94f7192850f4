/*
 * stall: writes to a shared mapping of a file, which waits as long as the file system is frozen, while it goes on mapping and
 * unmapping memory.
 *
 *   stall --file PATH
 *   {"program":"stall","pid":123}         when the file is mapped; then commands, a letter a line:
 *     w   a thread writes to the mapping          ok
 *     p   another thread takes the right to write to the second half, which waits for the first thread
 *     n   how often memory was mapped and unmapped so far, a number
 *
 * Ends with its stdin.
 */
#include "common.h"
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>

static uint8_t *shared;
static sem_t write_now, protect_now;
static volatile uint64_t nr_maps;

static void *write_shared(void *unused)
{
    (void)unused;
    sem_wait(&write_now);
    shared[0] = 1;
    return NULL;
}

static void *protect_shared(void *unused)
{
    (void)unused;
    sem_wait(&protect_now);
    mprotect(shared + MIB / 2, MIB / 2, PROT_READ);
    return NULL;
}

static void *map_all_the_time(void *unused)
{
    (void)unused;
    for (;;) {
        void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        munmap(page, PAGE);
        nr_maps++;
        usleep(1000);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const char *path = NULL;
    const struct option_spec options[] = {
        {"file", OPTION_TEXT, &path, "the file, made if it is not there"},
    };
    parse_options(argc, argv, options, COUNT_OF(options));
    int file = open(path ? path : "", O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, MIB))
        die("stall: %s: %s", path ? path : "no file", strerror(errno));
    shared = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (shared == MAP_FAILED)
        die("stall: mmap: %s", strerror(errno));
    /* So that the write finds the page, and only has to be allowed. */
    (void)*(volatile uint8_t *)shared;
    sem_init(&write_now, 0, 0);
    sem_init(&protect_now, 0, 0);
    pthread_t thread;
    pthread_create(&thread, NULL, write_shared, NULL);
    pthread_create(&thread, NULL, protect_shared, NULL);
    pthread_create(&thread, NULL, map_all_the_time, NULL);
    printf("{\"program\":\"stall\",\"pid\":%d}\n", getpid());
    fflush(stdout);
    for (int letter; (letter = getchar()) != EOF;) {
        if (letter == 'w')
            sem_post(&write_now);
        else if (letter == 'p')
            sem_post(&protect_now);
        else if (letter != 'n')
            continue;
        if (letter == 'n')
            printf("%" PRIu64 "\n", nr_maps);
        else
            printf("ok\n");
        fflush(stdout);
    }
    _exit(0);
}
