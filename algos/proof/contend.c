/* SPDX-License-Identifier: Apache-2.0 */
#include "algos/proof/contend.h"

#include <stdlib.h>
#include <string.h>

#include "algos/hazard.h"
#include "algos/proof/verify.h"
#include "base/error.h"
#include "topo/report/order_load.h"

/* How far a rank looks past steps that wait: as far as the executor does. (A round of k rings has 2 k of those.) */
#define AHEAD_MAX WEFT_VERIFY_WINDOW

/* Messages from one peer that have come and were not taken, now and when the round began, and those sent in this round. */
struct mail {
    uint32_t from, ready, ready_before, coming;
};

/* A step that could not be done yet, and where it stands in the plan. */
struct waiting {
    struct weft_step step;
    uint32_t record, iteration;
};

struct walker {
    struct weft_cursor cursor;
    struct waiting waiting[AHEAD_MAX]; /* in program order */
    uint32_t waiting_count;
    int ended; /* the cursor is at its end */
    struct mail *mail;
    uint32_t mail_count, mail_capacity;
    /* When the round began. */
    struct weft_cursor cursor_before;
    uint32_t records_before[AHEAD_MAX], waiting_before;
};

struct message {
    struct weft_pair pair;
    uint64_t units; /* chunks, or blocks */
};

struct play {
    const struct weft_contention_request *request;
    struct weft_contention *result;
    struct walker *walkers;
    struct message *sent, *sent_before; /* in this round and the one before, sorted */
    uint64_t sent_count, before_count, sent_capacity, before_capacity;
    struct weft_pair *pairs; /* those of one size that cross hosts */
    uint64_t pairs_capacity;
    double *edge_bytes;  /* [2 * edge_count] */
    double *edge_ns;     /* [edge_count] what each has cost as the narrowest */
    double *local_bytes; /* [ranks] scratch */
    double unit_bytes;
    double round_ns;  /* of the last round priced */
    double fabric_ns; /* of it, the fabric's part */
    uint32_t narrowest;
};

static struct mail *mail_from(struct walker *walker, uint32_t from)
{
    for (uint32_t i = 0; i < walker->mail_count; i++) {
        if (walker->mail[i].from == from)
            return &walker->mail[i];
    }
    if (walker->mail_count == walker->mail_capacity) {
        uint32_t capacity = walker->mail_capacity ? 2 * walker->mail_capacity : 4;
        struct mail *grown = realloc(walker->mail, capacity * sizeof *grown);
        if (!grown)
            return NULL;
        walker->mail = grown;
        walker->mail_capacity = capacity;
    }
    walker->mail[walker->mail_count] = (struct mail){.from = from};
    return &walker->mail[walker->mail_count++];
}

static int no_memory(uint32_t ranks)
{
    return weft_fail(WEFT_NOMEM, "pricing plans over a fabric: no memory for %u ranks", ranks);
}

static int send(struct play *play, uint32_t rank, const struct weft_step *step)
{
    if (play->sent_count == play->sent_capacity) {
        uint64_t capacity = play->sent_capacity ? 2 * play->sent_capacity : 1024;
        struct message *grown = realloc(play->sent, capacity * sizeof *grown);
        if (!grown)
            return no_memory(play->request->ranks);
        play->sent = grown;
        play->sent_capacity = capacity;
    }
    struct mail *mail = mail_from(&play->walkers[step->peer], rank);
    if (!mail)
        return no_memory(play->request->ranks);
    mail->coming++;
    play->sent[play->sent_count++] = (struct message){{rank, (uint32_t)step->peer}, step->span};
    return WEFT_OK;
}

/* Whether the step in place i has to come after one of those that wait before it. */
static int must_wait(const struct walker *walker, uint32_t i, int in_place)
{
    const struct weft_step *step = &walker->waiting[i].step;
    for (uint32_t k = 0; k < i; k++) {
        const struct weft_step *earlier = &walker->waiting[k].step;
        int same_peer = earlier->kind == step->kind && earlier->peer == step->peer;
        if (weft_step_conflicts(earlier, step, in_place) || (same_peer && step->kind <= WEFT_STEP_RECV))
            return 1;
    }
    return 0;
}

/* Does the step in place i if that is possible; *done says so. */
static int try_step(struct play *play, uint32_t rank, uint32_t i, int *done)
{
    struct walker *walker = &play->walkers[rank];
    const struct weft_step *step = &walker->waiting[i].step;
    int status = WEFT_OK;
    *done = 0;
    if (must_wait(walker, i, (int)walker->cursor.plan->in_place))
        return WEFT_OK;
    if (step->kind == WEFT_STEP_RECV) {
        struct mail *mail = mail_from(walker, (uint32_t)step->peer);
        if (!mail)
            return no_memory(play->request->ranks);
        if (!mail->ready)
            return WEFT_OK;
        mail->ready--;
    } else if (step->kind == WEFT_STEP_SEND) {
        status = send(play, rank, step);
    }
    *done = status == WEFT_OK;
    return status;
}

/* Brings the next step of the plan into place i. 0 at the end. */
static int fetch(struct walker *walker, uint32_t i)
{
    if (walker->ended || !weft_cursor_next(&walker->cursor, &walker->waiting[i].step)) {
        walker->ended = 1;
        return 0;
    }
    walker->waiting[i].record = walker->cursor.index - 1;
    walker->waiting[i].iteration = walker->cursor.iteration;
    walker->waiting_count = i + 1;
    return 1;
}

/* Goes on until all steps in sight wait for messages. */
static int walk(struct play *play, uint32_t rank, int *moved)
{
    struct walker *walker = &play->walkers[rank];
    walker->cursor_before = walker->cursor;
    walker->waiting_before = walker->waiting_count;
    for (uint32_t i = 0; i < walker->waiting_count; i++)
        walker->records_before[i] = walker->waiting[i].record;
    for (uint32_t i = 0; i < walker->mail_count; i++)
        walker->mail[i].ready_before = walker->mail[i].ready;
    for (uint32_t i = 0; i < AHEAD_MAX;) {
        int done;
        if (i == walker->waiting_count && !fetch(walker, i))
            return WEFT_OK;
        int status = try_step(play, rank, i, &done);
        if (status != WEFT_OK)
            return status;
        if (!done) {
            i++;
            continue;
        }
        *moved = 1;
        walker->waiting_count--;
        memmove(&walker->waiting[i], &walker->waiting[i + 1],
                (walker->waiting_count - i) * sizeof *walker->waiting);
        i = 0;
    }
    return WEFT_OK;
}

static void deliver(struct play *play)
{
    for (uint32_t r = 0; r < play->request->ranks; r++) {
        struct walker *walker = &play->walkers[r];
        for (uint32_t i = 0; i < walker->mail_count; i++) {
            walker->mail[i].ready += walker->mail[i].coming;
            walker->mail[i].coming = 0;
        }
    }
}

static int compare_units(const void *a, const void *b)
{
    const struct message *x = a, *y = b;
    if (x->units != y->units)
        return x->units < y->units ? -1 : 1;
    if (x->pair.from != y->pair.from)
        return x->pair.from < y->pair.from ? -1 : 1;
    return (x->pair.to > y->pair.to) - (x->pair.to < y->pair.to);
}

static int same_host(const struct play *play, const struct weft_pair *pair)
{
    const struct weft_place *from = &play->request->places[pair->from],
                            *to = &play->request->places[pair->to];
    if (from->host != WEFT_NODE_NONE || to->host != WEFT_NODE_NONE)
        return from->host == to->host;
    return strcmp(from->host_name, to->host_name) == 0;
}

/* Adds what messages of one size put on the fabric. */
static int spread(struct play *play, uint64_t count, double bytes)
{
    const struct weft_contention_request *request = play->request;
    struct weft_load load;
    int status = weft_load_pairs(request->graph, request->places, request->ranks, request->nic, play->pairs,
                                 count, &load);
    if (status != WEFT_OK)
        return status;
    for (uint32_t e = 0; e < 2 * request->graph->edge_count; e++)
        play->edge_bytes[e] += load.streams[e] * bytes;
    weft_load_free(&load);
    return WEFT_OK;
}

/* The most that a rank receives from others of its host. */
static double busiest_receiver(struct play *play)
{
    double most = 0;
    memset(play->local_bytes, 0, play->request->ranks * sizeof *play->local_bytes);
    for (uint64_t i = 0; i < play->sent_count; i++) {
        const struct message *message = &play->sent[i];
        if (!same_host(play, &message->pair))
            continue;
        double *bytes = &play->local_bytes[message->pair.to];
        *bytes += (double)message->units * play->unit_bytes;
        most = *bytes > most ? *bytes : most;
    }
    return most;
}

/* Bytes on every link: messages are taken together by their size. crossed: how many went between hosts. */
static int load_fabric(struct play *play, uint64_t *crossed)
{
    *crossed = 0;
    memset(play->edge_bytes, 0, 2u * play->request->graph->edge_count * sizeof *play->edge_bytes);
    for (uint64_t first = 0, next; first < play->sent_count; first = next) {
        uint64_t count = 0;
        for (next = first; next < play->sent_count && play->sent[next].units == play->sent[first].units;
             next++) {
            if (!same_host(play, &play->sent[next].pair))
                play->pairs[count++] = play->sent[next].pair;
        }
        if (!count)
            continue;
        *crossed += count;
        int status = spread(play, count, (double)play->sent[first].units * play->unit_bytes);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

/* The round that the messages sent make. */
static int price(struct play *play)
{
    const struct weft_contention_request *request = play->request;
    uint64_t crossed;
    int status = load_fabric(play, &crossed);
    if (status != WEFT_OK)
        return status;
    double fabric_ns = 0;
    play->narrowest = WEFT_NODE_NONE;
    for (uint32_t e = 0; e < 2 * request->graph->edge_count; e++) {
        const struct weft_edge *edge = &request->graph->edges[e / 2];
        double ns = edge->bytes_per_s ? play->edge_bytes[e] * 1e9 / (double)edge->bytes_per_s : 0;
        if (ns > fabric_ns) {
            fabric_ns = ns;
            play->narrowest = e / 2;
        }
    }
    double local_ns = busiest_receiver(play) * request->local_byte_ns;
    play->fabric_ns = fabric_ns;
    play->round_ns = (crossed ? request->latency_ns : request->local_latency_ns) +
                     (fabric_ns > local_ns ? fabric_ns : local_ns);
    play->result->rounds_priced++;
    return WEFT_OK;
}

static void pass(struct play *play, uint64_t times)
{
    play->result->rounds += times;
    play->result->time_ns += (double)times * play->round_ns;
    play->result->fabric_ns += (double)times * play->fabric_ns;
    if (play->narrowest != WEFT_NODE_NONE)
        play->edge_ns[play->narrowest] += (double)times * play->fabric_ns;
}

static int same_as_before(const struct play *play)
{
    return play->sent_count == play->before_count &&
           memcmp(play->sent, play->sent_before, play->sent_count * sizeof *play->sent) == 0;
}

/* Whether the rank stands where it stood when the round began, but for one iteration of a loop that sends to the same
 * peers in each, and has as many messages that were not taken. */
static int stands_alike(const struct walker *walker)
{
    const struct weft_cursor *cursor = &walker->cursor, *before = &walker->cursor_before;
    if (walker->ended || cursor->loop_end == 0 || before->loop_end != cursor->loop_end ||
        cursor->index != before->index || cursor->iteration != before->iteration + 1 ||
        walker->waiting_count != walker->waiting_before)
        return 0;
    for (uint32_t i = 0; i < walker->waiting_count; i++) {
        uint32_t record = walker->waiting[i].record;
        if (record != walker->records_before[i] || record < cursor->loop_start || record >= cursor->loop_end)
            return 0;
    }
    for (uint32_t i = 0; i < walker->mail_count; i++) {
        if (walker->mail[i].ready != walker->mail[i].ready_before)
            return 0;
    }
    for (uint32_t i = cursor->loop_start; i < cursor->loop_end; i++) {
        if (cursor->plan->steps[i].kind <= WEFT_STEP_RECV && cursor->plan->steps[i].peer_stride != 0)
            return 0;
    }
    return 1;
}

/* How often the round just played can be repeated as it is, until a rank comes to the end of its loop. */
static uint64_t repetitions(const struct play *play)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t r = 0; r < play->request->ranks; r++) {
        const struct walker *walker = &play->walkers[r];
        if (!stands_alike(walker))
            return 0;
        uint64_t left = walker->cursor.iterations - 1 - walker->cursor.iteration;
        least = left < least ? left : least;
    }
    return least;
}

static void skip(struct play *play, uint64_t times)
{
    for (uint32_t r = 0; r < play->request->ranks && times; r++) {
        struct walker *walker = &play->walkers[r];
        walker->cursor.iteration += (uint32_t)times;
        for (uint32_t i = 0; i < walker->waiting_count; i++) {
            struct weft_cursor at = walker->cursor;
            walker->waiting[i].iteration += (uint32_t)times;
            at.index = walker->waiting[i].record;
            at.iteration = walker->waiting[i].iteration;
            weft_cursor_next(&at, &walker->waiting[i].step);
        }
    }
    pass(play, times);
}

static void turn_over(struct play *play)
{
    struct message *sent = play->sent;
    uint64_t capacity = play->sent_capacity;
    play->sent = play->sent_before;
    play->sent_capacity = play->before_capacity;
    play->sent_before = sent;
    play->before_count = play->sent_count;
    play->before_capacity = capacity;
    play->sent_count = 0;
}

static int run_round(struct play *play, int *moved)
{
    *moved = 0;
    for (uint32_t r = 0; r < play->request->ranks; r++) {
        int status = walk(play, r, moved);
        if (status != WEFT_OK)
            return status;
    }
    deliver(play);
    if (play->sent_count == 0)
        return WEFT_OK;
    if (play->sent_count > play->pairs_capacity) {
        struct weft_pair *grown = realloc(play->pairs, play->sent_count * sizeof *grown);
        if (!grown)
            return no_memory(play->request->ranks);
        play->pairs = grown;
        play->pairs_capacity = play->sent_count;
    }
    qsort(play->sent, play->sent_count, sizeof *play->sent, compare_units);
    int same = same_as_before(play);
    int status = same ? WEFT_OK : price(play);
    if (status != WEFT_OK)
        return status;
    pass(play, 1);
    if (same)
        skip(play, repetitions(play));
    turn_over(play);
    return WEFT_OK;
}

static int run(struct play *play)
{
    for (int moved = 1; moved;) {
        int status = run_round(play, &moved);
        if (status != WEFT_OK)
            return status;
    }
    for (uint32_t r = 0; r < play->request->ranks; r++) {
        if (play->walkers[r].waiting_count > 0)
            return weft_fail(WEFT_INVALID, "pricing plans over a fabric: rank %u waits for ever", r);
    }
    double most = 0;
    for (uint32_t e = 0; e < play->request->graph->edge_count; e++) {
        if (play->edge_ns[e] > most) {
            most = play->edge_ns[e];
            play->result->narrowest = e;
        }
    }
    return WEFT_OK;
}

/* Whether they are plans of as many ranks, which agree on what a chunk is. */
static int check_plans(const struct weft_contention_request *request)
{
    if (request->ranks < 1)
        return weft_fail(WEFT_INVALID, "pricing plans over a fabric: no plans");
    for (uint32_t r = 0; r < request->ranks; r++) {
        const struct weft_plan *plan = request->plans[r], *first = request->plans[0];
        uint64_t steps;
        int status = weft_plan_check(plan, &steps);
        if (status != WEFT_OK)
            return status;
        if (plan->ranks != request->ranks || plan->rank != r)
            return weft_fail(
                WEFT_INVALID,
                "pricing plans over a fabric: plan %u is for rank %u of %u: expected rank %u of %u", r,
                plan->rank, plan->ranks, r, request->ranks);
        if (plan->chunks != first->chunks || plan->collective != first->collective)
            return weft_fail(
                WEFT_INVALID,
                "pricing plans over a fabric: rank %u's plan is of a %s in %u chunks, rank 0's of a "
                "%s in %u",
                r, weft_collective_name((enum weft_collective)plan->collective), plan->chunks,
                weft_collective_name((enum weft_collective)first->collective), first->chunks);
    }
    return WEFT_OK;
}

int weft_plans_contend(const struct weft_contention_request *request, struct weft_contention *contention)
{
    int status = check_plans(request);
    if (status != WEFT_OK)
        return status;
    const struct weft_plan *first = request->plans[0];
    struct weft_contention result = {.narrowest = WEFT_NODE_NONE};
    int blocks = weft_collective_blocks((enum weft_collective)first->collective);
    struct play play = {.request = request,
                        .result = &result,
                        .walkers = calloc(request->ranks, sizeof *play.walkers),
                        .local_bytes = calloc(request->ranks, sizeof *play.local_bytes),
                        .edge_bytes = calloc(2u * request->graph->edge_count + 1u, sizeof *play.edge_bytes),
                        .edge_ns = calloc(request->graph->edge_count + 1u, sizeof *play.edge_ns),
                        .unit_bytes = (double)request->bytes / (blocks ? first->ranks : first->chunks)};
    if (!play.walkers || !play.local_bytes || !play.edge_bytes || !play.edge_ns)
        status = no_memory(request->ranks);
    for (uint32_t r = 0; r < request->ranks && status == WEFT_OK; r++)
        weft_cursor_start(&play.walkers[r].cursor, request->plans[r]);
    if (status == WEFT_OK)
        status = run(&play);
    for (uint32_t r = 0; r < request->ranks && play.walkers; r++)
        free(play.walkers[r].mail);
    free(play.walkers);
    free(play.local_bytes);
    free(play.edge_bytes);
    free(play.edge_ns);
    free(play.pairs);
    free(play.sent);
    free(play.sent_before);
    if (status == WEFT_OK)
        *contention = result;
    return status;
}
