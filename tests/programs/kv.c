/*
 * kv: a client of redis or memcached that draws its keys from a Zipf law.
 *
 * Sets KEYS keys to values of VALUE bytes over a Unix socket, then gets keys for SECONDS, PIPELINE at a
 * time, and checks that each answer is the value that was set. redis is sent that many GETs at once,
 * memcached one `get` of that many keys: it writes an answer for each command, and a client that is woken
 * for each value keeps a processor busy. One JSON line at the end:
 *
 *   kv --socket /run/x.sock --protocol redis --keys 200000 --value 1000 --theta 0.99 --seconds 8
 *   {"program":"kv","keys":200000,"ops":...,"ops_per_s":...,"p50_us":...,"p99_us":...,"verified":0,"missing":0,"bad":0,"seconds":8.0}
 *
 * With --verify every key is got once more at the end and compared with what was set. "p50_us" and "p99_us" are of the time from the sending of PIPELINE gets to the last of their answers. With --asked only
 * that many percent of the keys, those set last, are asked for: the others idle, as most of a store's data does. --any-every
 * N asks for any key at all, each alike, in one get of N. --rate G sends no more than that many gets a second. "missing" counts keys the server no longer has (memcached may evict). --fill-only ends after the
 * setting; --no-fill leaves it out.
 */
#include "common.h"
#include "zipf.h"
#include <sys/socket.h>
#include <sys/un.h>

static const char *socket_path, *protocol = "redis";
static uint64_t keys = 100000, value_bytes = 1000, pipeline = 16, seed = 1, sets = 1;
static uint64_t asked_percent = 100, any_every, rate;
static double theta = 0.99, seconds = 1, phase = 2;
static bool fill_only, no_fill, verify, text, is_redis;

static int server;
static char *out, *in, *value;
static size_t out_used, in_used, in_at;
#define BUFFER (1u << 20)

static void send_all(void)
{
    for (size_t done = 0; done < out_used;) {
        ssize_t sent = write(server, out + done, out_used - done);
        if (sent <= 0)
            die("kv: writing to %s: %s", socket_path, strerror(errno));
        done += (size_t)sent;
    }
    out_used = 0;
}

static void put(const void *bytes, size_t count)
{
    if (out_used + count > BUFFER)
        send_all();
    memcpy(out + out_used, bytes, count);
    out_used += count;
}

static void put_text(const char *text) { put(text, strlen(text)); }

/* At least COUNT unread bytes. */
static const char *need(size_t count)
{
    while (in_used - in_at < count) {
        if (in_at) {
            memmove(in, in + in_at, in_used - in_at);
            in_used -= in_at;
            in_at = 0;
        }
        ssize_t got = read(server, in + in_used, BUFFER - in_used);
        if (got <= 0)
            die("kv: %s ended the connection", socket_path);
        in_used += (size_t)got;
    }
    return in + in_at;
}

/* The next line without its end, good until the next read. */
static const char *next_line(void)
{
    for (size_t length = 0;; length++) {
        const char *from = need(length + 2);
        if (from[length] == '\r' && from[length + 1] == '\n') {
            in[in_at + length] = 0;
            in_at += length + 2;
            return from;
        }
    }
}

/* What values of text are pieces of: words and numbers as in a session or a document, some five sixths of it words. */
static char sample_text[1u << 16];

static void make_sample_text(void)
{
    static const char words[32][8] = {
        "account", "active", "address", "amount", "balance", "city", "country", "created", "credits", "email", "enabled",
        "expires", "family", "given", "history", "invoice", "item", "label", "last", "locale", "member", "name",
        "order", "phone", "price", "product", "session", "state", "street", "token", "updated", "version"};
    uint64_t random = 1;
    for (size_t at = 0, field = 0; at < sizeof sample_text; field++) {
        char part[32];
        size_t length = (size_t)(field % 6 == 5 ? snprintf(part, sizeof part, "%08" PRIx64 ", ", next_random(&random) >> 32)
                                                : snprintf(part, sizeof part, "\"%s\": ", words[random_below(&random, 32)]));
        size_t fits = sizeof sample_text - at < length ? sizeof sample_text - at : length;
        memcpy(sample_text + at, part, fits);
        at += fits;
    }
}

/* Different for each key; without --text half of it is hard to compress. */
static void make_value(uint64_t key)
{
    uint64_t random = key * 7919 + 1;
    if (text) {
        memcpy(value, sample_text + random_below(&random, sizeof sample_text - value_bytes), value_bytes);
        memcpy(value, &key, sizeof key);
        return;
    }
    for (uint64_t i = 0; i + 8 <= value_bytes; i += 8) {
        uint64_t word = i % 16 ? key : next_random(&random);
        memcpy(value + i, &word, 8);
    }
}

static void put_set(uint64_t key)
{
    char head[128];
    make_value(key);
    snprintf(head, sizeof head,
             is_redis ? "*3\r\n$3\r\nSET\r\n$12\r\nk%011" PRIu64 "\r\n$%" PRIu64 "\r\n"
                      : "set k%011" PRIu64 " 0 0 %" PRIu64 "\r\n",
             key, value_bytes);
    put_text(head);
    put(value, value_bytes);
    put_text("\r\n");
}

static void put_gets(const uint64_t *asked, uint64_t count)
{
    char text[128];
    if (!is_redis)
        put_text("get");
    for (uint64_t i = 0; i < count; i++) {
        snprintf(text, sizeof text,
                 is_redis ? "*2\r\n$3\r\nGET\r\n$12\r\nk%011" PRIu64 "\r\n" : " k%011" PRIu64, asked[i]);
        put_text(text);
    }
    if (!is_redis)
        put_text("\r\n");
}

static void take_stored(void)
{
    const char *line = next_line();
    if (strcmp(line, is_redis ? "+OK" : "STORED"))
        die("kv: a set was answered by: %s", line);
}

/* Reads a value of which the head is read, and what ends it. */
static void check_value(uint64_t key, uint64_t *bad)
{
    const char *found = need(value_bytes + 2);
    make_value(key);
    *bad += memcmp(found, value, value_bytes) != 0;
    in_at += value_bytes + 2;
}

/* Reads the answers to gets, checks what is there and counts what is not. */
static void take_values(const uint64_t *asked, uint64_t count, uint64_t *missing, uint64_t *bad)
{
    const char *none = is_redis ? "$-1" : "END";
    uint64_t at = 0;
    while (at < count) {
        const char *line = next_line();
        if (!strcmp(line, none)) {
            /* memcached says nothing of a key that it does not have, and ends the whole answer so. */
            *missing += is_redis ? 1 : count - at;
            if (!is_redis)
                return;
            at++;
            continue;
        }
        if (line[0] != (is_redis ? '$' : 'V'))
            die("kv: a get was answered by: %s", line);
        for (uint64_t key; !is_redis && sscanf(line, "VALUE k%" SCNu64, &key) == 1 && key != asked[at]; at++) {
            if (at + 1 == count)
                die("kv: a value that was not asked for: %s", line);
            *missing += 1;
        }
        check_value(asked[at++], bad);
    }
    if (!is_redis && strcmp(next_line(), none))
        die("kv: more values than were asked for");
}

/* How long answers took: counts in 16 steps to each doubling, so a quantile is right within 1/16. */
static uint64_t took_counts[64 * 16], nr_took;

static void note_took(double seconds_taken)
{
    uint64_t us = seconds_taken > 0 ? (uint64_t)(seconds_taken * 1e6) : 0;
    unsigned top = 63 - (unsigned)__builtin_clzll(us | 1);
    uint64_t step = top < 4 ? us : (uint64_t)(top - 3) * 16 + ((us >> (top - 4)) - 16);
    took_counts[step]++;
    nr_took++;
}

/* The lowest time, microseconds, that is longer than or as long as that share of all; 0 if there are none. */
static uint64_t took_us(double share)
{
    uint64_t wanted = (uint64_t)(share * (double)nr_took), seen = 0;
    for (uint64_t step = 0; step < COUNT_OF(took_counts); step++) {
        seen += took_counts[step];
        if (seen > wanted)
            return step < 16 ? step : (16 + step % 16) << (step / 16 - 1);
    }
    return 0;
}

static void connect_server(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(socket_path) >= sizeof address.sun_path)
        die("kv: the path %s is too long for a socket", socket_path);
    strcpy(address.sun_path, socket_path);
    server = socket(AF_UNIX, SOCK_STREAM, 0);
    if (server < 0 || connect(server, (struct sockaddr *)&address, sizeof address))
        die("kv: connecting to %s: %s", socket_path, strerror(errno));
}

int main(int argc, char **argv)
{
    const struct option_spec options[] = {
        {"socket", OPTION_TEXT, &socket_path, "Unix socket of the server"},
        {"protocol", OPTION_TEXT, &protocol, "redis or memcached (redis)"},
        {"keys", OPTION_NUMBER, &keys, "how many (100000)"},
        {"value", OPTION_NUMBER, &value_bytes, "bytes of a value, a multiple of 8 (1000)"},
        {"theta", OPTION_REAL, &theta, "exponent of the law of keys, 0 = uniform (0.99)"},
        {"seconds", OPTION_REAL, &seconds, "how long to get after setting (1)"},
        {"text", OPTION_FLAG, &text, "values of words and numbers, which compress as text does"},
        {"pipeline", OPTION_NUMBER, &pipeline, "gets in flight (16)"},
        {"sets", OPTION_NUMBER, &sets, "parts of the keys that are asked for in turn (1)"},
        {"phase", OPTION_REAL, &phase, "how long each, seconds (2)"},
        {"asked", OPTION_NUMBER, &asked_percent, "percent of the keys that are asked for, those set last (100)"},
        {"any-every", OPTION_NUMBER, &any_every, "one get in so many is for any key, 0 = none (0)"},
        {"rate", OPTION_NUMBER, &rate, "gets a second at most, 0 = as many as are answered (0)"},
        {"seed", OPTION_NUMBER, &seed, "of every random number (1)"},
        {"fill-only", OPTION_FLAG, &fill_only, "set the keys and end"},
        {"no-fill", OPTION_FLAG, &no_fill, "the keys are there"},
        {"verify", OPTION_FLAG, &verify, "get every key once at the end and compare it"},
    };
    parse_options(argc, argv, options, COUNT_OF(options));
    is_redis = !strcmp(protocol, "redis");
    if (!socket_path || !keys || !sets || keys < sets || phase <= 0 || !pipeline || pipeline > 256 || value_bytes % 8 || !value_bytes || value_bytes > 4096 || !asked_percent || asked_percent > 100 || keys * asked_percent / 100 < sets ||
        (!is_redis && strcmp(protocol, "memcached")))
        die("kv: needs --socket, a protocol, a key for each part and time for it, a pipeline of 1 to 256, values of 8 to 4096 bytes");
    out = malloc(BUFFER);
    in = malloc(BUFFER);
    value = calloc(1, value_bytes);
    uint64_t *asked = calloc(pipeline, sizeof *asked);
    if (!out || !in || !value || !asked)
        die("kv: no memory");
    if (text)
        make_sample_text();
    connect_server();

    for (uint64_t key = 0; !no_fill && key < keys; key += pipeline) {
        uint64_t end = key + pipeline < keys ? key + pipeline : keys;
        for (uint64_t k = key; k < end; k++)
            put_set(k);
        send_all();
        for (uint64_t k = key; k < end; k++)
            take_stored();
    }
    uint64_t nr_asked = keys * asked_percent / 100;
    struct zipf law = zipf_new(nr_asked / sets, theta);
    uint64_t random = seed, ops = 0, missing = 0, bad = 0;
    double start = now_s(), took = 0;
    while (!fill_only && (took = now_s() - start) < seconds) {
        for (uint64_t i = 0; i < pipeline; i++) {
            asked[i] = keys - nr_asked + (uint64_t)(took / phase) % sets * (nr_asked / sets) + zipf_scattered(&law, &random);
            if (any_every && random_below(&random, any_every) == 0)
                asked[i] = random_below(&random, keys);
        }
        double due = rate ? start + (double)ops / (double)rate : 0;
        double early = due - now_s();
        if (early > 0)
            sleep_s(early);
        /* From when it was due: a client that waited for the answer before would hide how late it is. */
        double asked_at = rate ? due : now_s();
        put_gets(asked, pipeline);
        send_all();
        take_values(asked, pipeline, &missing, &bad);
        note_took(now_s() - asked_at);
        ops += pipeline;
    }
    uint64_t verified = 0;
    for (uint64_t key = 0, count; verify && key < keys; key += count) {
        count = keys - key < pipeline ? keys - key : pipeline;
        for (uint64_t i = 0; i < count; i++)
            asked[i] = key + i;
        uint64_t wrong_before = missing + bad;
        put_gets(asked, count);
        send_all();
        take_values(asked, count, &missing, &bad);
        verified += count - (missing + bad - wrong_before);
    }
    printf("{\"program\":\"kv\",\"keys\":%" PRIu64 ",\"ops\":%" PRIu64 ",\"ops_per_s\":%.0f,\"p50_us\":%" PRIu64 ",\"p99_us\":%" PRIu64
           ",\"verified\":%" PRIu64 ",\"missing\":%" PRIu64
           ",\"bad\":%" PRIu64 ",\"seconds\":%.3f}\n",
           keys, ops, took > 0 ? (double)ops / took : 0, took_us(0.5), took_us(0.99), verified, missing, bad, took);
    return bad ? 1 : 0;
}
