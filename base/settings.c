/* SPDX-License-Identifier: Apache-2.0 */
#include "base/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* One row per variable, ordered by name: the agreed text relies on it. */
struct row {
    const char *name;
    size_t offset;
    enum { NUMBER, WORD, LIST } type;
    int64_t low, high, fallback; /* NUMBER and WORD; LIST: high is the field's size */
    const char *words;           /* WORD: "auto,ring,..." value is the index; LIST: allowed words */
    int agreed;
};

#define AT(field)   offsetof(struct weft_settings, field)
#define SIZE(field) sizeof(((struct weft_settings *)0)->field)

/* Every choice has one way to be written, this order: the texts are compared. */
static const char transport_words[] = "shm,ofi,verbs";

static const struct row rows[] = {
    {"WEFT_ALGO", AT(algorithm), WORD, 0, 14, 0,
     "auto,ring,tree,rd,rab,binomial,chain,sag,bruck,halving,direct,pairwise,dissemination,hier,leader", 1},
    {"WEFT_CACHE_BYTES", AT(cache_bytes), NUMBER, 0, INT64_MAX, 1 << 30, NULL, 0},
    {"WEFT_CONNECT", AT(connect), WORD, 0, 1, 0, "lazy,eager", 1},
    {"WEFT_DEVICE", AT(device_kinds), LIST, 0, SIZE(device_kinds), 0, NULL, 0},
    {"WEFT_DEVICE_OPTIONS", AT(device_options), LIST, 0, SIZE(device_options), 0, NULL, 0},
    {"WEFT_DEVICE_PLUGIN", AT(device_plugins), LIST, 0, SIZE(device_plugins), 0, NULL, 0},
    {"WEFT_DEVICE_PROGRAM", AT(device_program), WORD, 0, 2, 0, "auto,always,never", 1},
    {"WEFT_DEVICE_PROGRAM_BYTES", AT(device_program_bytes), NUMBER, 0, 1 << 30, 1 << 20, NULL, 1},
    {"WEFT_DIRECT", AT(direct), NUMBER, 0, 1, 1, NULL, 1},
    {"WEFT_EAGER_OFI", AT(eager_bytes_ofi), NUMBER, 0, 65536, 16384, NULL, 1},
    {"WEFT_EAGER_SHM", AT(eager_bytes_shm), NUMBER, 0, 65536, 4096, NULL, 1},
    {"WEFT_EAGER_VERBS", AT(eager_bytes_verbs), NUMBER, 0, 65536, 8192, NULL, 1},
    {"WEFT_FAST_PATH", AT(fast_path_bytes), NUMBER, 0, 65536, 16384, NULL, 1},
    {"WEFT_HEARTBEAT_MS", AT(heartbeat_ms), NUMBER, 200, 600000, 2000, NULL, 0},
    {"WEFT_OFI_PROVIDER", AT(provider), LIST, 0, SIZE(provider), 0, NULL, 1},
    {"WEFT_ORDER", AT(order), WORD, 0, 1, 0, "topology,rank", 1},
    {"WEFT_RAB_BYTES", AT(rab_bytes), NUMBER, 0, INT64_MAX, 0, NULL, 1},
    {"WEFT_RD_BYTES", AT(rd_bytes), NUMBER, 0, INT64_MAX, 0, NULL, 1},
    {"WEFT_SLICE_OFI", AT(slice_bytes_ofi), NUMBER, 4096, 1 << 30, 1 << 19, NULL, 1},
    {"WEFT_SLICE_SHM", AT(slice_bytes_shm), NUMBER, 4096, 1 << 30, 1 << 17, NULL, 1},
    {"WEFT_SLICE_VERBS", AT(slice_bytes_verbs), NUMBER, 4096, 1 << 30, 1 << 20, NULL, 1},
    {"WEFT_SPIN_US", AT(spin_us), NUMBER, 0, 1000000, 100, NULL, 0},
    {"WEFT_STRICT", AT(strict), NUMBER, 0, 1, 0, NULL, 1},
    {"WEFT_TIMEOUT_MS", AT(timeout_ms), NUMBER, -1, INT64_MAX / 2000000, 300000, NULL, 0},
    {"WEFT_TOPO_FILE", AT(topo_file), LIST, 0, SIZE(topo_file), 0, NULL, 0},
    {"WEFT_TRANSPORT", AT(transports), LIST, 0, SIZE(transports), 0, transport_words, 1},
    {"WEFT_VERBS_DEVICE", AT(devices), LIST, 0, SIZE(devices), 0, NULL, 0},
    {"WEFT_VERBS_FAILOVER", AT(verbs.failover), NUMBER, 0, 1, 0, NULL, 1},
    {"WEFT_VERBS_GID", AT(verbs.gid_index), NUMBER, -1, 255, -1, NULL, 0},
    {"WEFT_VERBS_ODP", AT(verbs.odp), NUMBER, 0, 1, 0, NULL, 0},
    {"WEFT_VERBS_PKEY", AT(verbs.partition_index), NUMBER, 0, 65535, 0, NULL, 0},
    {"WEFT_VERBS_QPS", AT(verbs.qps), NUMBER, 1, 4, 1, NULL, 1},
    {"WEFT_VERBS_RAILS", AT(verbs.rails), NUMBER, 1, 4, 4, NULL, 0},
    {"WEFT_VERBS_RELAXED", AT(verbs.relaxed), NUMBER, 0, 1, 1, NULL, 0},
    {"WEFT_VERBS_RETRY", AT(verbs.retry), NUMBER, 0, 7, 7, NULL, 0},
    {"WEFT_VERBS_SERVICE_LEVEL", AT(verbs.service_level), NUMBER, 0, 15, 0, NULL, 0},
    {"WEFT_VERBS_STRIPE", AT(verbs.stripe_bytes), NUMBER, 4096, 1 << 30, 1 << 18, NULL, 1},
    {"WEFT_VERBS_TIMEOUT", AT(verbs.timeout), NUMBER, 0, 31, 18, NULL, 0},
    {"WEFT_VERBS_TRAFFIC_CLASS", AT(verbs.traffic_class), NUMBER, 0, 255, 0, NULL, 0},
    {"WEFT_VERBS_WINDOWS", AT(verbs.windows), NUMBER, 0, 1, 1, NULL, 0},
    {"WEFT_WINDOW", AT(window), NUMBER, 4, 64, 32, NULL, 1},
};

/* Position of the word in a comma-separated list, or -1. */
static int word_index(const char *list, const char *word, size_t length)
{
    for (int index = 0; list; index++) {
        size_t here = strcspn(list, ",");
        if (here == length && strncmp(list, word, length) == 0)
            return index;
        list = list[here] ? list + here + 1 : NULL;
    }
    return -1;
}

static int read_number(const struct row *row, const char *text, int64_t *value)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || *end || errno || number < row->low || number > row->high)
        return weft_fail(WEFT_INVALID, "%s is '%s': expected a whole number from %lld to %lld", row->name,
                         text, (long long)row->low, (long long)row->high);
    *value = number;
    return WEFT_OK;
}

static int read_list(const struct row *row, const char *text, char *value, size_t capacity)
{
    if (strlen(text) >= capacity)
        return weft_fail(WEFT_INVALID, "%s is longer than %zu characters", row->name, capacity - 1);
    for (const char *word = text; row->words && *word;) {
        size_t length = strcspn(word, ",");
        if (word_index(row->words, word, length) < 0)
            return weft_fail(WEFT_INVALID, "%s is '%s': expected words from '%s'", row->name, text,
                             row->words);
        word += length + (word[length] == ',');
    }
    snprintf(value, capacity, "%s", text);
    return WEFT_OK;
}

static int read_row(const struct row *row, struct weft_settings *settings)
{
    void *field = (char *)settings + row->offset;
    const char *text = getenv(row->name);
    if (row->type == LIST)
        return text ? read_list(row, text, field, (size_t)row->high) : WEFT_OK;
    int64_t *number = field;
    *number = row->fallback;
    if (!text || !*text)
        return WEFT_OK;
    if (row->type == NUMBER)
        return read_number(row, text, number);
    *number = word_index(row->words, text, strlen(text));
    if (*number < 0)
        return weft_fail(WEFT_INVALID, "%s is '%s': expected one of '%s'", row->name, text, row->words);
    return WEFT_OK;
}

/* Writes the words of transport_words that the list has; an empty list has all. */
static void order_transports(const char *list, char *value, size_t capacity)
{
    size_t used = 0;
    value[0] = '\0';
    for (const char *word = transport_words, *next; word; word = next) {
        size_t length = strcspn(word, ",");
        next = word[length] ? word + length + 1 : NULL;
        if (!*list || word_index(list, word, length) >= 0)
            used +=
                (size_t)snprintf(value + used, capacity - used, "%s%.*s", used ? "," : "", (int)length, word);
    }
}

int weft_settings_transports(struct weft_settings *settings, const char *list)
{
    static const struct row row = {.name = "transports", .words = transport_words};
    char value[sizeof settings->transports];
    int status = read_list(&row, list, value, sizeof value);
    if (status == WEFT_OK)
        order_transports(value, settings->transports, sizeof settings->transports);
    return status;
}

int weft_settings_read(struct weft_settings *settings)
{
    struct weft_settings read;
    memset(&read, 0, sizeof read);
    read.verbs.size = sizeof read.verbs;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int status = read_row(&rows[i], &read);
        if (status != WEFT_OK)
            return status;
    }
    *settings = read;
    order_transports(read.transports, settings->transports, sizeof settings->transports);
    return WEFT_OK;
}

/* One agreed setting as a line; a word as such, for people who read what differs. */
static int print_row(const struct row *row, const void *field, char *text, size_t capacity)
{
    if (row->type == LIST)
        return snprintf(text, capacity, "%s=%s\n", row->name, (const char *)field);
    int64_t number = *(const int64_t *)field;
    if (row->type == NUMBER)
        return snprintf(text, capacity, "%s=%lld\n", row->name, (long long)number);
    const char *word = row->words;
    for (int64_t i = 0; i < number && strchr(word, ','); i++)
        word = strchr(word, ',') + 1;
    return snprintf(text, capacity, "%s=%.*s\n", row->name, (int)strcspn(word, ","), word);
}

size_t weft_settings_agreed(const struct weft_settings *settings, char *text, size_t capacity)
{
    size_t used = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!rows[i].agreed)
            continue;
        const void *field = (const char *)settings + rows[i].offset;
        char *at = used < capacity ? text + used : NULL;
        size_t room = at ? capacity - used : 0;
        used += (size_t)print_row(&rows[i], field, at, room);
    }
    return used;
}

int weft_settings_differ(const char *mine, const char *theirs, char *name, size_t capacity)
{
    while (*mine || *theirs) {
        size_t a = strcspn(mine, "\n"), b = strcspn(theirs, "\n");
        if (a != b || strncmp(mine, theirs, a) != 0) {
            const char *line = *mine ? mine : theirs;
            snprintf(name, capacity, "%.*s", (int)strcspn(line, "="), line);
            return 1;
        }
        mine += a + (mine[a] == '\n');
        theirs += b + (theirs[b] == '\n');
    }
    return 0;
}
