/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap process_vm_readv process_vm_writev shm_peer_wake */
/* A rank that waits until its ordinary memory has been read helps: it writes a half of each large piece. Seen, and broken, by the system calls. The reader
 * begins with its own half only when the owner has taken the other one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/conform.h"
#include "tests/support/job.h"
#include "tests/support/process_vm.h"
#include "tests/support/ranks.h"
#include "tests/support/watcher.h"
#include "transport/shm/shm_private.h"

#define BYTES (128u << 10) /* one piece */
#define PIECE (16u << 10)  /* what is read by less is no payload */

enum how { WRITES, REFUSES, WRITES_HALF, FORBIDS, IS_MISSING, STOPS_BEFORE, STOPS_BEHIND, DIES };

static struct shared {
    _Atomic int how, helper, begun, ended;
    _Atomic size_t written;
} * shared;

static _Atomic int wanted;         /* how often the helper is to have begun before this rank reads a half */
static _Thread_local int has_rung; /* since this rank has begun to wait for a message */
static _Thread_local int is_first; /* what it reads next of that */
static int firsts;                 /* halves that were the first */
static int rang;                   /* messages whose owner was woken first */
static _Atomic size_t whole;       /* what is less than this is one */

static void wait_for(const _Atomic int *value, int least)
{
    for (int i = 0; i < 20000 && *value < least; i++)
        usleep(1000);
}

/* The reader's. The first half of a message is read when the helper has begun. */
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long locals,
                                const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    if (local->iov_len >= PIECE && local->iov_len < whole)
        wait_for(&shared->begun, wanted);
    if (is_first && local->iov_len == 256 << 10) { /* half of one read */
        is_first = 0;
        firsts++;
        rang += has_rung;
    }
    return __real_process_vm_readv(pid, local, locals, remote, remotes, flags);
}

ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long locals,
                                 const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    struct iovec half = {local->iov_base, local->iov_len / 2};
    int how = shared->how;
    ssize_t got = -1;
    shared->helper = getpid();
    shared->begun++;
    if (how == STOPS_BEFORE)
        kill(getpid(), SIGSTOP);
    if (how == DIES)
        kill(getpid(), SIGKILL);
    if (how == REFUSES || how == FORBIDS || how == IS_MISSING)
        errno = how == REFUSES ? ENOMEM : how == FORBIDS ? EPERM : ENOSYS;
    else
        got =
            __real_process_vm_writev(pid, how == WRITES_HALF ? &half : local, locals, remote, remotes, flags);
    if (how == STOPS_BEHIND)
        kill(getpid(), SIGSTOP);
    if (got > 0)
        shared->written += (size_t)got;
    shared->ended++;
    return got;
}

static void prepare(enum how how)
{
    shared->helper = shared->begun = shared->ended = 0;
    shared->written = 0;
    shared->how = how;
}

static uint8_t value(size_t i, int seed)
{
    return (uint8_t)(i * 7 + i / 4096 + (size_t)seed);
}

static int check(const uint8_t *memory, size_t bytes, int seed)
{
    for (size_t i = 0; i < bytes; i++)
        CHECK_BITS(memory[i] == value(i, seed));
    return 0;
}

/* --- the bits are right, whatever the helper comes to */

static const size_t sizes[] = {64u << 10, (64u << 10) + 1, 100001, BYTES, (9u << 20) + 4099};

/* What the reader counts, and that the owner counts nothing. */
static int count(const struct job *job, int rank)
{
    weft_comm_stats stats = WEFT_COMM_STATS_INIT;
    CHECK_OK(weft_comm_get_stats(job->comm, &stats));
    CHECK(stats.bytes_helped == (rank && shared->how == WRITES ? shared->written : 0));
    CHECK(stats.bytes_offered <= stats.bytes_pulled / 2 && (stats.bytes_offered > 0) == (rank == 1));
    return 0;
}

static int sizes_body(int rank, int ranks, void *arg)
{
    struct job job;
    (void)ranks, (void)arg;
    CHECK_OK(job_open(&job, "shm", NULL));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t bytes = sizes[i], shift = 13 * i;
        uint8_t *memory = malloc(bytes + 2 * shift + 1);
        CHECK(memory);
        memset(memory, 0xee, bytes + 2 * shift + 1);
        for (size_t k = 0; k < bytes && rank == 0; k++)
            memory[shift + k] = value(k, (int)i);
        CHECK_OK(weft_barrier(job.comm, NULL));
        wanted = shared->begun + 1;
        whole = bytes <= BYTES ? bytes : 0; /* helped or not: the last one has many pieces */
        if (rank == 0)
            CHECK_OK(weft_send(job.comm, memory + shift, bytes, WEFT_UINT8, 1, 0, NULL));
        else
            CHECK_OK(weft_recv(job.comm, memory + shift, bytes, WEFT_UINT8, 0, 0, NULL, NULL));
        CHECK(check(memory + shift, bytes, (int)i) == 0);
        CHECK(rank == 0 || !whole || shared->begun >= wanted);
        for (size_t k = 0; k < shift; k++)
            CHECK_BITS(memory[k] == 0xee && memory[bytes + shift + k] == 0xee);
        free(memory);
    }
    CHECK(count(&job, rank) == 0);
    CHECK_OK(job_close(&job));
    return 0;
}

/* --- an owner that sleeps */

static int is_asleep(pid_t pid)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    size_t got = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    const char *name_end = got ? strrchr(text, ')') : NULL;
    return name_end && strncmp(name_end, ") S", 3) == 0;
}

void __real_shm_peer_wake(struct weft_link *link);
void __wrap_shm_peer_wake(struct weft_link *link);
void __wrap_shm_peer_wake(struct weft_link *link)
{
    has_rung |= link->control->sleep & 1;
    __real_shm_peer_wake(link);
}

/* The owner sleeps as soon as it waits, and wakes for other things as well: so one of many messages counts. */
static int sleeping_body(int rank, int ranks, void *arg)
{
    const int *bytes = arg;
    struct job job;
    uint8_t *memory = malloc((size_t)*bytes);
    (void)ranks;
    CHECK(memory);
    setenv("WEFT_SPIN_US", "0", 1);
    setenv("WEFT_HELP_SHM", "always", 1);
    CHECK_OK(job_open(&job, "shm", NULL));
    shared->helper = rank ? (int)shared->helper : getpid();
    CHECK_OK(weft_barrier(job.comm, NULL));
    for (int i = 0; i < 24; i++) {
        memset(memory, rank ? 0 : i, (size_t)*bytes);
        for (int k = 0; rank && k < 20000 && !is_asleep(shared->helper); k++)
            usleep(1000);
        has_rung = 0;
        is_first = 1;
        CHECK_OK(weft_broadcast(job.comm, memory, memory, (size_t)*bytes, WEFT_UINT8, 0, NULL));
        CHECK(memory[0] == i && memory[*bytes - 1] == i);
    }
    CHECK(!rank || firsts == 24);
    CHECK(!rank || (*bytes < 1 << 20 ? !rang : rang > 0));
    CHECK_OK(job_close(&job));
    free(memory);
    return 0;
}

static void test_asleep(void **state)
{
    (void)state;
    static int sizes_bytes[] = {512 << 10, 1 << 20};
    for (int i = 0; i < 2; i++) {
        prepare(WRITES);
        wanted = 0;
        if (test_ranks_fork(2, sleeping_body, &sizes_bytes[i]) != 0)
            fail_msg("%d bytes: an owner that sleeps was woken for a short message, or not for a long one",
                     sizes_bytes[i]);
    }
}

static void test_bits(void **state)
{
    (void)state;
    size_t all = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        all += sizes[i];
    for (int how = WRITES; how <= WRITES_HALF; how++) {
        prepare((enum how)how);
        assert_int_equal(test_ranks_fork(2, sizes_body, NULL), 0);
        assert_true(shared->begun > 0);
        assert_in_range(shared->written, how == REFUSES ? 0 : 1, how == REFUSES ? 0 : all / 2);
    }
    prepare(WRITES);
    assert_int_equal(test_ranks_threads(2, sizes_body, NULL), 0);
    assert_true(shared->written > 0);
}

/* --- who is asked, and who helps: as set, and as has been seen */

#define MESSAGES 24

struct asked {
    const char *settings[2]; /* of the owner, of the reader */
    enum how how;
    int begun; /* by the owner, for so many messages */
    const char *way, *why;
    int is_logged; /* that it has given up */
};

static int is_said(const struct job *job, const char *way, const char *why)
{
    weft_description description = WEFT_DESCRIPTION_INIT;
    CHECK_OK(weft_comm_describe(job->comm, "recv", NULL, NULL, BYTES, WEFT_UINT8, WEFT_SUM, 0, &description));
    if (strcmp(description.algorithm, way) != 0 || !strstr(description.why, why))
        fprintf(stderr, "%s (%s), expected %s (... %s ...)\n", description.algorithm, description.why, way,
                why);
    return strcmp(description.algorithm, way) == 0 && strstr(description.why, why);
}

/* One message, which is read in two halves, or at once. */
static int pass(const struct job *job, int rank, uint8_t *memory)
{
    CHECK_OK(weft_barrier(job->comm, NULL));
    wanted = shared->begun + 1;
    whole = BYTES;
    if (rank == 0)
        CHECK_OK(weft_send(job->comm, memory, BYTES, WEFT_UINT8, 1, 0, NULL));
    else
        CHECK_OK(weft_recv(job->comm, memory, BYTES, WEFT_UINT8, 0, 0, NULL, NULL));
    return 0;
}

static int asked_body(int rank, int ranks, void *arg)
{
    const struct asked *asked = arg;
    struct job job;
    weft_comm_stats stats = WEFT_COMM_STATS_INIT;
    weft_description description = WEFT_DESCRIPTION_INIT;
    uint8_t *memory = calloc(1, BYTES);
    (void)ranks;
    CHECK(memory);
    setenv("WEFT_HELP_SHM", asked->settings[rank], 1);
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(job_greet(job.comm));
    for (int i = 0; i < MESSAGES; i++)
        CHECK(pass(&job, rank, memory) == 0);
    CHECK_OK(weft_comm_get_stats(job.comm, &stats));
    CHECK(rank || is_said(&job, "-", "itself"));
    CHECK(!rank || is_said(&job, asked->way, asked->why));
    CHECK(!rank || stats.bytes_offered == (uint64_t)asked->begun * BYTES / 2);
    CHECK(weft_comm_describe(job.comm, "recv", NULL, NULL, 1, WEFT_UINT8, WEFT_SUM, 2, &description) ==
          WEFT_INVALID);
    CHECK_OK(job_close(&job));
    free(memory);
    return 0;
}

static int count_lines(const char *path, const char *words)
{
    char line[512];
    int lines = 0;
    FILE *log = fopen(path, "r");
    while (log && fgets(line, sizeof line, log))
        lines += strstr(line, words) != NULL;
    if (log)
        fclose(log);
    return lines;
}

/* The first test: a process reads once where its log goes. */
static void test_asked(void **state)
{
    static const struct asked all[] = {
        {{"auto", "auto"}, WRITES, MESSAGES, "helped", "written 1572864 of 1572864 bytes", 0},
        {{"auto", "auto"}, REFUSES, 4 + 1, "alone", "neither helped nor fed 24 times; every 17th read", 0},
        {{"auto", "auto"}, FORBIDS, 1, "alone", "the rank does not help", 1},
        {{"always", "always"}, IS_MISSING, 1, "alone", "the rank does not help", 1},
        {{"auto", "always"}, REFUSES, MESSAGES, "helped", "WEFT_HELP_SHM", 0},
        {{"always", "never"}, WRITES, 0, "alone", "WEFT_HELP_SHM says so", 0},
        {{"never", "always"}, WRITES, 0, "alone", "the rank does not help", 0},
    };
    char folder[] = "/tmp/weft-help-XXXXXX", path[64];
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/log", folder);
    setenv("WEFT_LOG_FILE", path, 1);
    setenv("WEFT_LOG", "info", 1);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        prepare(all[i].how);
        assert_int_equal(test_ranks_fork(2, asked_body, (void *)(uintptr_t)&all[i]), 0);
        assert_int_equal(shared->begun, all[i].begun);
        assert_int_equal(count_lines(path, "helps nobody any more"), all[i].is_logged);
        unlink(path);
    }
    unsetenv("WEFT_LOG");
    unsetenv("WEFT_LOG_FILE");
    rmdir(folder);
}

/* --- a helper that is stopped is not waited for, and writes nothing later */

static int receive_beside_stopped(const struct job *job, uint8_t *memory)
{
    CHECK_OK(weft_recv(job->comm, memory, BYTES, WEFT_UINT8, 0, 0, NULL, NULL));
    int pid = shared->helper;
    CHECK(pid && !shared->ended);
    CHECK(check(memory, BYTES, 1) == 0);
    memset(memory, 0x55, BYTES);
    shared->how = WRITES;
    kill(pid, SIGCONT);
    wait_for(&shared->ended, 1);
    CHECK(shared->ended);
    for (size_t i = 0; i < BYTES; i++)
        CHECK_BITS(memory[i] == 0x55);
    return 0;
}

static int stopped_body(int rank, int ranks, void *arg)
{
    struct job job;
    uint8_t *memory = malloc(BYTES);
    (void)ranks, (void)arg;
    CHECK(memory);
    CHECK_OK(job_open_within(&job, "shm", NULL, 60000));
    for (int seed = 1; seed <= 3; seed++) { /* the first one stops */
        for (size_t i = 0; i < BYTES && rank == 0; i++)
            memory[i] = value(i, seed);
        CHECK_OK(weft_barrier(job.comm, NULL));
        wanted = shared->begun + 1;
        whole = BYTES;
        if (rank == 0) {
            CHECK_OK(weft_send(job.comm, memory, BYTES, WEFT_UINT8, 1, 0, NULL));
        } else if (seed == 1) {
            CHECK(receive_beside_stopped(&job, memory) == 0);
        } else {
            size_t before = shared->written;
            CHECK_OK(weft_recv(job.comm, memory, BYTES, WEFT_UINT8, 0, 0, NULL, NULL));
            CHECK(check(memory, BYTES, seed) == 0);
            CHECK(shared->written > before); /* it helps again */
        }
    }
    CHECK_OK(job_close(&job));
    free(memory);
    return 0;
}

static void test_stopped(void **state)
{
    (void)state;
    for (int how = STOPS_BEFORE; how <= STOPS_BEHIND; how++) {
        prepare((enum how)how);
        assert_int_equal(test_ranks_fork(2, stopped_body, NULL), 0);
    }
}

/* --- deaths */

static int dying_body(int rank, int ranks, void *arg)
{
    struct job job;
    uint8_t *memory = calloc(1, BYTES);
    (void)ranks, (void)arg;
    CHECK(memory);
    CHECK_OK(job_open_within(&job, "shm", NULL, 60000));
    CHECK_OK(weft_barrier(job.comm, NULL));
    wanted = 1;
    whole = BYTES;
    if (rank == 0)
        weft_send(job.comm, memory, BYTES, WEFT_UINT8, 1, 0, NULL);
    else
        CHECK(weft_recv(job.comm, memory, BYTES, WEFT_UINT8, 0, 0, NULL, NULL) == WEFT_PEER_FAILED);
    weft_comm_destroy(job.comm);
    weft_context_close(job.context);
    free(memory);
    return 0;
}

static void test_helper_dies(void **state)
{
    int statuses[2];
    (void)state;
    prepare(DIES);
    test_ranks_fork_status(2, dying_body, NULL, statuses);
    assert_true(WIFSIGNALED(statuses[0]) && WTERMSIG(statuses[0]) == SIGKILL);
    assert_true(WIFEXITED(statuses[1]) && WEXITSTATUS(statuses[1]) == 0);
}

/* --- offers that no reader makes */

/* The other end of a pair of pipes says where it is; then this end. */
static struct weft_link *meet(struct conform_node *node, const int *in, const int *out)
{
    uint8_t peer[WEFT_ADDRESS_MAX];
    struct weft_link *link;
    uint32_t flags;
    if (write(out[1], node->address, node->address_size) != (ssize_t)node->address_size ||
        read(in[0], peer, node->address_size) != (ssize_t)node->address_size ||
        node->ops.connect(node->transport, peer, node->address_size, NULL, &link))
        return NULL;
    while (node->ops.link_flags(link, &flags) == WEFT_AGAIN)
        conform_poll(node, 16);
    return link;
}

/* A peer that never reads, and lives until it is killed. */
static void be_there(const struct conform_backend *backend, const int *in, const int *out)
{
    struct conform_node node;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (conform_node_open(&node, backend, test_watcher_start()) || !meet(&node, in, out))
        _exit(1);
    for (;;) {
        conform_poll(&node, 16);
        usleep(100);
    }
}

struct played {
    struct conform_world world;
    struct weft_link *link;
    struct shm_token token; /* of the memory, which the peer has at the same address */
    pid_t peer;
    int to_peer[2], to_self[2];
};
static uint8_t exposed[BYTES];

static void play(struct played *played)
{
    static const struct conform_backend backend = {.label = "shm", .transport = "shm", .direct = 1};
    struct weft_token token;
    int status;
    assert_int_equal(pipe(played->to_peer) | pipe(played->to_self), 0);
    played->peer = fork();
    assert_true(played->peer >= 0);
    if (played->peer == 0)
        be_there(&backend, played->to_peer, played->to_self);
    conform_open(&played->world, &backend, 1);
    struct conform_node *node = &played->world.nodes[0];
    played->link = meet(node, played->to_self, played->to_peer);
    assert_non_null(played->link);
    while ((status = node->ops.expose(played->link, NULL, exposed, BYTES, &token)) == WEFT_AGAIN)
        conform_turn(&played->world);
    assert_int_equal(status, WEFT_OK);
    memcpy(&played->token, &token, sizeof played->token);
    while (!atomic_load(&played->link->peer->pid)) /* its link comes up as well */
        conform_turn(&played->world);
}

static void end_play(struct played *played)
{
    conform_close(&played->world);
    for (int i = 0; i < 2; i++) {
        close(played->to_peer[i]);
        close(played->to_self[i]);
    }
}

/* As a reader would offer it. How often the owner has tried to write. */
static int offer(const struct played *played, uint32_t cell, const void *source, size_t bytes)
{
    struct shm_help *help = &((struct shm_ring_control *)(void *)played->link->ring.memory)->help;
    int before = shared->begun;
    help->place = (struct iovec){exposed, bytes};
    help->source = (uintptr_t)source;
    help->bytes = bytes;
    help->cell = cell;
    atomic_store(&help->state, SHM_HELP_STATES + SHM_HELP_OPEN);
    for (int i = 0; i < 3; i++)
        conform_poll(&played->world.nodes[0], 16);
    return shared->begun - before;
}

/* The peer may lack the right to read what it asks for. */
static void test_played_offers(void **state)
{
    struct played played;
    int status;
    (void)state;
    prepare(WRITES);
    play(&played);
    uint32_t cell = played.token.cell;
    assert_int_equal(offer(&played, cell, exposed, BYTES), 1);
    assert_int_equal(offer(&played, cell, exposed + BYTES / 2, BYTES / 2), 1);
    assert_int_equal(offer(&played, cell, exposed + 1, BYTES), 0);
    assert_int_equal(offer(&played, cell, exposed - 1, 2), 0);
    assert_int_equal(offer(&played, cell, exposed, SIZE_MAX), 0);
    assert_int_equal(offer(&played, cell + 1, exposed, BYTES), 0);
    assert_int_equal(offer(&played, 0, exposed, BYTES), 0);
    assert_int_equal(offer(&played, UINT32_MAX, exposed, BYTES), 0);
    /* The peer ends. Its number may be another process's when that is noticed, so the link is up once more. */
    kill(played.peer, SIGKILL);
    assert_int_equal(waitpid(played.peer, &status, 0), played.peer);
    conform_until(&played.world, &played.world.nodes[0].failed_count, 1);
    atomic_store(&played.link->state, SHM_LINK_UP);
    assert_int_equal(offer(&played, cell, exposed, BYTES), 0);
    atomic_store(&played.link->state, SHM_LINK_FAILED);
    end_play(&played);
}

/* What is not exposed any more is not copied, whatever else is. */
static void test_taken_back(void **state)
{
    struct played played;
    struct weft_token token = {0}, other;
    static uint8_t memory[BYTES];
    (void)state;
    prepare(WRITES);
    play(&played);
    struct conform_node *node = &played.world.nodes[0];
    memcpy(&token, &played.token, sizeof played.token);
    assert_int_equal(node->ops.expose(played.link, NULL, memory, BYTES, &other), WEFT_OK);
    node->ops.unexpose(played.link, &token, 0);
    assert_int_equal(offer(&played, played.token.cell, exposed, BYTES), 0);
    memcpy(&played.token, &other, sizeof played.token);
    assert_int_equal(offer(&played, played.token.cell, memory, BYTES), 1);
    node->ops.unexpose(played.link, &other, 1);
    assert_int_equal(played.link->exposures, 0);
    kill(played.peer, SIGKILL);
    assert_int_equal(waitpid(played.peer, NULL, 0), played.peer);
    end_play(&played);
}

int main(void)
{
    shared = test_ranks_shared(sizeof *shared);
    setenv("WEFT_WAY_SHM", "pull", 1);
    setenv("WEFT_SPIN_US", "1000000", 1); /* who waits does not sleep */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_asked),         cmocka_unit_test(test_bits),
        cmocka_unit_test(test_stopped),       cmocka_unit_test(test_helper_dies),
        cmocka_unit_test(test_played_offers), cmocka_unit_test(test_taken_back),
        cmocka_unit_test(test_asleep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
