/* SPDX-License-Identifier: Apache-2.0 */
/* Merging dumps.
 *
 * Ranks are grouped by what they say: the same call, the same number of calls made, the same reason of a failure.
 * Who waits for whom is grouped by the rank that is waited for; where that would be a line for every rank, as in a
 * ring in which each waits for its neighbour, by the distance between the two. A rank that is in no call, has died or
 * does not answer comes first: at the end of every chain of waiting ranks it is what holds up the others.
 */
#include "perf/picture.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LINES_MAX = 16, RANGES_MAX = 12 };

struct edge {
    int from, to;
};

/* What one rank says. The strings are slices of its text. */
struct view {
    const char *call; /* "allreduce #17: ...", NULL: in none */
    size_t call_length;
    long long number; /* of that call, or of the calls made */
    long long waited_ms;
    const char *failure;
    size_t failure_length;
    int more; /* further calls */
    int is_silent;
};

struct picture {
    int ranks;
    struct view *views;
    struct edge *edges;
    size_t edge_count, edge_capacity;
    unsigned char *marked; /* scratch: a set of ranks */
    FILE *out;
};

static void unmark(const struct picture *picture)
{
    for (int r = 0; r < picture->ranks; r++)
        picture->marked[r] = 0;
}

/* "rank 3", "ranks 0-2, 4": the marked ranks. */
static void say_ranks(const struct picture *picture)
{
    int count = 0, ranges = 0;
    for (int r = 0; r < picture->ranks; r++)
        count += picture->marked[r];
    fprintf(picture->out, count == 1 ? "rank " : "ranks ");
    for (int r = 0; r < picture->ranks; r++) {
        int last = r;
        if (!picture->marked[r])
            continue;
        while (last + 1 < picture->ranks && picture->marked[last + 1])
            last++;
        if (++ranges > RANGES_MAX) {
            fprintf(picture->out, ", ... (%d in all)", count);
            return;
        }
        fprintf(picture->out, ranges > 1 ? ", %d" : "%d", r);
        if (last > r)
            fprintf(picture->out, "-%d", last);
        r = last;
    }
}

static const char *find(const char *line, size_t length, const char *words)
{
    return memmem(line, length, words, strlen(words));
}

static int add_edge(struct picture *picture, int from, int to)
{
    for (size_t i = picture->edge_count; i > 0 && picture->edges[i - 1].from == from; i--) {
        if (picture->edges[i - 1].to == to)
            return 0;
    }
    if (picture->edge_count == picture->edge_capacity) {
        size_t capacity = picture->edge_capacity ? 2 * picture->edge_capacity : 64;
        struct edge *edges = realloc(picture->edges, capacity * sizeof *edges);
        if (!edges)
            return -1;
        picture->edges = edges;
        picture->edge_capacity = capacity;
    }
    picture->edges[picture->edge_count++] = (struct edge){from, to};
    return 0;
}

/* One line of a dump; its form is that of weft_comm_dump(3). */
static int read_line(struct picture *picture, int rank, const char *line, size_t length)
{
    struct view *view = &picture->views[rank];
    const char *at;
    if (line[0] != ' ') {
        if ((at = find(line, length, ", for "))) {
            const char *call = find(line, length, " ms in ");
            const char *number = find(line, length, " #");
            if (view->call || !call || !number) {
                view->more += view->call != NULL;
                return 0;
            }
            view->waited_ms = atoll(at + 6);
            view->call = call + 7;
            view->call_length = (size_t)(line + length - view->call);
            view->number = atoll(number + 2);
        } else if ((at = find(line, length, "calls made: "))) {
            view->number = atoll(at + 12);
        }
        return 0;
    }
    if ((at = find(line, length, "waits for rank "))) {
        int to = atoi(at + 15);
        return to >= 0 && to < picture->ranks ? add_edge(picture, rank, to) : 0;
    }
    if ((at = find(line, length, "  failed: ")) == line) {
        view->failure = at + 10;
        view->failure_length = length - 10;
    }
    return 0;
}

static int read_text(struct picture *picture, int rank, const char *text)
{
    while (*text) {
        size_t length = strcspn(text, "\n");
        if (length && read_line(picture, rank, text, length) != 0)
            return -1;
        text += length + (text[length] == '\n');
    }
    return 0;
}

static int same_text(const char *a, size_t a_length, const char *b, size_t b_length)
{
    return a && b && a_length == b_length && memcmp(a, b, a_length) == 0;
}

static int same_call(const struct view *a, const struct view *b)
{
    return same_text(a->call, a->call_length, b->call, b->call_length);
}

static int same_absence(const struct view *a, const struct view *b)
{
    return !a->is_silent && !b->is_silent && !a->call && !b->call && a->number == b->number;
}

static int same_failure(const struct view *a, const struct view *b)
{
    return same_text(a->failure, a->failure_length, b->failure, b->failure_length);
}

/* Marks the ranks that say the same as this one, and begins a line for them. 0 where there is none to begin: this one does not say
 * such a thing, an earlier one has said it, or there are lines enough. */
static int begin_line(const struct picture *picture, int first, int most, int *lines,
                      int (*same)(const struct view *a, const struct view *b))
{
    for (int r = 0; r < picture->ranks; r++) {
        picture->marked[r] = (unsigned char)same(&picture->views[r], &picture->views[first]);
        if (picture->marked[r] && r < first)
            return 0;
    }
    if (!picture->marked[first] || ++*lines > most)
        return 0;
    fprintf(picture->out, "#   ");
    say_ranks(picture);
    return 1;
}

/* Every distinct call with the ranks that are in it. Returns the highest call number that a rank is in. */
static long long say_calls(const struct picture *picture)
{
    long long highest = -1;
    int lines = 0;
    for (int first = 0; first < picture->ranks; first++) {
        const struct view *view = &picture->views[first];
        long long waited_ms = 0;
        highest = view->call && view->number > highest ? view->number : highest;
        if (!begin_line(picture, first, LINES_MAX, &lines, same_call))
            continue;
        for (int r = first; r < picture->ranks; r++)
            if (picture->marked[r] && picture->views[r].waited_ms > waited_ms)
                waited_ms = picture->views[r].waited_ms;
        fprintf(picture->out, ": in %.*s", (int)view->call_length, view->call);
        if (view->more)
            fprintf(picture->out, ", and %d more calls", view->more);
        fprintf(picture->out, ", for up to %.1f s\n", (double)waited_ms / 1e3);
    }
    if (lines > LINES_MAX)
        fprintf(picture->out, "#   ... and %d more calls\n", lines - LINES_MAX);
    return highest;
}

/* Those that are in no call, by how many they have made; and those that say nothing. */
static void say_absent(const struct picture *picture, long long highest)
{
    int silent = 0, lines = 0;
    for (int r = 0; r < picture->ranks; r++)
        silent += picture->marked[r] = (unsigned char)picture->views[r].is_silent;
    if (silent) {
        fprintf(picture->out, "#   ");
        say_ranks(picture);
        fprintf(picture->out, ": no answer\n");
    }
    for (int first = 0; first < picture->ranks; first++) {
        long long number = picture->views[first].number;
        if (!begin_line(picture, first, LINES_MAX, &lines, same_absence))
            continue;
        if (number < highest)
            fprintf(picture->out, ": never arrived at call #%lld: in no call, the last was #%lld\n", highest,
                    number);
        else
            fprintf(picture->out, ": in no call, the last was #%lld\n", number);
    }
    if (lines > LINES_MAX)
        fprintf(picture->out, "#   ... and %d more groups in no call\n", lines - LINES_MAX);
}

/* Marks who waits for a rank. Returns how many. */
static int mark_waiters(const struct picture *picture, int to)
{
    int count = 0;
    unmark(picture);
    for (size_t i = 0; i < picture->edge_count; i++) {
        if (picture->edges[i].to == to) {
            picture->marked[picture->edges[i].from] = 1;
            count++;
        }
    }
    return count;
}

static void say_waiters(const struct picture *picture, int to)
{
    int count = mark_waiters(picture, to);
    fprintf(picture->out, "#   ");
    say_ranks(picture);
    fprintf(picture->out, count == 1 ? " waits for rank %d\n" : " wait for rank %d\n", to);
}

static void say_distance(const struct picture *picture, int distance, const unsigned char *listed)
{
    int count = 0, ranks = picture->ranks;
    unmark(picture);
    for (size_t i = 0; i < picture->edge_count; i++) {
        const struct edge *edge = &picture->edges[i];
        if (listed[edge->to] || (edge->from - edge->to + ranks) % ranks != distance)
            continue;
        picture->marked[edge->from] = 1;
        count++;
    }
    if (count == 0)
        return;
    fprintf(picture->out, "#   ");
    say_ranks(picture);
    fprintf(picture->out, count == 1 ? " waits for the rank " : " wait, each for the rank ");
    if (2 * distance <= ranks)
        fprintf(picture->out, "%d before it\n", distance);
    else
        fprintf(picture->out, "%d after it\n", ranks - distance);
}

/* Targets that are in no call come first, then those with many waiters; the rest by distance. */
static int say_waits(const struct picture *picture)
{
    unsigned char *listed = calloc((size_t)picture->ranks, 1);
    int *waiters = calloc((size_t)picture->ranks, sizeof *waiters), lines = 0, targets = 0;
    if (!listed || !waiters) {
        free(listed);
        free(waiters);
        return -1;
    }
    for (size_t i = 0; i < picture->edge_count; i++)
        targets += waiters[picture->edges[i].to]++ == 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int r = 0; r < picture->ranks && lines < LINES_MAX; r++) {
            int culprit = !picture->views[r].call;
            if (!waiters[r] || listed[r] || culprit != (pass == 0) ||
                (!culprit && targets > LINES_MAX / 2 && waiters[r] < 3))
                continue;
            say_waiters(picture, r);
            listed[r] = 1;
            lines++;
        }
    }
    unsigned char *distances = calloc((size_t)picture->ranks, 1);
    for (size_t i = 0; distances && i < picture->edge_count; i++) {
        const struct edge *edge = &picture->edges[i];
        distances[(edge->from - edge->to + picture->ranks) % picture->ranks] |= !listed[edge->to];
    }
    int left = 0;
    for (int d = 0; distances && d < picture->ranks; d++) {
        if (distances[d] && lines++ < LINES_MAX)
            say_distance(picture, d, listed);
        else
            left += distances[d];
    }
    if (left)
        fprintf(picture->out, "#   ... and others\n");
    free(distances);
    free(waiters);
    free(listed);
    return 0;
}

static void say_failures(const struct picture *picture)
{
    int lines = 0;
    for (int first = 0; first < picture->ranks; first++) {
        const struct view *view = &picture->views[first];
        if (begin_line(picture, first, LINES_MAX / 2, &lines, same_failure))
            fprintf(picture->out, ": failed: %.*s\n", (int)view->failure_length, view->failure);
    }
}

int perf_picture_print(const char *const *texts, int ranks, FILE *out)
{
    struct picture picture = {.ranks = ranks, .out = out};
    int failed = -1;
    picture.views = calloc((size_t)ranks, sizeof *picture.views);
    picture.marked = calloc((size_t)ranks, 1);
    if (!picture.views || !picture.marked)
        goto release;
    for (int r = 0; r < ranks; r++) {
        picture.views[r].is_silent = !texts[r];
        if (texts[r] && read_text(&picture, r, texts[r]) != 0)
            goto release;
    }
    fprintf(picture.out, "# who waits for whom, of %d ranks:\n", ranks);
    long long highest = say_calls(&picture);
    say_absent(&picture, highest);
    failed = say_waits(&picture);
    say_failures(&picture);
release:
    free(picture.views);
    free(picture.marked);
    free(picture.edges);
    return failed;
}
