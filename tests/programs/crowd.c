/*
 * crowd: very many small programs, one or three in each of many cgroups.
 *
 *   crowd --prefix /sys/fs/cgroup/memory/x- --groups 2000 --size 1M --hot 128K --every 30
 *   {"program":"crowd","groups":2000,"processes":5000}        when all have touched theirs; they end with their parent
 *
 * The groups x-0, x-1 ... must be there. Each process fills --size bytes, and reads the first --hot of them every so many
 * seconds, not all at the same moment.
 */
#include "common.h"
#include <signal.h>
#include <sys/prctl.h>

static uint64_t groups = 1, size = MIB, hot = 128 << 10;
static double every_s = 30;
static const char *prefix = "";

__attribute__((noreturn))
static void be_one(uint64_t number, uint64_t nr_group, int ready)
{
    char path[4096];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(path, sizeof path, "%s%" PRIu64 "/cgroup.procs", prefix, nr_group);
    FILE *file = fopen(path, "w");
    if (!file || fprintf(file, "0\n") < 0 || fclose(file))
        die("crowd: can't enter %s: %s", path, strerror(errno));
    uint8_t *region = map_pages(size);
    for (uint64_t done = 0; done + PAGE <= size; done += PAGE)
        fill_page(region + done, number + done);
    if (write(ready, "", 1) != 1)
        exit(2);
    close(ready);
    sleep_s(every_s * (double)random_below(&number, 1000) / 1000);
    for (volatile uint8_t sum = 0;; sleep_s(every_s))
        for (uint64_t done = 0; done < hot && done < size; done += PAGE)
            sum += region[done];
}

int main(int argc, char **argv)
{
    const struct option_spec options[] = {
        {"prefix", OPTION_TEXT, &prefix, "path of the groups without their numbers"},
        {"groups", OPTION_NUMBER, &groups, "how many (1)"},
        {"size", OPTION_SIZE, &size, "bytes of each process (1M)"},
        {"hot", OPTION_SIZE, &hot, "of which it uses so many again and again (128K)"},
        {"every", OPTION_REAL, &every_s, "seconds from one use to the next (30)"},
    };
    parse_options(argc, argv, options, COUNT_OF(options));
    int ready[2];
    uint64_t processes = 0;
    if (pipe(ready))
        die("crowd: pipe: %s", strerror(errno));
    for (uint64_t group = 0; group < groups; group++) {
        for (uint64_t i = 0; i < (group % 4 ? 3 : 1); i++, processes++) {
            pid_t pid = fork();
            if (pid < 0)
                die("crowd: fork: %s", strerror(errno));
            if (!pid)
                be_one(processes, group, ready[1]);
        }
    }
    close(ready[1]);
    for (uint64_t i = 0; i < processes; i++)
        if (read(ready[0], &(char){0}, 1) != 1)
            die("crowd: a process has ended");
    printf("{\"program\":\"crowd\",\"groups\":%" PRIu64 ",\"processes\":%" PRIu64 "}\n", groups, processes);
    fflush(stdout);
    linger(0);
}
