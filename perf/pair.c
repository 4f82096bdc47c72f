/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "perf/corrupt.h"

enum { PING = 1, STREAM = 2, ANSWER = 3 }; /* tags */

int perf_pair_open(struct perf_pair *pair, struct perf_session *session, weft_dtype dtype, size_t window,
                   size_t capacity)
{
    memset(pair, 0, sizeof *pair);
    pair->session = session;
    pair->delay = getenv("WEFT_PERF_DELAY");
    pair->works = calloc(2 * window, sizeof(weft_work *));
    if (!pair->works ||
        perf_data_prepare(&pair->data, dtype, PERF_OP_NONE, session->rank, session->ranks) != 0) {
        fprintf(stderr, "weft-perf: out of memory\n");
        return -1;
    }
    const struct perf_place *place = perf_options_place(session->options, session->rank);
    if (perf_buffer_make(&pair->send, session->context, place, capacity) != 0)
        return -1;
    if (perf_buffer_make(&pair->recv, session->context, place, capacity) != 0)
        return -1;
    return 0;
}

void perf_pair_close(struct perf_pair *pair)
{
    perf_buffer_release(&pair->recv);
    perf_buffer_release(&pair->send);
    perf_data_release(&pair->data);
    free(pair->works);
}

size_t perf_pair_window(size_t window, size_t size_bytes)
{
    size_t fitting = size_bytes ? PERF_IN_FLIGHT_BYTES / size_bytes : window;
    return fitting == 0 ? 1 : fitting < window ? fitting : window;
}

static int is_member(const struct perf_pair *pair)
{
    return pair->session->rank == pair->first || pair->session->rank == pair->second;
}

static int peer_of(const struct perf_pair *pair)
{
    return pair->session->rank == pair->first ? pair->second : pair->first;
}

/* Tests set WEFT_PERF_DELAY=rank:rank:microseconds to have a pair that is slow. */
static void delay(const struct perf_pair *pair)
{
    int first, second;
    unsigned delay_us;
    if (pair->delay && pair->session->rank == pair->first &&
        sscanf(pair->delay, "%d:%d:%u", &first, &second, &delay_us) == 3 && first == pair->first &&
        second == pair->second)
        usleep(delay_us);
}

int perf_pair_ping(void *arg)
{
    struct perf_pair *pair = arg;
    weft_comm *comm = pair->session->comm;
    weft_dtype dtype = pair->data.dtype;
    int peer = peer_of(pair), status;
    if (!is_member(pair))
        return 0;
    perf_watch_call(pair->session->watch);
    delay(pair);
    if (pair->session->rank == pair->first) {
        status = weft_send(comm, pair->send.bytes, pair->count, dtype, peer, PING, NULL);
        return status ? status
                      : weft_recv(comm, pair->recv.bytes, pair->count, dtype, peer, PING, NULL, NULL);
    }
    status = weft_recv(comm, pair->recv.bytes, pair->count, dtype, peer, PING, NULL, NULL);
    return status ? status : weft_send(comm, pair->send.bytes, pair->count, dtype, peer, PING, NULL);
}

/* Starts a window of receives and of sends, where they are wanted, and waits for all of them. */
static int exchange(struct perf_pair *pair, int sends, int receives)
{
    weft_comm *comm = pair->session->comm;
    weft_dtype dtype = pair->data.dtype;
    size_t started = 0, message = pair->count * pair->data.element_bytes;
    int peer = peer_of(pair), result = 0;
    for (size_t i = 0; receives && result == 0 && i < pair->window; i++, started += result == 0)
        result = weft_recv(comm, pair->recv.bytes + i * message, pair->count, dtype, peer, STREAM, NULL,
                           WEFT_START(&pair->works[started]));
    for (size_t i = 0; sends && result == 0 && i < pair->window; i++, started += result == 0)
        result = weft_send(comm, pair->send.bytes + i * message, pair->count, dtype, peer, STREAM,
                           WEFT_START(&pair->works[started]));
    for (size_t i = 0; i < started; i++) {
        int status = weft_work_wait(pair->works[i], -1);
        result = result ? result : status;
        weft_work_free(pair->works[i]);
    }
    return result;
}

int perf_pair_stream(void *arg)
{
    struct perf_pair *pair = arg;
    weft_comm *comm = pair->session->comm;
    int is_first = pair->session->rank == pair->first;
    if (!is_member(pair))
        return 0;
    perf_watch_call(pair->session->watch);
    delay(pair);
    int status = exchange(pair, is_first || pair->bidirectional, !is_first || pair->bidirectional);
    if (status != 0 || pair->bidirectional)
        return status;
    return is_first ? weft_recv(comm, NULL, 0, WEFT_UINT8, pair->second, ANSWER, NULL, NULL)
                    : weft_send(comm, NULL, 0, WEFT_UINT8, pair->first, ANSWER, NULL);
}

/* How many elements a call moves to this rank. */
static size_t arriving(const struct perf_pair *pair, perf_call *call)
{
    if (!is_member(pair))
        return 0;
    if (call == perf_pair_ping)
        return pair->count;
    return pair->bidirectional || pair->session->rank == pair->second ? pair->count * pair->window : 0;
}

static size_t sent_bytes(const struct perf_pair *pair, perf_call *call)
{
    return pair->count * (call == perf_pair_ping ? 1 : pair->window) * pair->data.element_bytes;
}

/* 0, or -1 after a message. */
static int arm(struct perf_pair *pair, perf_call *call)
{
    size_t size = sent_bytes(pair, call);
    pair->shift = (pair->shift + 4099) % PERF_PATTERN;
    if (!is_member(pair))
        return 0;
    perf_buffer_poison(&pair->recv, size);
    perf_buffer_guard(&pair->send, size);
    perf_data_fill(&pair->data, pair->shift, pair->send.host, size / pair->data.element_bytes);
    return perf_buffer_put(&pair->recv, size) != 0 || perf_buffer_put(&pair->send, size) != 0 ? -1 : 0;
}

/* Brings what a call left to where the host sees it. 0, or -1 after a message. */
static int fetch(struct perf_pair *pair, perf_call *call)
{
    size_t size = sent_bytes(pair, call);
    if (!is_member(pair))
        return 0;
    return perf_buffer_get(&pair->recv, size) != 0 || perf_buffer_get(&pair->send, size) != 0 ? -1 : 0;
}

static void inspect(const struct perf_pair *pair, perf_call *call, uint64_t *wrong, uint64_t *damaged)
{
    size_t element = pair->data.element_bytes, got = arriving(pair, call);
    size_t sent = sent_bytes(pair, call) / element;
    if (!is_member(pair))
        return;
    *wrong += perf_data_check(&pair->data, peer_of(pair), pair->shift, pair->recv.host, got);
    *damaged += perf_buffer_damage(&pair->recv, got * element);
    *damaged += perf_buffer_damage(&pair->send, sent * element);
    *damaged += perf_data_check(&pair->data, pair->data.rank, pair->shift, pair->send.host, sent);
}

static int complain(const struct perf_pair *pair, int status)
{
    char what[128];
    snprintf(what, sizeof what, "messages of %zu %s between ranks %d and %d", pair->count,
             weft_dtype_name(pair->data.dtype), pair->first, pair->second);
    perf_session_complain(pair->session, what, status);
    perf_watch_failed(pair->session->watch);
    return -1;
}

int perf_pair_measure(struct perf_pair *pair, perf_call *call, struct perf_timing *timing, uint64_t *wrong,
                      uint64_t *damaged)
{
    const struct perf_options *options = pair->session->options;
    uint64_t found[2] = {0, 0};
    for (int i = 0; i < options->checks; i++) {
        int status = arm(pair, call) == 0 ? call(pair) : 1;
        if (status != 0 || fetch(pair, call) != 0)
            return status < 0 ? complain(pair, status) : -1;
        if (i == 0)
            perf_corrupt(pair->session->rank, pair->recv.host, arriving(pair, call),
                         pair->data.element_bytes);
        inspect(pair, call, &found[0], &found[1]);
    }
    if (arm(pair, call) != 0)
        return -1;
    int status = perf_measure(&pair->session->channel, call, pair, options->warmups, timing);
    if (status != 0)
        return status < 0 ? complain(pair, status) : -1;
    if (options->checks && fetch(pair, call) != 0)
        return -1;
    if (options->checks)
        inspect(pair, call, &found[0], &found[1]);
    if (perf_session_add_up(pair->session, &found[0], &found[1]) != 0)
        return -1;
    *wrong += found[0];
    *damaged += found[1];
    return 0;
}
