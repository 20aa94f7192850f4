/*
 * touch: a region of memory that does what stdin says, one command a line.
 *
 *   touch --size 64M [--file PATH] [--shared] [--thp]
 *   ready 0x7f0123400000 16384 4711              address, pages, pid
 *
 * Every command is answered by `ok ...` or `error ...`. FIRST and COUNT are pages of the region.
 *   read SEED N | write SEED N    touch N distinct pages, chosen by SEED (see pick())
 *   readrange FIRST COUNT | writerange FIRST COUNT
 *   verify FIRST COUNT            every written page still holds what was written: ok BAD
 *   hammer SEED N | rest          a thread reads that set in a loop until `rest`, forgetting its address
 *                                 translations before each round, as whoever maps and unmaps memory does
 *   hammerrange FIRST COUNT       hammer of the pages of a range
 *   bind nodeN FIRST COUNT        they may lie on this memory node alone, and move there
 *   advise WHAT FIRST COUNT       hugepage nohugepage collapse cold pageout dontneed random mergeable
 *   lock FIRST COUNT | unlock FIRST COUNT
 *   protect none|read|write FIRST COUNT
 *   unmap FIRST COUNT | remap FIRST COUNT        remap puts fresh anonymous pages there
 *   uffd FIRST COUNT              registers the range with userfaultfd (missing pages)
 *   resident FIRST COUNT          ok PAGES, by mincore
 *   fork N | reap                 N children that sleep; ends them
 *   threads N                     N threads that sleep
 *   leaderexit                    the main thread exits, another one goes on obeying
 *   exec                          becomes the same program anew, with the same options: ready ...
 *   flush                         drops every address translation the processors hold for us
 *   sleep SECONDS | exit CODE
 */
#include "common.h"
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifndef MADV_COLD
#define MADV_COLD 20
#endif
#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

static uint8_t *region;
static uint64_t nr_pages;
static uint8_t *written; /* pages whose content verify() knows */
static char **arguments;
static pid_t children[1024];
static size_t nr_children;
static atomic_bool hammering;
static pthread_t hammer_thread;
static uint64_t *hammer_set, hammer_count;

/* N distinct pages: the first N of a Fisher-Yates shuffle of all, by splitmix64(SEED). */
static uint64_t *pick(uint64_t seed, uint64_t count)
{
    uint64_t *all = malloc(nr_pages * sizeof *all);
    if (!all || count > nr_pages)
        die("touch: can't pick %" PRIu64 " pages", count);
    for (uint64_t i = 0; i < nr_pages; i++)
        all[i] = i;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t k = i + random_below(&seed, nr_pages - i), page = all[k];
        all[k] = all[i];
        all[i] = page;
    }
    return all;
}

static uint64_t read_page(uint64_t index) { return *(volatile uint64_t *)(region + index * PAGE); }

static void write_page(uint64_t index)
{
    *(volatile uint64_t *)(region + index * PAGE) = index ^ 0x5742aa55u;
    written[index] = 1;
}

static void *hammer(void *unused)
{
    (void)unused;
    while (atomic_load_explicit(&hammering, memory_order_relaxed)) {
        forget_translations();
        for (uint64_t i = 0; i < hammer_count; i++)
            read_page(hammer_set[i]);
    }
    return NULL;
}

static void *sleeper(void *unused)
{
    (void)unused;
    linger(0);
    return NULL;
}

static int advice_of(const char *word)
{
    static const struct { const char *word; int advice; } known[] = {
        {"hugepage", MADV_HUGEPAGE}, {"nohugepage", MADV_NOHUGEPAGE}, {"collapse", MADV_COLLAPSE},
        {"cold", MADV_COLD}, {"pageout", MADV_PAGEOUT}, {"dontneed", MADV_DONTNEED},
        {"random", MADV_RANDOM}, {"mergeable", MADV_MERGEABLE},
    };
    for (size_t i = 0; i < COUNT_OF(known); i++)
        if (!strcmp(known[i].word, word))
            return known[i].advice;
    return -1;
}

static int register_uffd(void *at, uint64_t bytes)
{
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register range = {
        .range = {(uintptr_t)at, bytes}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api))
        return -1;
    return ioctl(fd, UFFDIO_REGISTER, &range);
}

static uint64_t resident(uint8_t *at, uint64_t count)
{
    unsigned char *in_core = malloc(count);
    uint64_t sum = 0;
    if (!in_core || mincore(at, count * PAGE, in_core))
        die("touch: mincore: %s", strerror(errno));
    for (uint64_t i = 0; i < count; i++)
        sum += in_core[i] & 1;
    free(in_core);
    return sum;
}

static void answer(int result)
{
    if (result)
        printf("error %s\n", strerror(errno));
    else
        printf("ok\n");
}

static void fork_children(uint64_t count)
{
    pid_t parent = getpid();
    printf("ok");
    fflush(stdout);
    for (uint64_t i = 0; i < count && nr_children < COUNT_OF(children); i++) {
        pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent)
                _exit(0);
            linger(0);
        }
        if (pid > 0) {
            children[nr_children++] = pid;
            printf(" %d", pid);
        }
    }
    printf("\n");
}

static void reap_children(void)
{
    for (size_t i = 0; i < nr_children; i++) {
        kill(children[i], SIGKILL);
        waitpid(children[i], NULL, 0);
    }
    nr_children = 0;
    answer(0);
}

static void rest(void)
{
    if (atomic_exchange(&hammering, false)) {
        pthread_join(hammer_thread, NULL);
        free(hammer_set);
    }
    answer(0);
}

static void hammer_on(uint64_t *set, uint64_t count)
{
    hammer_set = set;
    hammer_count = count;
    atomic_store(&hammering, true);
    answer(pthread_create(&hammer_thread, NULL, hammer, NULL));
}

static int bind(void *at, uint64_t bytes, unsigned node)
{
    unsigned long nodes = 1UL << node;

    /* MPOL_BIND, MPOL_MF_MOVE */
    return (int)syscall(SYS_mbind, at, bytes, 2, &nodes, 64UL, 2U);
}

/* Commands whose arguments are two numbers that need not be a range of pages. */
static bool obey_set(const char *verb, uint64_t seed, uint64_t count)
{
    bool reads = !strcmp(verb, "read"), writes = !strcmp(verb, "write");
    bool hammers = !strcmp(verb, "hammer");
    if (!reads && !writes && !hammers)
        return false;
    if (count > nr_pages) {
        printf("error only %" PRIu64 " pages\n", nr_pages);
        return true;
    }
    uint64_t *set = pick(seed, count);
    for (uint64_t i = 0; i < count; i++) {
        if (writes)
            write_page(set[i]);
        else
            read_page(set[i]);
    }
    if (hammers && !atomic_load(&hammering)) {
        hammer_on(set, count);
        return true;
    }
    free(set);
    answer(0);
    return true;
}

static void obey_range(const char *verb, const char *word, uint64_t first, uint64_t count)
{
    if (first > nr_pages || count > nr_pages - first) {
        printf("error outside of the region\n");
        return;
    }
    uint8_t *at = region + first * PAGE;
    uint64_t bytes = count * PAGE, bad = 0;
    if (!strcmp(verb, "readrange") || !strcmp(verb, "writerange")) {
        for (uint64_t i = first; i < first + count; i++) {
            if (*verb == 'w')
                write_page(i);
            else
                read_page(i);
        }
        answer(0);
    } else if (!strcmp(verb, "verify")) {
        for (uint64_t i = first; i < first + count; i++)
            bad += written[i] && read_page(i) != (i ^ 0x5742aa55u);
        printf("ok %" PRIu64 "\n", bad);
    } else if (!strcmp(verb, "resident")) {
        printf("ok %" PRIu64 "\n", resident(at, count));
    } else if (!strcmp(verb, "advise")) {
        if (!strcmp(word, "dontneed"))
            memset(written + first, 0, count);
        answer(madvise(at, bytes, advice_of(word)));
    } else if (!strcmp(verb, "hammerrange") && !atomic_load(&hammering)) {
        uint64_t *set = malloc(count * sizeof *set);

        for (uint64_t i = 0; set && i < count; i++)
            set[i] = first + i;
        hammer_on(set, set ? count : 0);
    } else if (!strcmp(verb, "bind")) {
        answer(bind(at, bytes, (unsigned)strtoul(word + strlen("node"), NULL, 10)));
    } else if (!strcmp(verb, "lock")) {
        answer(mlock(at, bytes));
    } else if (!strcmp(verb, "unlock")) {
        answer(munlock(at, bytes));
    } else if (!strcmp(verb, "protect")) {
        int protection = !strcmp(word, "none") ? PROT_NONE
                         : !strcmp(word, "read") ? PROT_READ : PROT_READ | PROT_WRITE;
        answer(mprotect(at, bytes, protection));
    } else if (!strcmp(verb, "unmap")) {
        memset(written + first, 0, count);
        answer(munmap(at, bytes));
    } else if (!strcmp(verb, "remap")) {
        memset(written + first, 0, count);
        answer(mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                    0) == MAP_FAILED);
    } else if (!strcmp(verb, "uffd")) {
        answer(register_uffd(at, bytes));
    } else {
        printf("error unknown command %s\n", verb);
    }
}

static void *obey(void *unused);

static void obey_line(const char *line)
{
    char verb[16] = "", word[16] = "";
    uint64_t a = 0, b = 0;
    double real = 0;
    if (sscanf(line, "%15s %" SCNu64 " %" SCNu64, verb, &a, &b) < 2)
        sscanf(line, "%15s %15s %" SCNu64 " %" SCNu64, verb, word, &a, &b);
    if (obey_set(verb, a, b)) {
        return;
    } else if (!strcmp(verb, "rest")) {
        rest();
    } else if (!strcmp(verb, "fork")) {
        fork_children(a);
    } else if (!strcmp(verb, "exec")) {
        /* The first thread may have ended, and has no program then. */
        execv("/proc/thread-self/exe", arguments);
        answer(1);
    } else if (!strcmp(verb, "flush")) {
        forget_translations();
        answer(0);
    } else if (!strcmp(verb, "reap")) {
        reap_children();
    } else if (!strcmp(verb, "threads")) {
        int failed = 0;
        for (uint64_t i = 0; i < a && !failed; i++) {
            pthread_t thread;
            failed = pthread_create(&thread, NULL, sleeper, NULL);
        }
        answer(failed);
    } else if (!strcmp(verb, "leaderexit")) {
        pthread_t heir;
        if (pthread_create(&heir, NULL, obey, NULL)) {
            answer(1);
            return;
        }
        pthread_exit(NULL); /* the heir says ok once the leader is a zombie */
    } else if (!strcmp(verb, "sleep")) {
        sscanf(line, "%*s %lf", &real);
        sleep_s(real);
        answer(0);
    } else if (!strcmp(verb, "exit")) {
        exit((int)a);
    } else {
        obey_range(verb, word, a, b);
    }
}

static bool leader_is_gone(void)
{
    char path[64], text[512] = "", state = '?';
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", getpid());
    FILE *file = fopen(path, "r");
    if (file) {
        if (fread(text, 1, sizeof text - 1, file) > 0)
            sscanf(strrchr(text, ')') ? strrchr(text, ')') : ") ?", ") %c", &state);
        fclose(file);
    }
    return state == 'Z';
}

static void *obey(void *heir)
{
    (void)heir;
    static char line[256];
    if (gettid() != getpid()) {
        while (!leader_is_gone())
            sleep_s(0.001);
        answer(0);
        fflush(stdout);
    }
    while (fgets(line, sizeof line, stdin)) {
        obey_line(line);
        fflush(stdout);
    }
    exit(0);
}

int main(int argc, char **argv)
{
    arguments = argv;
    uint64_t size = 64 * MIB;
    const char *path = NULL;
    bool shared = false, thp = false;
    const struct option_spec options[] = {
        {"size", OPTION_SIZE, &size, "bytes of the region (64M)"},
        {"file", OPTION_TEXT, &path, "map this file (made or extended), else anonymous memory"},
        {"shared", OPTION_FLAG, &shared, "MAP_SHARED instead of MAP_PRIVATE"},
        {"thp", OPTION_FLAG, &thp, "MADV_HUGEPAGE before the first touch"},
    };
    parse_options(argc, argv, options, COUNT_OF(options));
    nr_pages = size / PAGE;
    written = calloc(nr_pages + 1, 1);
    int fd = -1;
    if (path && ((fd = open(path, O_RDWR | O_CREAT, 0600)) < 0 || posix_fallocate(fd, 0, (off_t)size)))
        die("touch: %s: %s", path, strerror(errno));
    /* 2 MiB alignment, so that huge pages fit and page numbers map to tables the same way always. */
    uint64_t huge = 2 * MIB;
    uint8_t *room = mmap(NULL, size + huge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED || !nr_pages || !written)
        die("touch: no room for %" PRIu64 " bytes", size);
    uint8_t *aligned = (uint8_t *)(((uintptr_t)room + huge - 1) & ~(uintptr_t)(huge - 1));
    region = mmap(aligned, nr_pages * PAGE, PROT_READ | PROT_WRITE,
                  (shared ? MAP_SHARED : MAP_PRIVATE) | (path ? 0 : MAP_ANONYMOUS) | MAP_FIXED, fd, 0);
    if (region == MAP_FAILED)
        die("touch: mmap: %s", strerror(errno));
    /* What is left of the reservation would only be another line in maps. */
    munmap(room, (size_t)(aligned - room));
    munmap(aligned + nr_pages * PAGE, (size_t)(room + size + huge - (aligned + nr_pages * PAGE)));
    madvise(region, nr_pages * PAGE, thp ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    printf("ready %p %" PRIu64 " %d\n", (void *)region, nr_pages, getpid());
    fflush(stdout);
    obey(NULL);
}
