/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as threads meet by every source of rank 0's address, gather, and leave. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/clock.h"
#include "comm/boot/frame.h"
#include "base/net/socket.h"
#include "comm/boot/record.h"
#include "comm/boot/bootstrap.h"
#include "tests/support/heartbeat.h"
#include "tests/support/leak.h"
#include "tests/support/ranks.h"
#include "tests/support/effort.h"
#include "tests/support/patience.h"
#include "tests/support/skip.h"

#define DEADLINE_MS test_patient(30000) /* 512 ranks as threads of one process */

enum source { LISTENER, ADDRESS, SHARED_FILE, STORE };

/* A store as a caller would write one: a few keys under a lock. */
struct memory_store {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char key[128];
    char value[WEFT_BOOT_RECORD_MAX];
    size_t size;
    const char *decoy; /* a line that comes before the addresses of the record */
};

static int store_put(void *arg, const char *key, const void *value, size_t size)
{
    struct memory_store *store = arg;
    pthread_mutex_lock(&store->lock);
    snprintf(store->key, sizeof store->key, "%s", key);
    const char *addresses = store->decoy ? memmem(value, size, "address ", 8) : NULL;
    size_t before = addresses ? (size_t)(addresses - (const char *)value) : size;
    size_t decoy = addresses ? strlen(store->decoy) : 0;
    memcpy(store->value, value, before);
    if (addresses) {
        memcpy(store->value + before, store->decoy, decoy);
        memcpy(store->value + before + decoy, addresses, size - before);
    }
    store->size = size + decoy;
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->lock);
    return 0;
}

static int store_get(void *arg, const char *key, void *value, size_t capacity, size_t *size,
                     int64_t timeout_ms)
{
    struct memory_store *store = arg;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += timeout_ms % 1000 * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    int error = 0, status = WEFT_TIMEOUT;
    pthread_mutex_lock(&store->lock);
    while (strcmp(store->key, key) != 0 && !error)
        error = pthread_cond_timedwait(&store->changed, &store->lock, &until);
    if (strcmp(store->key, key) == 0 && store->size <= capacity) {
        memcpy(value, store->value, store->size);
        *size = store->size;
        status = WEFT_OK;
    }
    pthread_mutex_unlock(&store->lock);
    return status;
}

struct meeting {
    enum source source;
    const char *file;
    const char *address;
    weft_store *store;
    struct weft_service *shared_service; /* NULL: each rank its own */
    int late_root_ms;
    int rounds;
    size_t size_most;
    int expect_failed;
};

static void on_failed(void *arg)
{
    __atomic_add_fetch((int *)arg, 1, __ATOMIC_SEQ_CST);
}

static void fill_source(const struct meeting *meeting, int rank, struct weft_bootstrap_options *options)
{
    options->listen_fd = -1;
    if (meeting->source != SHARED_FILE && meeting->source != STORE) { /* which carry one */
        options->secret = TEST_SECRET;
        options->secret_size = TEST_SECRET_BYTES;
    }
    if (meeting->source == SHARED_FILE)
        options->file = meeting->file;
    else if (meeting->source == STORE)
        options->store = meeting->store;
    else if (meeting->source == ADDRESS)
        options->address = meeting->address;
    else
        options->address = test_ranks_address();
    if (meeting->source == LISTENER && rank == 0)
        options->listen_fd = dup(test_ranks_listen_fd());
}

/* What rank contributes to a round: sizes differ, and some are empty. */
static size_t blob_size(int rank, int round, size_t most)
{
    return most == 0 || (rank + round) % 5 == 0 ? 0 : (size_t)(rank * 7919 + round * 104729 + 1) % (most + 1);
}

static unsigned char blob_byte(int rank, int round, size_t at)
{
    return (unsigned char)(rank * 31 + round * 17 + (int)(at % 251));
}

static int gather_rounds(struct weft_bootstrap *b, int rank, int ranks, const struct meeting *meeting)
{
    for (int round = 0; round < meeting->rounds; round++) {
        size_t size = blob_size(rank, round, meeting->size_most);
        unsigned char *mine = malloc(size + 1);
        CHECK(mine);
        for (size_t i = 0; i < size; i++)
            mine[i] = blob_byte(rank, round, i);
        struct weft_blob *blobs;
        CHECK_OK(weft_bootstrap_allgather(b, "allgather", mine, size, &blobs, weft_deadline_ns(DEADLINE_MS)));
        for (int r = 0; r < ranks; r++) {
            CHECK(blobs[r].size == blob_size(r, round, meeting->size_most));
            for (size_t i = 0; i < blobs[r].size; i++)
                CHECK_BITS(((const unsigned char *)blobs[r].data)[i] == blob_byte(r, round, i));
        }
        free(blobs);
        free(mine);
        CHECK_OK(weft_bootstrap_barrier(b, "barrier", weft_deadline_ns(DEADLINE_MS)));
    }
    return 0;
}

static int meet_and_gather(int rank, int ranks, void *arg)
{
    const struct meeting *meeting = arg;
    int failures = 0;
    struct weft_service *service = meeting->shared_service;
    struct weft_bootstrap_options options = {.rank = rank,
                                             .ranks = ranks,
                                             .name = "test",
                                             .heartbeat_ms = TEST_HEARTBEAT_MS,
                                             .deadline_ns = weft_deadline_ns(DEADLINE_MS),
                                             .failed = on_failed,
                                             .failed_arg = &failures};
    fill_source(meeting, rank, &options);
    if (!service)
        CHECK_OK(weft_service_start("weft-test", &service));
    options.service = service;
    if (rank == 0 && meeting->late_root_ms)
        usleep((unsigned)meeting->late_root_ms * 1000);
    struct weft_bootstrap *b;
    CHECK_OK(weft_bootstrap_open(&options, &b));
    if (options.listen_fd >= 0)
        close(options.listen_fd);
    CHECK(strcmp(weft_bootstrap_local_address(b), "127.0.0.1") == 0 ||
          strcmp(weft_bootstrap_local_address(b), "::1") == 0);
    if (gather_rounds(b, rank, ranks, meeting))
        return 1;
    /* Nobody may take an exit for a death, in whatever order they leave. */
    usleep((unsigned)(rank * 7 % 5) * 3000);
    CHECK(weft_bootstrap_failure(b, NULL, 0) == WEFT_OK);
    weft_bootstrap_close(b);
    CHECK(__atomic_load_n(&failures, __ATOMIC_SEQ_CST) == 0);
    if (!meeting->shared_service)
        weft_service_stop(service);
    return 0;
}

static int nothing(int rank, int ranks, void *arg)
{
    (void)rank, (void)ranks, (void)arg;
    return 0;
}

static void run(int ranks, struct meeting *meeting)
{
    test_ranks_threads(1, nothing, NULL); /* a sanitizer's own thread starts with the first */
    struct test_leak before;
    test_leak_take(&before);
    assert_int_equal(test_ranks_threads(ranks, meet_and_gather, meeting), 0);
    assert_int_equal(test_leak_check(&before), 0);
}

static void test_rank_counts(void **state)
{
    (void)state;
    static const int counts[] = {1, 2, 3, 4, 5, 6, 7, 9, 16, 21, 22, 33};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct meeting meeting = {.source = LISTENER, .rounds = 3, .size_most = 100};
        run(counts[i], &meeting);
    }
}

static void test_large_blobs(void **state)
{
    (void)state;
    struct meeting meeting = {
        .source = LISTENER, .rounds = 2, .size_most = test_is_sanitized() ? 1 << 18 : 1 << 20};
    run(9, &meeting);
}

static int free_port(int family)
{
    struct sockaddr_storage name = {.ss_family = (sa_family_t)family};
    socklen_t size = sizeof name;
    if (family == AF_INET)
        ((struct sockaddr_in *)&name)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        ((struct sockaddr_in6 *)&name)->sin6_addr = in6addr_loopback;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&name, sizeof name) != 0 ||
        getsockname(fd, (struct sockaddr *)&name, &size) != 0) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    close(fd);
    return ntohs(((struct sockaddr_in *)&name)->sin_port); /* at the same place in both */
}

static void test_address(void **state)
{
    (void)state;
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%d", free_port(AF_INET));
    run(7, &(struct meeting){.source = ADDRESS, .address = address, .rounds = 2, .size_most = 10});
}

static void test_address_by_name(void **state)
{
    (void)state;
    struct addrinfo *found;
    char address[64];
    if (getaddrinfo("localhost", NULL, NULL, &found)) /* a root folder without /etc/hosts */
        TEST_SKIP("this system has no name 'localhost'");
    freeaddrinfo(found);
    snprintf(address, sizeof address, "localhost:%d", free_port(AF_INET));
    run(7, &(struct meeting){.source = ADDRESS, .address = address, .rounds = 2, .size_most = 10});
}

static void test_address_ipv6(void **state)
{
    (void)state;
    int port = free_port(AF_INET6);
    if (port < 0)
        TEST_SKIP("no IPv6 loopback here");
    char address[64];
    snprintf(address, sizeof address, "[::1]:%d", port);
    run(7, &(struct meeting){.source = ADDRESS, .address = address, .rounds = 2, .size_most = 10});
}

static void test_late_root(void **state)
{
    (void)state;
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%d", free_port(AF_INET));
    run(6, &(struct meeting){.source = ADDRESS, .address = address, .late_root_ms = 300, .rounds = 1});
}

static void test_same_address_again(void **state)
{
    (void)state;
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%d", free_port(AF_INET));
    struct meeting meeting = {.source = ADDRESS, .address = address, .rounds = 1};
    for (int i = 0; i < 3; i++)
        run(5, &meeting);
}

static void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void test_file(void **state)
{
    (void)state;
    char folder[] = "/tmp/test-boot-XXXXXX", path[64], stale[256];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/meet", folder);
    struct meeting meeting = {.source = SHARED_FILE, .file = path, .rounds = 2, .size_most = 50};
    run(6, &meeting);
    assert_int_equal(access(path, F_OK), -1); /* rank 0 has removed it */

    /* A record of a dead job: refused connection, then a port where something else listens. */
    int port = free_port(AF_INET);
    snprintf(stale, sizeof stale,
             "weft-rendezvous 1\nnonce 00000000000000aa\nhost %016llx\naddress 127.0.0.1:%d\nend\n",
             (unsigned long long)weft_net_host_identity(), port);
    write_text(path, stale);
    meeting.late_root_ms = 200;
    run(6, &meeting);
    struct weft_net_address silent = {.family = 4, .ip = {127, 0, 0, 1}};
    int listener;
    uint16_t silent_port;
    assert_int_equal(weft_net_listen(&silent, &listener, &silent_port), WEFT_OK);
    snprintf(stale, sizeof stale,
             "weft-rendezvous 1\nnonce 00000000000000aa\nhost %016llx\naddress 127.0.0.1:%d\nend\n",
             (unsigned long long)weft_net_host_identity(), silent_port);
    write_text(path, stale);
    run(6, &meeting);
    close(listener);
    write_text(path, "weft-rendezvous 1\nnonce 00"); /* torn */
    run(6, &meeting);
    assert_int_equal(rmdir(folder), 0); /* nothing left in it */
}

static void test_store(void **state)
{
    (void)state;
    struct memory_store memory = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    weft_store store = {&memory, store_put, store_get};
    struct meeting meeting = {.source = STORE, .store = &store, .rounds = 2, .size_most = 50};
    run(6, &meeting);
    assert_string_equal(memory.key, "weft/test/root");
    /* A store cannot forget: the second communicator finds the first one's record, and does not mind. */
    meeting.late_root_ms = 100;
    run(6, &meeting);
}

struct decoy {
    int listener, stop;
};

/* Takes connections and closes them. */
static void *close_all(void *arg)
{
    struct decoy *decoy = arg;
    while (!__atomic_load_n(&decoy->stop, __ATOMIC_ACQUIRE)) {
        struct pollfd wait = {.fd = decoy->listener, .events = POLLIN};
        if (poll(&wait, 1, 10) > 0)
            close(accept(decoy->listener, NULL, NULL));
    }
    return NULL;
}

/* Something else listens at the first address of the record, as on a network that each host has for itself: it says
 * nothing, or hangs up. The others go on to the next. */
static void test_wrong_address_first(void **state)
{
    (void)state;
    char line[64];
    struct decoy decoy = {0};
    struct weft_net_address address = {.family = 4, .ip = {127, 0, 0, 1}};
    assert_int_equal(weft_net_listen(&address, &decoy.listener, &address.port), WEFT_OK);
    snprintf(line, sizeof line, "address 127.0.0.1:%d\n", address.port);
    struct memory_store memory = {
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .decoy = line};
    weft_store store = {&memory, store_put, store_get};
    struct meeting meeting = {.source = STORE, .store = &store, .rounds = 1};
    run(4, &meeting);
    pthread_t thread;
    memory.key[0] = '\0';
    assert_int_equal(pthread_create(&thread, NULL, close_all, &decoy), 0);
    run(4, &meeting);
    __atomic_store_n(&decoy.stop, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    close(decoy.listener);
}

static void test_many_ranks(void **state)
{
    (void)state;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < 8192)
        TEST_SKIP("512 ranks in one process need 8192 descriptors, the hard limit is %llu",
                  (unsigned long long)limit.rlim_max);
    struct rlimit more = {.rlim_cur = 8192, .rlim_max = limit.rlim_max};
    if (limit.rlim_cur < 8192)
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &more), 0);
    struct weft_service *service;
    assert_int_equal(weft_service_start("weft-test", &service), WEFT_OK);
    struct meeting meeting = {.source = LISTENER, .rounds = 1, .size_most = 20, .shared_service = service};
    /* sanitized, each rank's part of the proof takes many times as long */
    assert_int_equal(test_ranks_threads(test_is_sanitized() ? 128 : 512, meet_and_gather, &meeting), 0);
    weft_service_stop(service);
    setrlimit(RLIMIT_NOFILE, &limit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rank_counts),
        cmocka_unit_test(test_large_blobs),
        cmocka_unit_test(test_address),
        cmocka_unit_test(test_address_by_name),
        cmocka_unit_test(test_address_ipv6),
        cmocka_unit_test(test_late_root),
        cmocka_unit_test(test_same_address_again),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_store),
        cmocka_unit_test(test_many_ranks),
        cmocka_unit_test(test_wrong_address_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
