/*
 * sample: watches from outside how a process's memory compares with a budget.
 *
 *   sample --pid 4711 --budget 300M --after 5 --seconds 60
 *   {"program":"sample","samples":550,"usage_above":0,"rss_above":1,"usage_mean":...,"usage_peak":...,
 *    "rss_mean":...,"rss_peak":...}
 *
 * Every 100 ms, from --after seconds on and once usage has reached --from, until --seconds or until the
 * process has ended: usage of its memory cgroup (either version; 0 if it has none of its own) and the
 * resident memory of everybody in it, bytes. Above means by more than a page. Exit status 1 if there
 * was nothing to sample.
 */
#include "common.h"

static char usage_file[600], members_file[600];

static uint64_t read_number(const char *path)
{
    uint64_t number = 0;
    FILE *file = fopen(path, "r");
    if (file) {
        if (fscanf(file, "%" SCNu64, &number) != 1)
            number = 0;
        fclose(file);
    }
    return number;
}

/* Finds the files of the memory cgroup of a process; the root group does not count. */
static void find_group(uint64_t pid)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%" PRIu64 "/cgroup", pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *v1 = strstr(line, ":memory:"), *v2 = strncmp(line, "0::", 3) ? NULL : line + 3;
        const char *mount = v1 ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
        const char *usage = v1 ? "memory.usage_in_bytes" : "memory.current";
        const char *group = v1 ? v1 + strlen(":memory:") : v2;
        char candidate[600];
        if (!group || !strcmp(group, "/"))
            continue;
        snprintf(candidate, sizeof candidate, "%s%.450s/%s", mount, group, usage);
        if (access(candidate, R_OK))
            continue;
        memcpy(usage_file, candidate, sizeof usage_file);
        snprintf(members_file, sizeof members_file, "%s%.450s/cgroup.procs", mount, group);
    }
    if (file)
        fclose(file);
}

static uint64_t rss_of(uint64_t pid)
{
    char path[64];
    uint64_t total, resident = 0;
    snprintf(path, sizeof path, "/proc/%" PRIu64 "/statm", pid);
    FILE *file = fopen(path, "r");
    if (file) {
        if (fscanf(file, "%" SCNu64 " %" SCNu64, &total, &resident) != 2)
            resident = 0;
        fclose(file);
    }
    return resident * PAGE;
}

static uint64_t rss_of_all(uint64_t pid)
{
    FILE *file = *members_file ? fopen(members_file, "r") : NULL;
    if (!file)
        return rss_of(pid);
    uint64_t member, sum = 0;
    while (fscanf(file, "%" SCNu64, &member) == 1)
        sum += rss_of(member);
    fclose(file);
    return sum;
}

int main(int argc, char **argv)
{
    uint64_t pid = 0, budget = 0, from = 0;
    double after = 5, seconds = 60;
    const struct option_spec options[] = {
        {"pid", OPTION_NUMBER, &pid, "the process"},
        {"budget", OPTION_SIZE, &budget, "bytes"},
        {"after", OPTION_REAL, &after, "seconds before the first sample (5)"},
        {"from", OPTION_SIZE, &from, "usage that must have been reached before the first sample (0)"},
        {"seconds", OPTION_REAL, &seconds, "when to stop, from the start (60)"},
    };
    parse_options(argc, argv, options, COUNT_OF(options));
    find_group(pid);
    uint64_t samples = 0, usage_above = 0, rss_above = 0, usage_peak = 0, rss_peak = 0;
    double usage_sum = 0, rss_sum = 0, start = now_s();
    for (double next = start + after; next < start + seconds; next += 0.1) {
        double left = next - now_s();
        if (left > 0)
            sleep_s(left);
        uint64_t usage = read_number(usage_file), rss = rss_of_all(pid);
        if (!rss)
            break;
        if (!samples && usage < from)
            continue;
        samples++;
        usage_above += usage > budget + PAGE;
        rss_above += rss > budget + PAGE;
        usage_peak = usage > usage_peak ? usage : usage_peak;
        rss_peak = rss > rss_peak ? rss : rss_peak;
        usage_sum += (double)usage;
        rss_sum += (double)rss;
    }
    double n = samples ? (double)samples : 1;
    printf("{\"program\":\"sample\",\"samples\":%" PRIu64 ",\"usage_above\":%" PRIu64
           ",\"rss_above\":%" PRIu64 ",\"usage_mean\":%.0f,\"usage_peak\":%" PRIu64
           ",\"rss_mean\":%.0f,\"rss_peak\":%" PRIu64 "}\n",
           samples, usage_above, rss_above, usage_sum / n, usage_peak, rss_sum / n, rss_peak);
    return samples ? 0 : 1;
}
