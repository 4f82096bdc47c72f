/* The measuring loop that every library's driver shares (C and C++), so that nothing but the library differs.
 *
 * A driver's process pins itself, starts its library, and hands a struct peers_library to peers_serve(). That
 * connects to the coordinator (a Unix socket named by PEERS_SOCKET) and then sleeps in read() until it is
 * this library's turn: ranks that wait use no processor, so that all libraries can be up at once and their
 * turns alternate within milliseconds on a machine whose speed drifts.
 *
 *   driver:       hello LABEL RANK VERSION\n
 *   coordinator:  run SIZE_BYTES CALLS SAMPLES WARMUPS ROTATE VARIANT\n
 *   driver:       times NS NS ...\n          per sample, mean nanoseconds per call on this rank
 *            or:  failed WHAT\n
 *   coordinator:  closes the socket; the driver leaves peers_serve().
 *
 * Buffers: one send and one receive arena per rank, allocated and touched by the rank once. With ROTATE each
 * call takes the next pair of buffers in the arenas, so that neither input nor output is in a cache from the
 * call before when the arenas exceed the caches; without, every call uses the first pair (hot).
 *
 * Data: rank r contributes r + 1 everywhere; a few elements of the results are looked at after every turn.
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

enum { PEERS_SAMPLES_MAX = 1000, PEERS_PAGE = 4096 };

struct peers_library {
    const char *version;
    int rank, ranks;
    /* Sums count floats. variant picks between the library's own ways, as the driver says. 0 on success. */
    int (*allreduce)(void *self, const float *send, float *recv, size_t count, int variant);
    /* The two arenas; NULL: aligned ordinary memory. */
    void *(*allocate)(void *self, size_t size);
    void *self;
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

struct peers_turn {
    size_t size_bytes;
    int calls, samples, warmups, rotate, variant;
};

struct peers_arena {
    float *send, *recv;
    size_t bytes; /* of each */
    size_t next;  /* pair for the next rotated call */
};

static inline void *peers_allocate(const struct peers_library *library, size_t size)
{
    void *memory =
        library->allocate ? library->allocate(library->self, size) : aligned_alloc(PEERS_PAGE, size);
    if (memory)
        memset(memory, 0, size); /* touched by its rank first */
    return memory;
}

static inline int peers_prepare(const struct peers_library *library, struct peers_arena *arena)
{
    arena->bytes =
        (size_t)strtoull(peers_environment("PEERS_ARENA", "67108864"), NULL, 10) / PEERS_PAGE * PEERS_PAGE;
    arena->next = 0;
    arena->send = (float *)peers_allocate(library, arena->bytes);
    arena->recv = (float *)peers_allocate(library, arena->bytes);
    if (!arena->send || !arena->recv)
        return -1;
    for (size_t i = 0; i < arena->bytes / sizeof(float); i++)
        arena->send[i] = (float)(library->rank + 1);
    return 0;
}

/* One call on the first or the next pair of buffers. *recv tells where the result is. */
static inline int peers_call(const struct peers_library *library, struct peers_arena *arena,
                             const struct peers_turn *turn, float **recv)
{
    size_t stride = (turn->size_bytes + PEERS_PAGE - 1) / PEERS_PAGE * PEERS_PAGE;
    size_t offset = 0;
    if (turn->rotate) {
        if ((arena->next + 1) * stride > arena->bytes)
            arena->next = 0;
        offset = arena->next++ * stride / sizeof(float);
    }
    *recv = arena->recv + offset;
    return library->allreduce(library->self, arena->send + offset, *recv, turn->size_bytes / sizeof(float),
                              turn->variant);
}

static inline int peers_looks_right(const struct peers_library *library, const float *recv, size_t count)
{
    float expected = (float)(library->ranks * (library->ranks + 1) / 2);
    return count == 0 || (recv[0] == expected && recv[count / 2] == expected && recv[count - 1] == expected);
}

/* Takes one turn. NULL, or what went wrong. */
static inline const char *peers_take_turn(const struct peers_library *library, struct peers_arena *arena,
                                          const struct peers_turn *turn, double *samples_ns)
{
    float *recv = arena->recv;
    size_t count = turn->size_bytes / sizeof(float);
    for (int i = 0; i < turn->warmups; i++)
        if (peers_call(library, arena, turn, &recv) != 0)
            return "a warm-up call failed";
    int64_t start_ns = peers_now_ns();
    for (int sample = 0; sample < turn->samples; sample++) {
        for (int i = 0; i < turn->calls; i++)
            if (peers_call(library, arena, turn, &recv) != 0)
                return "a timed call failed";
        int64_t end_ns = peers_now_ns();
        samples_ns[sample] = (double)(end_ns - start_ns) / turn->calls;
        start_ns = end_ns;
    }
    return peers_looks_right(library, recv, count) ? NULL : "a result is wrong";
}

static inline int peers_answer(int descriptor, const double *samples_ns, int samples, const char *problem)
{
    static char line[PEERS_SAMPLES_MAX * 24 + 64];
    size_t used = 0;
    if (problem) {
        snprintf(line, sizeof line, "failed %s\n", problem);
        return peers_say(descriptor, line);
    }
    used += (size_t)snprintf(line, sizeof line, "times");
    for (int i = 0; i < samples; i++)
        used += (size_t)snprintf(line + used, sizeof line - used, " %.1f", samples_ns[i]);
    snprintf(line + used, sizeof line - used, "\n");
    return peers_say(descriptor, line);
}

/* Serves the coordinator until it hangs up. 0, or 1 after a message. */
static inline int peers_serve(const struct peers_library *library)
{
    static double samples_ns[PEERS_SAMPLES_MAX];
    struct peers_arena arena;
    char line[256];
    if (peers_prepare(library, &arena) != 0) {
        fprintf(stderr, "rank %d: no memory for its buffers\n", library->rank);
        return 1;
    }
    int descriptor = peers_connect();
    FILE *stream = descriptor < 0 ? NULL : fdopen(descriptor, "r");
    if (!stream)
        return 1;
    snprintf(line, sizeof line, "hello %s %d %.128s\n", peers_environment("PEERS_LABEL", "?"), library->rank,
             library->version);
    peers_say(descriptor, line);
    while (fgets(line, sizeof line, stream)) {
        struct peers_turn turn;
        const char *problem = NULL;
        if (sscanf(line, "run %zu %d %d %d %d %d", &turn.size_bytes, &turn.calls, &turn.samples,
                   &turn.warmups, &turn.rotate, &turn.variant) != 6 ||
            turn.size_bytes > arena.bytes || turn.calls < 1 || turn.samples < 1 ||
            turn.samples > PEERS_SAMPLES_MAX)
            problem = "the coordinator's line is malformed";
        if (!problem)
            problem = peers_take_turn(library, &arena, &turn, samples_ns);
        if (peers_answer(descriptor, samples_ns, problem ? 0 : turn.samples, problem) != 0 || problem)
            break;
    }
    fclose(stream);
    return 0;
}

#endif
