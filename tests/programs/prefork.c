/*
 * prefork: a server that fills memory and then forks, as many servers do.
 *
 *   prefork --size 256M --children 5 --own 8M --hot 4M --object 32M [--group /sys/fs/cgroup/memory/x]
 *   {"program":"prefork","pid":70,"children":[71,72]}      when all are ready; all run until the parent is killed
 *
 * The parent fills --size bytes of private memory and --object bytes of shared memory. Each child enters the cgroup
 * --group and writes the first --own bytes of the private memory, which become its own pages. All of them read everything once, and then the last --hot
 * bytes of the private memory again and again.
 */
#include "common.h"
#include <signal.h>
#include <sys/prctl.h>

static uint64_t read_pages(const volatile uint8_t *at, uint64_t bytes)
{
    uint64_t sum = 0;
    for (uint64_t done = 0; done < bytes; done += PAGE)
        sum += at[done];
    return sum;
}

static void enter(const char *group)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/cgroup.procs", group);
    FILE *file = fopen(path, "w");
    if (!file || fprintf(file, "0\n") < 0 || fclose(file))
        die("can't enter %s: %s", group, strerror(errno));
}

int main(int argc, char **argv)
{
    uint64_t size = 64 * MIB, children = 4, own = 0, hot = MIB, object = PAGE;
    const char *group = NULL;
    const struct option_spec options[] = {
        {"size", OPTION_SIZE, &size, "private bytes that the parent fills (64M)"},
        {"children", OPTION_NUMBER, &children, "how many (4)"},
        {"own", OPTION_SIZE, &own, "bytes of these that each child writes (0)"},
        {"hot", OPTION_SIZE, &hot, "bytes of these that all read again and again (1M)"},
        {"object", OPTION_SIZE, &object, "shared bytes that the parent fills (4K)"},
        {"group", OPTION_TEXT, &group, "a cgroup that the children enter"},
    };
    parse_options(argc, argv, options, COUNT_OF(options));
    if (own + hot > size)
        die("--own and --hot don't fit into --size");
    uint8_t *inherited = map_pages(size);
    for (uint64_t done = 0; done < size; done += PAGE)
        fill_page(inherited + done, done + 1);
    uint8_t *shared = mmap(NULL, object, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        die("mmap of shared memory failed: %s", strerror(errno));
    memset(shared, 1, object);
    int ready[2];
    if (pipe(ready))
        die("pipe failed: %s", strerror(errno));
    printf("{\"program\":\"prefork\",\"pid\":%d,\"children\":[", getpid());
    fflush(stdout);
    for (uint64_t i = 0; i < children; i++) {
        pid_t pid = fork();
        if (pid < 0)
            die("fork failed: %s", strerror(errno));
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (group)
                enter(group);
            for (uint64_t done = 0; done < own; done += PAGE)
                fill_page(inherited + done, i + 2);
            read_pages(inherited, size);
            read_pages(shared, object);
            if (write(ready[1], "r", 1) != 1)
                _exit(1);
            for (;;) {
                read_pages(inherited + size - hot, hot);
                sleep_s(0.02);
            }
        }
        printf("%s%d", i ? "," : "", pid);
        fflush(stdout);
    }
    for (uint64_t i = 0; i < children; i++) {
        char byte;
        if (read(ready[0], &byte, 1) != 1)
            die("a child is gone");
    }
    printf("]}\n");
    fflush(stdout);
    for (;;) {
        read_pages(inherited + size - hot, hot);
        sleep_s(0.02);
    }
}
