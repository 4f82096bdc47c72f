/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/stream_calls.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/device_calls.h"
#include "tests/support/effort.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"

#define MOST 300000

struct scene {
    const struct weft_device_kind *kind;
    const struct device_streams *streams;
    weft_context *context;
    weft_comm *comm;
    int rank, ranks;
    void *stream;
    weft_call_options on; /* it */
    int flag;
};

static int get(const struct scene *scene, size_t bytes, uint8_t **memory)
{
    void *made;
    CHECK_OK(scene->kind->ops.allocate(scene->kind->device, 0, WEFT_MEMORY_DEVICE, bytes, &made));
    *memory = made;
    return 0;
}

static int put(const struct scene *scene, void *memory)
{
    CHECK_OK(scene->kind->ops.release(scene->kind->device, memory));
    return 0;
}

/* How many bytes of device memory are not this. Nothing may be in flight there. */
static size_t other_than(const struct scene *scene, const void *memory, size_t bytes, int byte)
{
    uint8_t *copy = malloc(bytes);
    size_t count = 0;
    case_device_move(scene->kind, 0, copy, memory, bytes);
    for (size_t i = 0; i < bytes; i++)
        count += copy[i] != (uint8_t)byte;
    free(copy);
    return count;
}

/* The stream stands at a kernel that does not end until let_go(). */
static int hold_up(struct scene *scene)
{
    __atomic_store_n(&scene->flag, 0, __ATOMIC_RELEASE);
    return scene->streams->wait(scene->stream, &scene->flag);
}

static void let_go(struct scene *scene)
{
    __atomic_store_n(&scene->flag, 1, __ATOMIC_RELEASE);
}

static int open_scene(struct scene *scene, const struct weft_device_kind *kind,
                      const struct device_streams *streams, int64_t timeout_ms)
{
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    *scene = (struct scene){.kind = kind, .streams = streams};
    test_ranks_options(&options);
    options.timeout_ms = timeout_ms;
    CHECK_OK(weft_context_open(NULL, &scene->context));
    CHECK_OK(weft_comm_create(scene->context, &options, &scene->comm));
    scene->rank = weft_comm_rank(scene->comm);
    scene->ranks = weft_comm_size(scene->comm);
    CHECK(streams->open(0, &scene->stream) == 0);
    scene->on = (weft_call_options)WEFT_CALL_OPTIONS_INIT;
    scene->on.stream = scene->stream;
    scene->on.stream_kind = kind->name;
    return 0;
}

/* --- what a stream sees */

/* The stream holds a long kernel, then writes the input. Two calls, of which the second one takes what the first one gives; then the
 * stream writes over everything. */
static int check_order(struct scene *scene, size_t bytes)
{
    uint8_t *in, *out, *last;
    int sum = scene->ranks * (scene->ranks + 1) / 2;
    CHECK(get(scene, bytes, &in) == 0 && get(scene, bytes, &out) == 0 && get(scene, bytes, &last) == 0);
    CHECK(scene->streams->fill(scene->stream, in, 77, bytes) == 0);
    CHECK(hold_up(scene) == 0);
    CHECK(scene->streams->fill(scene->stream, in, scene->rank + 1, bytes) == 0);
    CHECK_OK(weft_allreduce(scene->comm, in, out, bytes, WEFT_UINT8, WEFT_SUM, &scene->on));
    CHECK_OK(weft_barrier(scene->comm, &scene->on));
    CHECK_OK(weft_allreduce(scene->comm, out, last, bytes, WEFT_UINT8, WEFT_SUM, &scene->on));
    CHECK(scene->streams->fill(scene->stream, in, 78, bytes) == 0);
    CHECK(scene->streams->fill(scene->stream, out, 79, bytes) == 0);
    CHECK(scene->streams->is_idle(scene->stream) == 0);
    let_go(scene);
    CHECK(scene->streams->sync(scene->stream) == 0);
    CHECK_BITS(other_than(scene, in, bytes, 78) == 0);
    CHECK_BITS(other_than(scene, out, bytes, 79) == 0);
    CHECK_BITS(other_than(scene, last, bytes, sum * scene->ranks) == 0);
    return put(scene, in) | put(scene, out) | put(scene, last);
}

/* More calls than may be in flight, before the first one can begin. */
static int check_many(struct scene *scene)
{
    enum { MANY = 1000, EACH = 16 };
    const int calls = (int)test_by_effort(300, 300, MANY);
    uint8_t *in, *out;
    int sum = scene->ranks * (scene->ranks - 1) / 2;
    CHECK(get(scene, MANY * EACH, &in) == 0 && get(scene, MANY * EACH, &out) == 0);
    CHECK(hold_up(scene) == 0);
    for (int i = 0; i < calls; i++) {
        CHECK(scene->streams->fill(scene->stream, in + i * EACH, i + scene->rank, EACH) == 0);
        CHECK_OK(weft_allreduce(scene->comm, in + i * EACH, out + i * EACH, EACH, WEFT_UINT8, WEFT_SUM,
                                &scene->on));
    }
    let_go(scene);
    CHECK(scene->streams->sync(scene->stream) == 0);
    for (int i = 0; i < calls; i++)
        CHECK_BITS(other_than(scene, out + i * EACH, EACH, i * scene->ranks + sum) == 0);
    return put(scene, in) | put(scene, out);
}

/* Two communicators and streams: one goes on while the other one is held up. Works, and calls outside of the scope, behind those
 * in it. */
static int check_beside(struct scene *scene)
{
    enum { BYTES = 5000 };
    weft_comm *other;
    weft_work *works[3];
    void *stream;
    uint8_t *in, *out, host[4] = {1, 2, 3, 4};
    CHECK_OK(weft_comm_split(scene->comm, 0, 0, &other, NULL));
    CHECK(scene->streams->open(0, &stream) == 0);
    CHECK(get(scene, BYTES, &in) == 0 && get(scene, 3 * BYTES, &out) == 0);
    CHECK(scene->streams->fill(stream, in, 3, BYTES) == 0);
    CHECK(scene->streams->sync(stream) == 0);
    CHECK(hold_up(scene) == 0);
    CHECK_OK(weft_allreduce(
        scene->comm, in, out, BYTES, WEFT_UINT8, WEFT_SUM,
        WEFT_CALL(.work = &works[0], .stream = scene->stream, .stream_kind = scene->kind->name)));
    CHECK_OK(
        weft_allreduce(scene->comm, in, out + BYTES, BYTES, WEFT_UINT8, WEFT_MAX, WEFT_START(&works[1])));
    CHECK_OK(weft_allreduce(scene->comm, host, host, 4, WEFT_UINT8, WEFT_SUM, WEFT_START(&works[2])));
    CHECK_OK(weft_allreduce(other, in, out + 2 * BYTES, BYTES, WEFT_UINT8, WEFT_SUM,
                            WEFT_CALL(.stream = stream, .stream_kind = scene->kind->name)));
    CHECK(scene->streams->sync(stream) == 0);
    CHECK_BITS(other_than(scene, out + 2 * BYTES, BYTES, 3 * scene->ranks) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(weft_work_wait(works[i], 0) == WEFT_AGAIN);
    CHECK(weft_work_wait(works[0], 1) == WEFT_TIMEOUT);
    let_go(scene);
    CHECK_OK(weft_barrier(scene->comm, NULL));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weft_work_wait(works[i], -1));
        CHECK_OK(weft_work_free(works[i]));
    }
    CHECK(scene->streams->sync(scene->stream) == 0);
    CHECK_BITS(other_than(scene, out, BYTES, 3 * scene->ranks) == 0);
    CHECK_BITS(other_than(scene, out + BYTES, BYTES, 3) == 0);
    CHECK_BITS(host[3] == 4 * scene->ranks);
    CHECK(scene->streams->close(stream) == 0);
    CHECK_OK(weft_comm_destroy(other));
    return put(scene, in) | put(scene, out);
}

/* --- lists, operations, one buffer of the host's */

static void take_larger(void *arg, const void *left, const void *right, void *result, size_t count,
                        weft_dtype dtype)
{
    (void)arg, (void)dtype;
    const uint8_t *a = left, *b = right;
    for (size_t i = 0; i < count; i++)
        ((uint8_t *)result)[i] = a[i] > b[i] ? a[i] : b[i];
}

static int check_list(struct scene *scene, int host)
{
    enum { TENSORS = 80 };
    const int small = test_is_sanitized() ? 8 : 2; /* between two large ones */
    const void *sends[TENSORS];
    void *recvs[TENSORS];
    size_t counts[TENSORS];
    for (int t = 0; t < TENSORS; t++) {
        counts[t] = t % (small + 1) ? (size_t)100 + (size_t)t : 70000;
        uint8_t *memory = malloc(counts[t]);
        recvs[t] = memory;
        if (!(host && t % 2)) {
            free(memory);
            CHECK(get(scene, counts[t], &memory) == 0);
            recvs[t] = memory;
            CHECK(scene->streams->fill(scene->stream, memory, t + scene->rank, counts[t]) == 0);
        } else {
            memset(memory, t + scene->rank, counts[t]);
        }
        sends[t] = recvs[t];
    }
    CHECK(hold_up(scene) == 0);
    CHECK_OK(
        weft_allreduce_list(scene->comm, TENSORS, sends, recvs, counts, WEFT_UINT8, WEFT_SUM, &scene->on));
    let_go(scene);
    CHECK(scene->streams->sync(scene->stream) == 0);
    for (int t = 0; t < TENSORS; t++) {
        int expected = t * scene->ranks + scene->ranks * (scene->ranks - 1) / 2;
        if (host && t % 2) {
            for (size_t i = 0; i < counts[t]; i++)
                CHECK_BITS(((uint8_t *)recvs[t])[i] == (uint8_t)expected);
            free(recvs[t]);
        } else {
            CHECK_BITS(other_than(scene, recvs[t], counts[t], expected) == 0);
            CHECK(put(scene, recvs[t]) == 0);
        }
    }
    return 0;
}

static int check_operations(struct scene *scene)
{
    enum { BYTES = 3000 };
    weft_op larger, scaled;
    uint8_t *memory, *host = malloc(BYTES), two = 2;
    CHECK_OK(job_make_op(scene->context, take_larger, NULL, 1, &larger));
    CHECK_OK(job_make_scaling(scene->context, WEFT_UINT8, &two, &scaled));
    CHECK(get(scene, BYTES, &memory) == 0);
    memset(host, 5, BYTES);
    CHECK(hold_up(scene) == 0);
    CHECK(scene->streams->fill(scene->stream, memory, scene->rank + 1, BYTES) == 0);
    CHECK_OK(weft_allreduce(scene->comm, memory, memory, BYTES, WEFT_UINT8, larger, &scene->on));
    CHECK_OK(weft_allreduce(scene->comm, memory, memory, BYTES, WEFT_UINT8, scaled, &scene->on));
    CHECK_OK(weft_allreduce(scene->comm, memory, host, BYTES, WEFT_UINT8, WEFT_MAX, &scene->on)); /* mixed */
    CHECK_OK(weft_allreduce(scene->comm, host, host, BYTES, WEFT_UINT8, scaled, &scene->on));
    CHECK_OK(weft_allreduce(scene->comm, host, memory, BYTES, WEFT_UINT8, WEFT_SUM, &scene->on));
    CHECK_OK(weft_allreduce(scene->comm, memory, memory, 0, WEFT_UINT8, WEFT_SUM, &scene->on));
    CHECK_BITS(host[0] == 5 && host[BYTES - 1] == 5);
    let_go(scene);
    CHECK(scene->streams->sync(scene->stream) == 0);
    int result = scene->ranks * 2 * scene->ranks * 2 * scene->ranks;
    for (size_t i = 0; i < BYTES; i++)
        CHECK_BITS(host[i] == (uint8_t)result);
    CHECK_BITS(other_than(scene, memory, BYTES, result * scene->ranks) == 0);
    CHECK_OK(weft_op_free(scene->context, larger));
    CHECK_OK(weft_op_free(scene->context, scaled));
    free(host);
    return put(scene, memory);
}

/* --- messages */

/* A ring of messages in one group, to the rank itself as well; then a blocking pair, which even ranks begin. */
static int check_messages(struct scene *scene, size_t bytes)
{
    int rank = scene->rank, ranks = scene->ranks, next = (rank + 1) % ranks,
        before = (rank + ranks - 1) % ranks;
    uint8_t *out, *in, *own, *host = malloc(bytes), *exchanged;
    CHECK(get(scene, bytes, &out) == 0 && get(scene, bytes, &in) == 0 && get(scene, bytes, &own) == 0);
    CHECK(get(scene, bytes, &exchanged) == 0);
    memset(host, 0, bytes);
    CHECK(scene->streams->fill(scene->stream, out, 99, bytes) == 0);
    CHECK(hold_up(scene) == 0);
    CHECK(scene->streams->fill(scene->stream, out, rank + 1, bytes) == 0);
    CHECK_OK(weft_group_start());
    CHECK_OK(weft_send(scene->comm, out, bytes, WEFT_UINT8, next, 1, &scene->on));
    CHECK_OK(weft_recv(scene->comm, in, bytes, WEFT_UINT8, WEFT_ANY_SOURCE, 1, NULL, &scene->on));
    CHECK_OK(weft_send(scene->comm, out, bytes, WEFT_UINT8, rank, 2, &scene->on));
    CHECK_OK(weft_recv(scene->comm, own, bytes, WEFT_UINT8, rank, 2, NULL, &scene->on));
    CHECK_OK(weft_group_end());
    CHECK_OK(weft_sendrecv(scene->comm, in, bytes, next, 3, exchanged, bytes, before, 3, WEFT_UINT8, NULL,
                           &scene->on));
    if (ranks > 1 && rank < 2 && rank % 2 == 0)
        CHECK_OK(weft_send(scene->comm, exchanged, bytes, WEFT_UINT8, 1, 4, &scene->on));
    if (ranks > 1 && rank < 2 && rank % 2)
        CHECK_OK(weft_recv(scene->comm, host, bytes, WEFT_UINT8, 0, 4, NULL, &scene->on));
    weft_message info = WEFT_MESSAGE_INIT;
    CHECK(weft_recv(scene->comm, host, bytes, WEFT_UINT8, 0, 4, &info, &scene->on) == WEFT_INVALID);
    CHECK(scene->streams->fill(scene->stream, out, 98, bytes) == 0);
    CHECK(scene->streams->fill(scene->stream, exchanged, 97, bytes) == 0);
    CHECK(scene->streams->is_idle(scene->stream) == 0);
    CHECK_BITS(host[0] == 0 && host[bytes - 1] == 0);
    let_go(scene);
    CHECK(scene->streams->sync(scene->stream) == 0);
    int twice = (before + ranks - 1) % ranks; /* whose bytes come over two ranks */
    CHECK_BITS(other_than(scene, in, bytes, before + 1) == 0);
    CHECK_BITS(other_than(scene, own, bytes, rank + 1) == 0);
    CHECK_BITS(other_than(scene, out, bytes, 98) == 0);
    CHECK_BITS(other_than(scene, exchanged, bytes, 97) == 0);
    for (size_t i = 0; i < bytes && ranks > 1 && rank == 1; i++)
        CHECK_BITS(host[i] == (uint8_t)((twice + ranks - 1) % ranks + 1));
    CHECK_OK(weft_barrier(scene->comm, NULL));
    free(host);
    return put(scene, in) | put(scene, out) | put(scene, own) | put(scene, exchanged);
}

/* --- what is refused */

static int refuses(const struct scene *scene, const char *kind, int ordinal, const char *words)
{
    uint8_t one[1] = {1};
    int status =
        weft_allreduce(scene->comm, one, one, 1, WEFT_UINT8, WEFT_SUM,
                       WEFT_CALL(.stream = scene->stream, .stream_kind = kind, .stream_ordinal = ordinal));
    CHECK(strstr(weft_error_detail(), words));
    return status;
}

static int check_errors(struct scene *scene)
{
    const char *name = scene->kind->name;
    char expected[64];
    int count = scene->kind->ops.count(scene->kind->device);
    snprintf(expected, sizeof expected, "expected 0 to %d", count - 1);
    CHECK(refuses(scene, "none", 0, "no kind of devices is called 'none'") == WEFT_INVALID);
    CHECK(refuses(scene, "host", 0, "no streams that can wait") == WEFT_UNSUPPORTED);
    CHECK(refuses(scene, name, count, expected) == WEFT_INVALID);
    CHECK(refuses(scene, name, -1, expected) == WEFT_INVALID);
    CHECK(refuses(scene, NULL, 0, "stream_kind") == WEFT_INVALID); /* memory of the host's has no stream */
    return 0;
}

int stream_calls_check(const struct weft_device_kind *kind, const struct device_streams *streams,
                       collective_place *place)
{
    /* The last ones are beyond what goes inside a message; each element of a kind that is simulated takes its time. */
    const size_t sizes[] = {1, 40, 9000, test_by_effort(70000, 100000, MOST)};
    const size_t counts[] = {1, 3000, test_by_effort(20000, 20000, 70000)};
    struct scene scene;
    CHECK(open_scene(&scene, kind, streams, 0) == 0);
    device_calls_by(kind);
    CHECK(check_errors(&scene) == 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        CHECK(check_order(&scene, sizes[i]) == 0);
        CHECK(check_messages(&scene, sizes[i]) == 0);
    }
    CHECK(check_many(&scene) == 0);
    CHECK(check_beside(&scene) == 0);
    CHECK(check_list(&scene, 0) == 0);
    CHECK(check_list(&scene, 1) == 0);
    CHECK(check_operations(&scene) == 0);
    collective_place_by(place);
    const struct collective_stream stream = {kind->name, scene.stream, streams->sync};
    collective_stream_by(&stream);
    CHECK(collective_sweep(scene.comm, COLLECTIVES_ALL, 5, counts, sizeof counts / sizeof *counts) == 0);
    collective_stream_by(NULL);
    CHECK(streams->close(scene.stream) == 0);
    CHECK_OK(weft_comm_destroy(scene.comm));
    CHECK_OK(weft_context_close(scene.context));
    return 0;
}

/* --- calls that end early */

enum way { ABORTED, LATE, DESTROYED };

/* Calls and messages wait for a stream that is held up, or for a rank that does not come. What they would have written is
 * untouched, the stream gets by, and the communicator says why. */
static int end_early(const struct weft_device_kind *kind, const struct device_streams *streams, enum way way)
{
    enum { BYTES = 100000 };
    struct scene scene;
    uint8_t *in, *out;
    weft_work *work;
    CHECK(open_scene(&scene, kind, streams, way == ABORTED ? 0 : 1500) == 0);
    CHECK(get(&scene, BYTES, &in) == 0 && get(&scene, 3 * BYTES, &out) == 0);
    CHECK(streams->fill(scene.stream, out, 66, 3 * BYTES) == 0);
    if (way != LATE)
        CHECK(hold_up(&scene) == 0);
    if (way == LATE && scene.rank == 1) {
        while (weft_probe(scene.comm, 0, 9, 50, NULL) == WEFT_TIMEOUT)
            ; /* it makes no call, and hears of the failure */
        goto close_stream;
    }
    CHECK_OK(weft_allreduce(scene.comm, in, out, BYTES, WEFT_UINT8, WEFT_SUM, &scene.on));
    if (way != DESTROYED)
        CHECK_OK(weft_allreduce(scene.comm, in, out + BYTES, BYTES, WEFT_UINT8, WEFT_SUM,
                                WEFT_CALL(.work = &work, .stream = scene.stream, .stream_kind = kind->name)));
    CHECK_OK(weft_recv(scene.comm, out + 2 * BYTES, BYTES, WEFT_UINT8, 1 - scene.rank, 1, NULL, &scene.on));
    if (way == ABORTED && scene.rank == 1)
        CHECK_OK(weft_send(scene.comm, &way, 1, WEFT_UINT8, 0, 5, NULL)); /* it has made its calls */
    if (way == ABORTED && scene.rank == 0)
        CHECK_OK(weft_recv(scene.comm, &way, 1, WEFT_UINT8, 1, 5, NULL, NULL));
    if (way == ABORTED && scene.rank == 0)
        CHECK_OK(weft_comm_abort(scene.comm, "the test says so"));
    if (way == LATE)
        CHECK(streams->sync(scene.stream) == 0); /* the stream waits end */
    if (way != DESTROYED) {
        int status = weft_work_wait(work, -1);
        CHECK(status == (way == LATE ? WEFT_TIMEOUT : WEFT_REVOKED));
        CHECK(strstr(weft_error_detail(), way == LATE ? "rank 0 gave up after " : "the test says so"));
        CHECK(weft_work_free(work) != 0);
        CHECK(weft_barrier(scene.comm, NULL) == WEFT_REVOKED);
    } else {
        int status = weft_comm_destroy(scene.comm);
        CHECK(status == WEFT_TIMEOUT || status == WEFT_REVOKED || status == WEFT_OK);
        CHECK(status != WEFT_TIMEOUT || strstr(weft_error_detail(), "gave up after "));
    }
    let_go(&scene);
    CHECK(streams->sync(scene.stream) == 0);
    CHECK_BITS(other_than(&scene, out, 3 * BYTES, 66) == 0);
close_stream:
    let_go(&scene);
    if (way != DESTROYED)
        weft_comm_destroy(scene.comm); /* which reports the failure, where it comes to know it */
    CHECK(streams->close(scene.stream) == 0);
    CHECK(put(&scene, in) == 0 && put(&scene, out) == 0);
    CHECK_OK(weft_context_close(scene.context));
    return 0;
}

int stream_ends_check(const struct weft_device_kind *kind, const struct device_streams *streams, int which)
{
    return end_early(kind, streams, (enum way)which);
}
