/*
 * replay: makes the accesses of a page trace for real, inside a memory cgroup, and counts what came back.
 *
 *   replay --trace FILE.csv --file DATA --group /sys/fs/cgroup/kernels
 *   {"program":"replay","accesses":819200,"distinct_pages":45820,"bad":0,"read_backs":75826,...}
 *
 * The trace is CSV as `strata trace convert --to csv` writes it; each space of it is a process here, and
 * they take turns in exactly its order. Anon pages are private memory; file pages are pages of DATA,
 * read with pread() or through a shared read-only mapping. Page p of DATA begins with its number
 * (`replay --make DATA --pages N` writes such a file), as does a page of anon memory once it was written;
 * every access checks that. What the replay itself needs is touched before the processes enter the
 * group, so that all that is charged there are pages of the trace and what the kernel needs for them.
 *
 * read_backs = (file pages read - distinct file pages) + swap-ins, from /proc/vmstat: nothing else may
 * read or swap meanwhile. Exit 0 if every page was right, else 1.
 */
#include "common.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#define PROCESSES_MAX 8u
#define HEADER "time_us,group,space,page,size,op,via,backing\n"

enum { WRITE = 1, THROUGH_FD = 2, ANON = 4, FIRST = 8 };

struct access {
    uint32_t page;
    uint8_t process, flags;
};

/* What a process needs: pages of its anon memory and of the file. */
struct extent {
    uint64_t anon, file;
};

static struct access *trace;
static uint64_t accesses, distinct, distinct_file;
static struct extent extents[PROCESSES_MAX];
static uint32_t processes;
static int turns[PROCESSES_MAX][2], ready[2];
static uint64_t *bad; /* shared */

static void make_file(const char *path, uint64_t pages)
{
    static uint8_t page[PAGE];
    FILE *file = fopen(path, "w");
    if (!file)
        die("replay: %s: %s", path, strerror(errno));
    for (uint64_t i = 0; i < pages; i++) {
        uint32_t number = (uint32_t)i;
        memcpy(page, &number, sizeof number);
        if (fwrite(page, PAGE, 1, file) != 1)
            die("replay: writing %s: %s", path, strerror(errno));
    }
    if (fclose(file))
        die("replay: writing %s: %s", path, strerror(errno));
}

/* The text of the n-th field behind `at`, which stands at the beginning of a line. */
static const char *field(const char *at, int n)
{
    while (n--) {
        at = strchr(at, ',');
        if (!at)
            die("replay: a line of the trace has too few fields");
        at++;
    }
    return at;
}

static struct access parse(const char *line)
{
    uint64_t space = strtoull(field(line, 2), NULL, 10), page = strtoull(field(line, 3), NULL, 10);
    const char *op = field(line, 5), *via = field(op, 1), *backing = field(via, 1);
    if (space >= PROCESSES_MAX || page > UINT32_MAX)
        die("replay: space %" PRIu64 ", page %" PRIu64 ": too large", space, page);
    int flags = (*op == 'w' ? WRITE : 0) | (*via == 'f' ? THROUGH_FD : 0) | (*backing == 'a' ? ANON : 0);
    if ((flags & ANON && flags & THROUGH_FD) || (flags & WRITE && !(flags & ANON)))
        die("replay: neither anon through a descriptor nor writes to files are replayed");
    return (struct access){(uint32_t)page, (uint8_t)space, (uint8_t)flags};
}

static void load(const char *path)
{
    char line[256];
    uint64_t capacity = 0;
    FILE *file = fopen(path, "r");
    if (!file || !fgets(line, sizeof line, file) || strcmp(line, HEADER))
        die("replay: %s: %s", path, file ? "not a trace in CSV" : strerror(errno));
    while (fgets(line, sizeof line, file)) {
        if (accesses == capacity) {
            capacity = capacity ? 2 * capacity : 1u << 16;
            trace = realloc(trace, capacity * sizeof *trace);
            if (!trace)
                die("replay: no memory for the trace");
        }
        struct access access = trace[accesses++] = parse(line);
        struct extent *extent = &extents[access.process];
        uint64_t *pages = access.flags & ANON ? &extent->anon : &extent->file;
        *pages = *pages > access.page ? *pages : access.page + 1ull;
        processes = processes > access.process ? processes : access.process + 1u;
    }
    fclose(file);
    if (!accesses)
        die("replay: %s holds no access", path);
}

/* Marks the first access of each page: whatever it reads is no read-back. Spaces share the file. */
static void mark_first(void)
{
    uint64_t file_pages = 0;
    uint8_t *is_known[PROCESSES_MAX + 1] = {NULL};
    for (uint32_t i = 0; i < processes; i++) {
        is_known[i] = calloc(extents[i].anon + 1, 1);
        file_pages = file_pages > extents[i].file ? file_pages : extents[i].file;
    }
    uint8_t *of_file = is_known[PROCESSES_MAX] = calloc(file_pages + 1, 1);
    for (uint64_t i = 0; i < accesses; i++) {
        bool is_anon = trace[i].flags & ANON;
        uint8_t *known = (is_anon ? is_known[trace[i].process] : of_file) + trace[i].page;
        if (!*known) {
            *known = 1;
            trace[i].flags |= FIRST;
            distinct++;
            distinct_file += !is_anon;
        }
    }
    for (uint32_t i = 0; i <= PROCESSES_MAX; i++)
        free(is_known[i]);
}

static void enter(const char *group)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/cgroup.procs", group);
    int procs = open(path, O_WRONLY | O_CLOEXEC);
    if (procs < 0 || write(procs, "0", 1) != 1)
        die("replay: entering %s: %s", group, strerror(errno));
    close(procs);
}

/* The number in a line `NAME NUMBER` of a file below a directory. */
static uint64_t number_in(const char *directory, const char *name, const char *what)
{
    char path[4096], key[64];
    uint64_t number;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "r");
    if (!file)
        die("replay: %s: %s", path, strerror(errno));
    while (fscanf(file, "%63s %" SCNu64 "%*[^\n]", key, &number) == 2)
        if (!strcmp(key, what)) {
            fclose(file);
            return number;
        }
    die("replay: %s has no %s", path, what);
}

static uint64_t pages_read(void)
{
    return number_in("/proc", "vmstat", "pgpgin") / (PAGE / 1024);
}

static uint64_t swap_ins(void)
{
    return number_in("/proc", "vmstat", "pswpin");
}

/* Since 6.3 what is read from a disk of compressed memory counts as read from a disk. */
static bool counts_swap_as_read(void)
{
    struct utsname kernel;
    int major = 0, minor = 0;
    return !uname(&kernel) && sscanf(kernel.release, "%d.%d", &major, &minor) == 2 &&
           (major > 6 || (major == 6 && minor >= 3));
}

static void pass_turn(uint32_t to, uint64_t next)
{
    if (write(turns[to][1], &next, sizeof next) != sizeof next)
        die("replay: passing the turn: %s", strerror(errno));
}

/* One access. An exchange is a write from the first, never a read that is followed by one. */
static bool is_right(struct access access, int data, uint32_t *anon, const uint32_t *mapped)
{
    static uint32_t page[PAGE / 4];
    size_t word = (size_t)access.page * (PAGE / 4);
    if (access.flags & THROUGH_FD)
        return pread(data, page, PAGE, (off_t)access.page * PAGE) == PAGE && page[0] == access.page;
    if (!(access.flags & ANON))
        return *(const volatile uint32_t *)&mapped[word] == access.page;
    uint32_t found = access.flags & WRITE
                         ? __atomic_exchange_n(&anon[word], access.page, __ATOMIC_RELAXED)
                         : *(volatile uint32_t *)&anon[word];
    return found == (access.flags & FIRST ? 0 : access.page);
}

/* Enters the group, then replays what is this process's whenever it is its turn, until all is done. */
static void replay(uint32_t process, const char *group, const char *path)
{
    struct extent extent = extents[process];
    uint32_t *anon = NULL, *mapped = NULL;
    int data = -1;
    enter(group);
    if (extent.file) {
        data = open(path, O_RDONLY | O_CLOEXEC);
        if (data < 0 || posix_fadvise(data, 0, 0, POSIX_FADV_RANDOM))
            die("replay: %s: %s", path, strerror(errno));
        mapped = mmap(NULL, extent.file * PAGE, PROT_READ, MAP_SHARED, data, 0);
        if (mapped == MAP_FAILED)
            die("replay: mapping %s: %s", path, strerror(errno));
    }
    if (extent.anon)
        anon = (uint32_t *)map_pages(extent.anon * PAGE);
    if (write(ready[1], "", 1) != 1)
        die("replay: saying that it is ready: %s", strerror(errno));
    for (uint64_t next; read(turns[process][0], &next, sizeof next) == sizeof next;) {
        if (next == accesses)
            return;
        for (; next < accesses && trace[next].process == process; next++)
            *bad += !is_right(trace[next], data, anon, mapped);
        if (next < accesses)
            pass_turn(trace[next].process, next);
        else
            for (uint32_t i = 0; i < processes; i++)
                pass_turn(i, next);
    }
    die("replay: waiting for the turn: %s", strerror(errno));
}

/* Processes 1 and up; each waits in the end, because what it maps has to be there to be counted. */
static void start_others(pid_t *pids, const char *group, const char *path)
{
    for (uint32_t i = 1; i < processes; i++) {
        pids[i] = fork();
        if (pids[i] < 0)
            die("replay: fork: %s", strerror(errno));
        if (!pids[i]) {
            replay(i, group, path);
            linger(0);
        }
    }
}

/* Process 0 begins when everybody is set up, from a process of its own that was never in the group. */
static pid_t start_clock(uint64_t *reads, uint64_t *swaps)
{
    pid_t pid = fork();
    if (pid < 0)
        die("replay: fork: %s", strerror(errno));
    if (pid)
        return pid;
    char byte;
    for (uint32_t i = 0; i < processes; i++)
        if (read(ready[0], &byte, 1) != 1)
            die("replay: waiting for the others: %s", strerror(errno));
    *reads = pages_read();
    *swaps = swap_ins();
    pass_turn(trace[0].process, 0);
    exit(0);
}

int main(int argc, char **argv)
{
    const char *path = NULL, *group = NULL, *data = NULL, *make = NULL;
    uint64_t pages = 0;
    const struct option_spec options[] = {
        {"trace", OPTION_TEXT, &path, "accesses, as CSV"},
        {"file", OPTION_TEXT, &data, "what file pages are read from"},
        {"group", OPTION_TEXT, &group, "directory of the cgroup to run in"},
        {"make", OPTION_TEXT, &make, "write a file to read from instead"},
        {"pages", OPTION_NUMBER, &pages, "its size"},
    };
    parse_options(argc, argv, options, COUNT_OF(options));
    if (make) {
        make_file(make, pages);
        return 0;
    }
    if (!path || !group || !data)
        die("replay: --trace, --file and --group are needed");
    load(path);
    mark_first();
    uint64_t *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || pipe(ready))
        die("replay: %s", strerror(errno));
    memset(shared, 0, PAGE);
    bad = shared;
    for (uint32_t i = 0; i < processes; i++)
        if (pipe(turns[i]))
            die("replay: %s", strerror(errno));
    pid_t pids[PROCESSES_MAX];
    pids[0] = start_clock(&shared[1], &shared[2]);
    start_others(pids, group, data);
    double start_s = now_s();
    replay(0, group, data);
    uint64_t swapped = swap_ins() - shared[2];
    uint64_t read = pages_read() - shared[1] - (counts_swap_as_read() ? swapped : 0);
    printf("{\"program\":\"replay\",\"accesses\":%" PRIu64 ",\"distinct_pages\":%" PRIu64 ",\"bad\":%" PRIu64
           ",\"read_backs\":%" PRId64 ",\"swap_ins\":%" PRIu64 ",\"capacity_pages\":%" PRIu64
           ",\"scanned_pages\":%" PRIu64 ",\"stolen_pages\":%" PRIu64 ",\"seconds\":%.0f}\n",
           accesses, distinct, *bad, (int64_t)(read - distinct_file + swapped), swapped,
           (number_in(group, "memory.stat", "anon") + number_in(group, "memory.stat", "file")) / PAGE,
           number_in(group, "memory.stat", "pgscan"), number_in(group, "memory.stat", "pgsteal"),
           now_s() - start_s);
    fflush(stdout);
    bool was_right = !*bad;
    for (uint32_t i = 0; i < processes; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    return was_right ? 0 : 1;
}
