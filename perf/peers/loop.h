/* SPDX-License-Identifier: Apache-2.0 */
/* The measuring loop that every library's driver shares (C and C++), so that nothing but the library differs.
 *
 * A driver's process pins itself, starts its library, and hands a struct peers_library to peers_serve(). That
 * connects to the coordinator (a Unix socket named by PEERS_SOCKET) and then sleeps in read() until it is
 * this library's turn: ranks that wait use no processor, so that all libraries can be up at once and their
 * turns alternate within milliseconds on a machine whose speed drifts.
 *
 *   driver:       hello LABEL RANK OPERATION,OPERATION,... VERSION\n
 *   coordinator:  touch AT_BYTES SIZE_BYTES\n      this part of both arenas is written for the first time
 *   driver:       times\n
 *   coordinator:  check OPERATION SIZE_BYTES VARIANT\n      one call from every root, the result compared as a whole
 *   driver:       times\n
 *   coordinator:  run OPERATION SIZE_BYTES CALLS SAMPLES WARMUPS BUFFERS VARIANT\n
 *   driver:       times NS/NS/NS ...\n       per sample, mean nanoseconds per call on this rank, or per part of one, and how far
 *                                          the other rank was before and after it (distance.h), 0 where nobody asks
 *            or:  failed WHAT\n
 *   coordinator:  closes the socket; the driver leaves peers_serve().
 *
 * With PEERS_INIT the driver takes no turns: it does one allreduce of 8 bytes, says when main() began and when the
 * allreduce was done ("ready RANK NS NS\n", by the clock that all processes of the machine share), and ends.
 *
 * Buffers: one send and one receive arena per rank. The rank writes them first, a part at a time, in turns with the other libraries: with the
 * pages that come first 8 MB took up to a tenth longer than with later ones. BUFFERS is
 *   same      every call uses the first pair: it is hot
 *   rotated   each call takes the next pair in the arenas, so that neither input nor output is in a cache from the call before when the
 *             arenas exceed the caches
 *   written   the first pair, and the rank writes all that it sends before each call, as programs do. Each call is timed by itself then; the
 *             clock costs about 50 ns, at every library
 */
#ifndef WEFT_PEERS_LOOP_H
#define WEFT_PEERS_LOOP_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "perf/peers/distance.h"
#include "perf/peers/operations.h"

enum { PEERS_SAMPLES_MAX = 1000, PEERS_PAGE = 4096 };

struct peers_library {
    const char *version;
    int rank, ranks;
    /* The two arenas; NULL: aligned ordinary memory. */
    void *(*allocate)(void *self, size_t size);
    void *self;
    int64_t start_ns;                            /* when main() began */
    peers_function *functions[PEERS_OPERATIONS]; /* NULL: the library has no such operation */
};

static inline const char *peers_environment(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value ? value : otherwise;
}

/* Pins the calling process to the rank-th processor of PEERS_CPUS ("0,1,..."), round-robin. Call before the
 * library starts threads. The rank comes from whichever launcher there is. */
static inline int peers_pin(void)
{
    static const char *const names[] = {"PEERS_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK"};
    const char *cpus = peers_environment("PEERS_CPUS", "");
    int rank = 0, count = 1;
    for (size_t i = sizeof names / sizeof *names; i-- > 0;)
        if (getenv(names[i]))
            rank = atoi(getenv(names[i]));
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!*cpus)
        return rank;
    for (const char *at = cpus; (at = strchr(at, ',')) != NULL; at++)
        count++;
    for (int skip = rank % count; skip > 0; skip--)
        cpus = strchr(cpus, ',') + 1;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(atoi(cpus), &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0)
        fprintf(stderr, "rank %d stays unpinned: %s\n", rank, strerror(errno));
    return rank;
}

static inline int64_t peers_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* A connection to the coordinator, as a stream for reading and a descriptor for writing. */
static inline int peers_connect(void)
{
    struct sockaddr_un address;
    const char *path = peers_environment("PEERS_SOCKET", "");
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    if (!*path || strlen(path) >= sizeof address.sun_path) {
        fprintf(stderr, "PEERS_SOCKET is '%s': expected the coordinator's socket\n", path);
        return -1;
    }
    strcpy(address.sun_path, path);
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0 || connect(descriptor, (struct sockaddr *)&address, sizeof address) != 0) {
        fprintf(stderr, "cannot reach the coordinator at %s: %s\n", path, strerror(errno));
        if (descriptor >= 0)
            close(descriptor);
        return -1;
    }
    return descriptor;
}

static inline int peers_say(int descriptor, const char *text)
{
    size_t size = strlen(text);
    while (size > 0) {
        ssize_t sent = send(descriptor, text, size, MSG_NOSIGNAL);
        if (sent <= 0)
            return -1;
        text += sent;
        size -= (size_t)sent;
    }
    return 0;
}

enum peers_buffers { PEERS_SAME, PEERS_ROTATED, PEERS_WRITTEN, PEERS_BUFFERS };

struct peers_turn {
    int operation;
    size_t size_bytes;
    int calls, samples, warmups, variant;
    int buffers; /* enum peers_buffers */
};

struct peers_sample {
    double ns, before_ns, after_ns;
};

struct peers_arena {
    float *memory;
    size_t bytes;
    size_t next; /* offset of the next rotated call's buffer, in bytes */
};

struct peers_arenas {
    struct peers_arena send, recv;
    unsigned calls; /* for the root */
    struct peers_distance distance;
};

static inline int peers_allocate(const struct peers_library *library, struct peers_arena *arena)
{
    arena->next = 0;
    arena->bytes =
        (size_t)strtoull(peers_environment("PEERS_ARENA", "67108864"), NULL, 10) / PEERS_PAGE * PEERS_PAGE;
    arena->memory = (float *)(library->allocate ? library->allocate(library->self, arena->bytes)
                                                : aligned_alloc(PEERS_PAGE, arena->bytes));
    return arena->memory ? 0 : -1;
}

/* Fills what goes out, from the arena's start. */
static inline void peers_fill(struct peers_arena *arena, int rank, size_t bytes, int weighted)
{
    for (size_t i = 0; i < bytes / sizeof(float); i++)
        arena->memory[i] = peers_value(rank, i, weighted);
}

/* Writes what lies from at_bytes on, which nobody has touched. */
static inline void peers_touch(struct peers_arenas *arenas, int rank, size_t at_bytes, size_t size_bytes)
{
    size_t all = arenas->send.bytes / sizeof(float), at = at_bytes / sizeof(float),
           end = at + size_bytes / sizeof(float);
    for (size_t i = at; i < end && i < all; i++) {
        arenas->send.memory[i] = peers_value(rank, i, 0);
        arenas->recv.memory[i] = 0;
    }
}

static inline int peers_prepare(const struct peers_library *library, struct peers_arenas *arenas)
{
    arenas->calls = 0;
    arenas->distance = peers_distance_open(library->rank, library->ranks);
    return peers_allocate(library, &arenas->send) != 0 || peers_allocate(library, &arenas->recv) != 0 ? -1
                                                                                                      : 0;
}

/* How many messages of a window get a place of their own: all of them, or what the arena has room for. */
static inline int peers_places(const struct peers_arenas *arenas, const struct peers_turn *turn)
{
    size_t room = arenas->recv.bytes / turn->size_bytes;
    return room == 0 ? 1 : room < PEERS_WINDOW_MESSAGES ? (int)room : PEERS_WINDOW_MESSAGES;
}

static inline float *peers_take(struct peers_arena *arena, size_t bytes, int rotate)
{
    if (!rotate)
        return arena->memory;
    bytes = (bytes + PEERS_PAGE - 1) / PEERS_PAGE * PEERS_PAGE;
    if (arena->next + bytes > arena->bytes)
        arena->next = 0;
    float *memory = arena->memory + arena->next / sizeof(float);
    arena->next += bytes;
    return memory;
}

/* Takes the first or the next pair of buffers. */
static inline void peers_call_make(const struct peers_library *library, struct peers_arenas *arenas,
                                   const struct peers_turn *turn, struct peers_call *call)
{
    int operation = turn->operation, ranks = library->ranks, rotate = turn->buffers == PEERS_ROTATED;
    call->places = peers_places(arenas, turn);
    call->send = peers_take(&arenas->send,
                            turn->size_bytes * peers_blocks_sent(operation, ranks, call->places), rotate);
    call->recv = peers_take(&arenas->recv,
                            turn->size_bytes * peers_blocks_received(operation, ranks, call->places), rotate);
    call->count = turn->size_bytes / sizeof(float);
    call->root = (int)(arenas->calls++ % (unsigned)library->ranks);
    call->variant = turn->variant;
}

/* One call on the first or the next pair of buffers. *call says what was called. */
static inline int peers_call_next(const struct peers_library *library, struct peers_arenas *arenas,
                                  const struct peers_turn *turn, struct peers_call *call)
{
    peers_call_make(library, arenas, turn, call);
    return library->functions[turn->operation](library->self, call);
}

/* Writes what the rank sends in the next call, and makes that. Adds the time of the call alone. */
static inline int peers_call_written(const struct peers_library *library, struct peers_arenas *arenas,
                                     const struct peers_turn *turn, struct peers_call *call,
                                     int64_t *spent_ns)
{
    size_t bytes =
        turn->size_bytes * peers_blocks_sent(turn->operation, library->ranks, peers_places(arenas, turn));
    peers_call_make(library, arenas, turn, call);
    peers_fill(&arenas->send, library->rank, bytes, 0);
    int64_t begin_ns = peers_now_ns();
    int status = library->functions[turn->operation](library->self, call);
    *spent_ns += peers_now_ns() - begin_ns;
    return status;
}

/* The calls of one sample. Returns what they took together, or -1. */
static inline int64_t peers_call_all(const struct peers_library *library, struct peers_arenas *arenas,
                                     const struct peers_turn *turn, struct peers_call *call)
{
    int64_t begin_ns = peers_now_ns(), spent_ns = 0;
    for (int i = 0; i < turn->calls; i++) {
        int status = turn->buffers == PEERS_WRITTEN
                         ? peers_call_written(library, arenas, turn, call, &spent_ns)
                         : peers_call_next(library, arenas, turn, call);
        if (status != 0)
            return -1;
    }
    return turn->buffers == PEERS_WRITTEN ? spent_ns : peers_now_ns() - begin_ns;
}

/* What a call's time is divided by. */
static inline double peers_parts(int operation)
{
    return operation == PEERS_PINGPONG ? 2 : operation == PEERS_WINDOW ? PEERS_WINDOW_MESSAGES : 1;
}

/* Takes one turn. NULL, or what went wrong. */
static inline const char *peers_take_turn(const struct peers_library *library, struct peers_arenas *arenas,
                                          const struct peers_turn *turn, struct peers_sample *samples)
{
    struct peers_call call;
    double parts = peers_parts(turn->operation);
    for (int i = 0; i < turn->warmups; i++)
        if (peers_call_next(library, arenas, turn, &call) != 0)
            return "a warm-up call failed";
    double before_ns = peers_distance_look(&arenas->distance);
    for (int sample = 0; sample < turn->samples; sample++) {
        int64_t spent_ns = peers_call_all(library, arenas, turn, &call);
        if (spent_ns < 0)
            return "a timed call failed";
        samples[sample].ns = (double)spent_ns / turn->calls / parts;
        samples[sample].before_ns = before_ns;
        samples[sample].after_ns = before_ns = peers_distance_look(&arenas->distance);
    }
    size_t step = call.count / 2 ? call.count / 2 : 1;
    return peers_is_right(turn->operation, library->rank, library->ranks, &call, 0, step)
               ? NULL
               : "a result is wrong";
}

/* Every element of the results of one call from each root, from data that tell all elements apart into memory that
 * has held something else. NULL, or what went wrong. */
static inline const char *peers_check(const struct peers_library *library, struct peers_arenas *arenas,
                                      const struct peers_turn *turn)
{
    const char *problem = NULL;
    int places = peers_places(arenas, turn);
    size_t sent = turn->size_bytes * peers_blocks_sent(turn->operation, library->ranks, places);
    size_t received = turn->size_bytes * peers_blocks_received(turn->operation, library->ranks, places);
    peers_fill(&arenas->send, library->rank, sent, 1);
    for (int i = 0; i < library->ranks && !problem; i++) {
        struct peers_call call;
        memset(arenas->recv.memory, 0xff, received);
        if (peers_call_next(library, arenas, turn, &call) != 0)
            problem = "a call failed";
        else if (!peers_is_right(turn->operation, library->rank, library->ranks, &call, 1, 1))
            problem = "a result is wrong";
    }
    peers_fill(&arenas->send, library->rank, sent, 0);
    return problem;
}

static inline int peers_answer(int descriptor, const struct peers_sample *samples, int count,
                               const char *problem)
{
    static char line[PEERS_SAMPLES_MAX * 48 + 64];
    size_t used = 0;
    if (problem) {
        snprintf(line, sizeof line, "failed %s\n", problem);
        return peers_say(descriptor, line);
    }
    used += (size_t)snprintf(line, sizeof line, "times");
    for (int i = 0; i < count; i++)
        used += (size_t)snprintf(line + used, sizeof line - used, " %.1f/%.0f/%.0f", samples[i].ns,
                                 samples[i].before_ns, samples[i].after_ns);
    snprintf(line + used, sizeof line - used, "\n");
    return peers_say(descriptor, line);
}

/* Reads the coordinator's line. 1 for a check, 0 for a turn, -1 for neither. */
static inline int peers_parse(const struct peers_library *library, const char *line, struct peers_turn *turn)
{
    static const char *const uses[PEERS_BUFFERS] = {"same", "rotated", "written"};
    char name[32], buffers[32] = "same";
    int check = sscanf(line, "check %31s %zu %d", name, &turn->size_bytes, &turn->variant) == 3;
    if (check)
        turn->calls = turn->samples = turn->warmups = 0;
    else if (sscanf(line, "run %31s %zu %d %d %d %31s %d", name, &turn->size_bytes, &turn->calls,
                    &turn->samples, &turn->warmups, buffers, &turn->variant) != 7 ||
             turn->calls < 1 || turn->samples < 1 || turn->samples > PEERS_SAMPLES_MAX)
        return -1;
    turn->buffers = 0;
    while (turn->buffers < PEERS_BUFFERS && strcmp(buffers, uses[turn->buffers]) != 0)
        turn->buffers++;
    if (turn->buffers == PEERS_BUFFERS)
        return -1;
    turn->operation = peers_operation_find(name);
    return turn->operation < PEERS_OPERATIONS && library->functions[turn->operation] ? check : -1;
}

/* Answers one line. 0 to go on. */
static inline int peers_serve_line(const struct peers_library *library, struct peers_arenas *arenas,
                                   int descriptor, const char *line)
{
    static struct peers_sample samples[PEERS_SAMPLES_MAX];
    struct peers_turn turn;
    const char *problem = "the coordinator's line is malformed";
    size_t at_bytes, size_bytes;
    if (sscanf(line, "touch %zu %zu", &at_bytes, &size_bytes) == 2) {
        peers_touch(arenas, library->rank, at_bytes, size_bytes);
        return peers_answer(descriptor, samples, 0, NULL) != 0;
    }
    int check = peers_parse(library, line, &turn);
    if (check >= 0 && turn.size_bytes > 0 &&
        turn.size_bytes *
                peers_blocks_received(turn.operation, library->ranks, peers_places(arenas, &turn)) <=
            arenas->recv.bytes)
        problem =
            check ? peers_check(library, arenas, &turn) : peers_take_turn(library, arenas, &turn, samples);
    return peers_answer(descriptor, samples, problem ? 0 : turn.samples, problem) != 0 || problem;
}

/* The time until a fresh job has done its first call. */
static inline int peers_serve_init(const struct peers_library *library)
{
    float send[2] = {peers_value(library->rank, 0, 0), peers_value(library->rank, 1, 0)}, recv[2] = {0, 0};
    struct peers_call call = {send, recv, 2, 0, 0, 1};
    char line[128];
    int failed = library->functions[PEERS_ALLREDUCE](library->self, &call) != 0;
    int64_t done_ns = peers_now_ns();
    int descriptor = peers_connect();
    if (descriptor < 0)
        return 1;
    if (failed || !peers_is_right(PEERS_ALLREDUCE, library->rank, library->ranks, &call, 0, 1))
        snprintf(line, sizeof line, "failed the first allreduce\n");
    else
        snprintf(line, sizeof line, "ready %d %lld %lld\n", library->rank, (long long)library->start_ns,
                 (long long)done_ns);
    peers_say(descriptor, line);
    close(descriptor);
    return 0;
}

/* Serves the coordinator until it hangs up. 0, or 1 after a message. */
static inline int peers_serve(const struct peers_library *library)
{
    struct peers_arenas arenas;
    char line[256], operations[128] = "";
    if (*peers_environment("PEERS_INIT", ""))
        return peers_serve_init(library);
    if (peers_prepare(library, &arenas) != 0) {
        fprintf(stderr, "rank %d: no memory for its buffers\n", library->rank);
        return 1;
    }
    int descriptor = peers_connect();
    FILE *stream = descriptor < 0 ? NULL : fdopen(descriptor, "r");
    if (!stream)
        return 1;
    for (int i = 0; i < PEERS_OPERATIONS; i++)
        if (library->functions[i]) {
            strcat(operations, *operations ? "," : "");
            strcat(operations, peers_operation_name(i));
        }
    snprintf(line, sizeof line, "hello %s %d %s %.128s\n", peers_environment("PEERS_LABEL", "?"),
             library->rank, operations, library->version);
    peers_say(descriptor, line);
    while (fgets(line, sizeof line, stream))
        if (peers_serve_line(library, &arenas, descriptor, line) != 0)
            break;
    fclose(stream);
    return 0;
}

#endif
