/*
 * code: a program with 64 MiB of own code, all of which it runs again and again, with a pause.
 *
 *   code --calls 60 --every-ms 500
 *   {"program":"code","calls":60,"p50_us":..,"p99_us":..,"max_us":..,"major_faults":..}
 *
 * A call runs one function on each page of the code. The first call, which reads the file, is in none of the figures. Major
 * faults are those of all calls but the first.
 */
#include "common.h"

#define NR_FUNCTIONS 16384u

/* One function a page: each returns at once. */
__asm__(".pushsection .text.pages, \"ax\", @progbits\n"
        ".balign 4096\n"
        "pages_of_code:\n"
        ".rept 16384\n"
        "ret\n"
        ".balign 4096, 0xcc\n"
        ".endr\n"
        ".popsection\n");
extern const char pages_of_code[];

static void call_all(void)
{
    for (uint64_t page = 0; page < NR_FUNCTIONS; page++) {
        void (*function)(void) = (void (*)(void))(uintptr_t)(pages_of_code + page * PAGE);
        function();
    }
}

static int by_size(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

int main(int argc, char **argv)
{
    uint64_t calls = 60, every_ms = 500;
    const struct option_spec options[] = {
        {"calls", OPTION_NUMBER, &calls, "how often all of the code runs (60)"},
        {"every-ms", OPTION_NUMBER, &every_ms, "from the end of a call to the next, milliseconds (500)"},
    };
    parse_options(argc, argv, options, COUNT_OF(options));
    if (!calls)
        die("--calls is 1 at least");
    double *times_us = calloc(calls, sizeof *times_us);
    if (!times_us)
        die("no memory for %" PRIu64 " times", calls);
    call_all();
    uint64_t before = major_faults();
    for (uint64_t call = 0; call < calls; call++) {
        sleep_s((double)every_ms / 1e3);
        double start = now_s();
        call_all();
        times_us[call] = (now_s() - start) * 1e6;
    }
    uint64_t faults = major_faults() - before;
    qsort(times_us, calls, sizeof *times_us, by_size);
    printf("{\"program\":\"code\",\"calls\":%" PRIu64 ",\"p50_us\":%.0f,\"p99_us\":%.0f,\"max_us\":%.0f,"
           "\"major_faults\":%" PRIu64 "}\n",
           calls, times_us[calls / 2], times_us[(calls * 99) / 100], times_us[calls - 1], faults);
    return 0;
}
