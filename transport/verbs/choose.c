/* SPDX-License-Identifier: Apache-2.0 */
/* Which ports are used: pure functions over what the machine has. */
#include "transport/verbs/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/log.h"

/* One word of the list: "mlx5_0" or "mlx5_0:1". */
struct word {
    const char *name;
    size_t length;
    int port; /* 0: all */
};

/* Reads the word at list and returns what follows, NULL at the end or when it is none. */
static const char *read_word(const char *list, struct word *word)
{
    size_t length = strcspn(list, ",");
    size_t name = strcspn(list, ":,");
    word->name = list;
    word->length = name;
    word->port = 0;
    for (size_t i = name + 1; i < length && word->port >= 0; i++)
        word->port =
            list[i] >= '0' && list[i] <= '9' && word->port < 100 ? word->port * 10 + list[i] - '0' : -1;
    if (name == 0 || (name < length && word->port <= 0))
        word->length = 0;
    return list[length] ? list + length + 1 : NULL;
}

static int matches(const struct word *word, const struct verbs_candidate *candidate)
{
    return strncmp(candidate->device, word->name, word->length) == 0 && !candidate->device[word->length] &&
           (!word->port || word->port == candidate->port);
}

/* "mlx5_0:1 (active), mlx5_1:1", as much as fits. */
static const char *print(const struct verbs_candidate *candidates, int count, char *text, size_t capacity)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < count; i++) {
        char one[VERBS_NAME + 32];
        size_t size = (size_t)snprintf(one, sizeof one, "%s%s:%d%s", used ? ", " : "", candidates[i].device,
                                       candidates[i].port, candidates[i].is_active ? " (active)" : "");
        if (used + size >= capacity)
            break;
        memcpy(text + used, one, size + 1);
        used += size;
    }
    return count ? text : "no port at all";
}

/* Names with numbers as people order them: mlx5_2 before mlx5_10. */
static int compare_names(const char *a, const char *b)
{
    while (*a && *b) {
        size_t digits_a = strspn(a, "0123456789"), digits_b = strspn(b, "0123456789");
        if (digits_a && digits_b) {
            unsigned long long x = strtoull(a, NULL, 10), y = strtoull(b, NULL, 10);
            if (x != y)
                return x < y ? -1 : 1;
            a += digits_a;
            b += digits_b;
        } else if (*a != *b) {
            break;
        } else {
            a++;
            b++;
        }
    }
    return (unsigned char)*a - (unsigned char)*b;
}

static int is_before(const struct verbs_candidate *a, const struct verbs_candidate *b)
{
    if (a->speed_mbps != b->speed_mbps)
        return a->speed_mbps > b->speed_mbps;
    int names = compare_names(a->device, b->device);
    return names ? names < 0 : a->port < b->port;
}

/* Adds index to chosen, which is ordered; with an order of the caller's, at the end. */
static void add(const struct verbs_candidate *candidates, int index, int is_ordered, int *chosen, int *used)
{
    for (int i = 0; i < *used; i++) {
        if (chosen[i] == index)
            return;
    }
    int at = (*used)++;
    while (is_ordered && at > 0 && is_before(&candidates[index], &candidates[chosen[at - 1]])) {
        chosen[at] = chosen[at - 1];
        at--;
    }
    chosen[at] = index;
}

/* What a word without "^" adds; WEFT_NOT_FOUND when the machine has no such port. */
static int add_named(const char *list, const struct word *word, const struct verbs_candidate *candidates,
                     int count, int *chosen, int *used)
{
    int found = 0;
    for (int i = 0; i < count; i++) {
        if (!matches(word, &candidates[i]))
            continue;
        found = 1;
        if (candidates[i].is_active)
            add(candidates, i, 0, chosen, used);
        else if (word->port)
            weft_log(WEFT_LOG_WARN, "verbs: %s:%d, which WEFT_VERBS_DEVICE names, is not active: left out",
                     candidates[i].device, candidates[i].port);
    }
    char text[256];
    return found ? WEFT_OK
                 : weft_fail(WEFT_NOT_FOUND,
                             "verbs: WEFT_VERBS_DEVICE is '%s': no '%.*s' here; this machine has %s", list,
                             (int)(word->length +
                                   (word->port ? 1 + strcspn(word->name + word->length + 1, ",") : 0)),
                             word->name, print(candidates, count, text, sizeof text));
}

/* Fills chosen in full, which has room for all. */
static int choose(const char *list, const struct verbs_candidate *candidates, int count, int *chosen,
                  int *used)
{
    int is_excluding = *list == '^';
    char *excluded = calloc((size_t)count + 1, 1);
    int status = excluded ? WEFT_OK : weft_fail(WEFT_NOMEM, "verbs: no memory for %d ports", count);
    for (const char *next = *list ? list + is_excluding : NULL; next && !status;) {
        struct word word;
        next = read_word(next, &word);
        if (!word.length)
            status =
                weft_fail(WEFT_INVALID,
                          "WEFT_VERBS_DEVICE is '%s': expected devices and ports as 'mlx5_0:1,mlx5_1', or "
                          "behind one ^ those not to use",
                          list);
        else if (!is_excluding)
            status = add_named(list, &word, candidates, count, chosen, used);
        for (int i = 0; i < count && is_excluding && !status; i++)
            excluded[i] |= (char)matches(&word, &candidates[i]);
    }
    for (int i = 0; i < count && !status && (is_excluding || !*list); i++) {
        if (candidates[i].is_active && !excluded[i])
            add(candidates, i, 1, chosen, used);
    }
    free(excluded);
    return status;
}

int verbs_choose(const char *list, const struct verbs_candidate *candidates, int count, int *chosen,
                 int capacity)
{
    int *all = calloc((size_t)count + 1, sizeof *all), used = 0;
    if (!all)
        return weft_fail(WEFT_NOMEM, "verbs: no memory for %d ports", count);
    int status = choose(list, candidates, count, all, &used);
    char text[256];
    if (!status && used == 0)
        status = weft_fail(WEFT_NOT_FOUND, "verbs: no active port%s%s%s; this machine has %s",
                           *list ? " of WEFT_VERBS_DEVICE '" : "", list, *list ? "'" : "",
                           print(candidates, count, text, sizeof text));
    if (used > capacity)
        used = capacity;
    if (!status)
        memcpy(chosen, all, (size_t)used * sizeof *all);
    free(all);
    return status ? status : used;
}

uint32_t verbs_rate_mbps(const char *rate, int layer)
{
    char *end;
    unsigned long whole = strtoul(rate, &end, 10);
    if (end == rate || whole > 1000000)
        return 0;
    uint32_t mbps = (uint32_t)whole * 1000;
    if (*end == '.' && end[1] >= '0' && end[1] <= '9')
        mbps += (uint32_t)(end[1] - '0') * 100;
    int is_coded_10 = strstr(rate, "SDR") || strstr(rate, "DDR") || strstr(rate, "QDR");
    return layer == IBV_LINK_LAYER_INFINIBAND && is_coded_10 ? mbps / 10 * 8 : mbps;
}
