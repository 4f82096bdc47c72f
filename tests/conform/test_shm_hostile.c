/* SPDX-License-Identifier: Apache-2.0 */
/* run: beside (deadlines) */
/* shm against strangers that do not know its key, and against a peer that does but does not keep the protocol: bad
 * frames, memory that could be taken away, records that lie. The instance must refuse, never crash, and keep serving
 * honest peers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/support/conform.h"
#include "transport/shm/shm_private.h"

static const struct conform_backend shm = {.label = "shm", .transport = "shm", .direct = 1};

/* A stranger's socket to node 0, and the address it dialled. */
static int dial(const struct conform_world *world, struct shm_address *address)
{
    struct sockaddr_un name;
    memcpy(address, world->nodes[0].address, sizeof *address);
    int length = shm_socket_name(&address->identity, &name);
    int fd =
        weft_fd_add(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)); /* as shm's own functions expect */
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&name, (socklen_t)length), 0);
    return fd;
}

static const struct shm_identity myself = {{1, 2}};

/* Waits for a message of exactly this size: 1, or 0 when there is something else, or the end. */
static int hear(struct conform_world *world, int fd, void *block, size_t size)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    uint8_t raw[256];
    for (int i = 0; i < 2000 && poll(&ready, 1, 10) == 0; i++)
        conform_turn(world);
    if (recv(fd, raw, sizeof raw, MSG_DONTWAIT) != (ssize_t)size)
        return 0;
    memcpy(block, raw, size);
    return 1;
}

/* Proves the key, as an honest peer would. */
static void prove(struct conform_world *world, int fd, const struct shm_address *address)
{
    struct shm_challenge challenge;
    struct shm_proof proof;
    struct shm_welcome welcome;
    assert_int_equal(hear(world, fd, &challenge, sizeof challenge), 1);
    shm_proof_make(&address->key, &challenge, &myself, &address->identity, &proof);
    assert_int_equal(send(fd, &proof, sizeof proof, MSG_NOSIGNAL), sizeof proof);
    assert_int_equal(hear(world, fd, &welcome, sizeof welcome), 1);
    assert_int_equal(shm_welcome_check(&address->key, &challenge, &address->identity, &proof, &welcome), 1);
}

static struct shm_frame hello(const struct shm_address *address)
{
    return (struct shm_frame){.magic = SHM_FRAME_MAGIC,
                              .version = SHM_VERSION,
                              .kind = SHM_HELLO,
                              .source = myself,
                              .target = address->identity,
                              .nonce = 3,
                              .key = 5};
}

static int memory_make(size_t size, int seals)
{
    int fd = weft_fd_add(memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

/* Whether the instance hangs up: 1, 0 when it answers, -1 when it does neither. */
static int is_refused(struct conform_world *world, int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    uint8_t answer[256];
    for (int i = 0; i < 2000 && poll(&ready, 1, 10) == 0; i++)
        conform_turn(world);
    ssize_t got = recv(fd, answer, sizeof answer, MSG_DONTWAIT);
    return got > 0 ? 0 : got == 0 || errno == ECONNRESET ? 1 : -1;
}

static void expect_service(struct conform_world *world)
{
    size_t before = world->nodes[1].message_count;
    struct weft_link *link = conform_connect(world, 0, 1, NULL);
    conform_send(world, 0, link, "hello", 5, NULL, 0);
    conform_until(world, &world->nodes[1].message_count, before + 1);
    conform_settle(world);
}

static void bad_introductions_are_refused(void **state)
{
    (void)state;
    enum {
        FINE,
        UNSEALED,
        SHORT,
        LONG,
        NO_MEMORY,
        NOT_MEMORY,
        CONTROL_UNSEALED,
        CONTROL_SIZE,
        TARGET,
        SOURCE,
        VERSION,
        MAGIC,
        KIND,
        CUT,
        VARIANTS
    };
    struct conform_world world;
    conform_open(&world, &shm, 2);
    for (int variant = FINE; variant < VARIANTS; variant++) {
        struct shm_address address;
        int fd = dial(&world, &address);
        struct shm_frame frame = hello(&address);
        size_t size = SHM_RING_BYTES + (variant == LONG ? 4096 : 0) - (variant == SHORT ? 4096 : 0);
        int ring = variant == NOT_MEMORY ? weft_fd_add(open("/dev/zero", O_RDWR | O_CLOEXEC))
                                         : memory_make(size, variant == UNSEALED ? 0 : F_SEAL_SHRINK);
        int control = memory_make(variant == CONTROL_SIZE ? SHM_CONTROL_BYTES / 2 : SHM_CONTROL_BYTES,
                                  variant == CONTROL_UNSEALED ? 0 : F_SEAL_SHRINK);
        const int fds[] = {ring, control};
        prove(&world, fd, &address);
        frame.target.words[1] ^= variant == TARGET;
        frame.source.words[1] ^= variant == SOURCE;
        frame.version = (uint16_t)(frame.version + (variant == VERSION));
        frame.magic ^= variant == MAGIC;
        frame.kind = variant == KIND ? SHM_SEGMENT : SHM_HELLO;
        if (variant == CUT)
            assert_int_equal(send(fd, &frame, sizeof frame - 1, 0), sizeof frame - 1);
        else
            assert_int_equal(
                shm_frame_send(world.nodes[0].transport, fd, &frame, fds, variant == NO_MEMORY ? 0 : 2), 0);
        if (is_refused(&world, fd) != (variant != FINE))
            fail_msg("variant %d: expected %s", variant, variant == FINE ? "an answer" : "a refusal");
        weft_fd_close(ring);
        weft_fd_close(control);
        weft_fd_close(fd);
        expect_service(&world);
    }
    conform_close(&world);
}

/* Introduces itself well, and returns the ring that node 0 now reads. */
static uint8_t *introduce(struct conform_world *world, int *fd)
{
    struct shm_address address;
    *fd = dial(world, &address);
    prove(world, *fd, &address);
    struct shm_frame frame = hello(&address);
    int ring = memory_make(SHM_RING_BYTES, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    uint8_t *memory = mmap(NULL, SHM_RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, ring, 0);
    assert_true(memory != MAP_FAILED);
    const int fds[] = {ring, memory_make(SHM_CONTROL_BYTES, F_SEAL_SHRINK)};
    assert_int_equal(shm_frame_send(world->nodes[0].transport, *fd, &frame, fds, 2), 0);
    assert_int_equal(is_refused(world, *fd), 0);
    weft_fd_close(fds[0]);
    weft_fd_close(fds[1]);
    return memory;
}

static void lying_records_end_the_channel(void **state)
{
    (void)state;
    static const struct {
        uint64_t position;
        uint32_t size, kind;
        int good;
    } lies[] = {
        {0, 100, SHM_RECORD_DATA, 1},
        {0, SHM_EAGER_BYTES + 1, SHM_RECORD_DATA, 0},
        {0, UINT32_MAX, SHM_RECORD_DATA, 0},
        {0, 8, 77, 0},
        {SHM_RING_LINES - 1, 4000, SHM_RECORD_DATA, 0}, /* beyond the end */
    };
    struct conform_world world;
    conform_open(&world, &shm, 2);
    struct conform_node *node = &world.nodes[0];
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        int fd;
        uint8_t *memory = introduce(&world, &fd);
        struct shm_producer ring = {.memory = memory, .key = 5};
        size_t before = node->message_count, used = node->used;
        /* Honest one-line records lead to the place of the lie. */
        for (uint64_t k = 0; k < lies[i].position; k++) {
            struct shm_record *record = shm_producer_reserve(&ring, 8);
            assert_non_null(record);
            shm_producer_publish(&ring, record, SHM_RECORD_DATA, 8, 1);
        }
        shm_producer_publish(&ring, shm_record_at(memory, ring.tail), lies[i].kind, lies[i].size, 1);
        conform_until(&world, &node->message_count, before + lies[i].position);
        conform_settle(&world);
        assert_int_equal(node->message_count, before + lies[i].position + (lies[i].good ? 1 : 0));
        assert_int_equal(node->used, used + lies[i].position * 8 + (lies[i].good ? lies[i].size : 0));
        weft_fd_close(fd);
        munmap(memory, SHM_RING_BYTES);
        expect_service(&world);
    }
    conform_close(&world);
}

/* A segment that could shrink, or is not what the frame says, is never mapped. */
static void bad_segments_are_refused(void **state)
{
    (void)state;
    enum { FINE, UNSEALED, SIZE, NO_MEMORY, AGAIN_HELLO, VARIANTS };
    struct conform_world world;
    conform_open(&world, &shm, 2);
    for (int variant = FINE; variant < VARIANTS; variant++) {
        int fd;
        uint8_t *memory = introduce(&world, &fd);
        int segment = memory_make(8192, variant == UNSEALED ? 0 : F_SEAL_SHRINK);
        struct shm_frame frame = {.magic = SHM_FRAME_MAGIC,
                                  .version = SHM_VERSION,
                                  .kind = variant == AGAIN_HELLO ? SHM_HELLO : SHM_SEGMENT,
                                  .segment = 1,
                                  .size = variant == SIZE ? 16384 : 8192};
        assert_int_equal(shm_frame_send(world.nodes[0].transport, fd, &frame, &segment, variant != NO_MEMORY),
                         0);
        if (variant != FINE)
            assert_int_equal(is_refused(&world, fd), 1);
        conform_settle(&world);
        weft_fd_close(segment);
        weft_fd_close(fd);
        munmap(memory, SHM_RING_BYTES);
        expect_service(&world);
    }
    conform_close(&world);
}

/* What a token says of blocks that are fed ahead is used only where slices can begin there: others would end behind the ring. */
static void feeding_begins_with_a_slice(void **state)
{
    (void)state;
    enum { BYTES = 64 << 10, SLICE_BLOCKS = 2, LAST = SHM_FEED_BLOCKS - 1 };
    static const uint64_t firsts[] = {LAST - 1, LAST, 1, 2 * SHM_FEED_BLOCKS - 2, 2 * SHM_FEED_BLOCKS - 1};
    uint8_t *source = malloc(BYTES), *copy = malloc(BYTES), *fed = malloc(BYTES);
    assert_true(source && copy && fed);
    memset(source, 7, BYTES);
    memset(fed, 9, BYTES);
    for (size_t i = 0; i < 2 * (sizeof firsts / sizeof *firsts); i++) {
        uint64_t first = firsts[i / 2];
        struct conform_world world;
        struct weft_token token;
        struct shm_token inside;
        conform_open(&world, &shm, 2);
        struct weft_link *owner = conform_connect(&world, 0, 1, NULL),
                         *reader = conform_connect(&world, 1, 0, NULL);
        conform_settle(&world);
        assert_int_equal(world.nodes[0].ops.expose(owner, NULL, source, BYTES, &token), WEFT_OK);
        memcpy(&inside, &token, sizeof inside);
        inside.segment |=
            (first + 1) << SHM_TOKEN_AHEAD | SHM_TOKEN_ALWAYS_FED | (i % 2 ? SHM_TOKEN_PAST : 0);
        memcpy(&token, &inside, sizeof inside);
        uint8_t *ring = owner->ring.memory;
        memset(ring + SHM_RING_BLOCKS, 9, SHM_FEED_BYTES);
        struct shm_feed_mark *marks =
            (struct shm_feed_mark *)(void *)(ring + SHM_RING_CONTROL + SHM_RING_RECORDS);
        for (uint64_t block = first; block < first + BYTES / SHM_FEED_BLOCK; block++)
            atomic_store(&marks[block % SHM_FEED_BLOCKS].filled, (block + 1) | SHM_FED_AHEAD);
        assert_int_equal(world.nodes[1].ops.pull(reader, &token, 0, copy, BYTES, 0), WEFT_OK);
        assert_memory_equal(copy, first % SLICE_BLOCKS ? source : fed, BYTES);
        conform_close(&world);
    }
    free(source);
    free(copy);
    free(fed);
}

/* --- strangers --- */

static void wrong_proofs_are_refused(void **state)
{
    (void)state;
    enum { FINE, KEY, NONCE, TARGET, SOURCE, SHORT, LONG, NOTHING, FRAME, VARIANTS };
    struct conform_world world;
    conform_open(&world, &shm, 2);
    for (int variant = FINE; variant < VARIANTS; variant++) {
        struct shm_address address;
        struct shm_challenge challenge;
        struct shm_proof proof[2];
        int fd = dial(&world, &address);
        memset(proof, 0, sizeof proof);
        assert_int_equal(hear(&world, fd, &challenge, sizeof challenge), 1);
        address.key.bytes[31] ^= variant == KEY;
        address.identity.words[1] ^= variant == TARGET;
        challenge.nonce[0] ^= variant == NONCE;
        shm_proof_make(&address.key, &challenge, &myself, &address.identity, &proof[0]);
        proof[0].source.words[0] ^= variant == SOURCE;
        struct shm_frame frame = hello(&address);
        const void *bytes = variant == FRAME ? (const void *)&frame : proof;
        size_t size = variant == FRAME ? sizeof frame : sizeof proof[0];
        size = variant == NOTHING ? 0 : size + (variant == LONG) - (variant == SHORT);
        assert_int_equal(send(fd, bytes, size, MSG_NOSIGNAL), size);
        if (is_refused(&world, fd) != (variant != FINE))
            fail_msg("variant %d: expected %s", variant, variant == FINE ? "a welcome" : "a refusal");
        weft_fd_close(fd);
        expect_service(&world);
    }
    conform_close(&world);
}

/* A proof that was right once is of no use on another connection, nor on another instance. */
static void recorded_proofs_are_refused(void **state)
{
    (void)state;
    struct conform_world world;
    struct shm_address address;
    struct shm_challenge challenge;
    struct shm_proof proof;
    struct shm_welcome welcome;
    conform_open(&world, &shm, 2);
    int fd = dial(&world, &address);
    assert_int_equal(hear(&world, fd, &challenge, sizeof challenge), 1);
    shm_proof_make(&address.key, &challenge, &myself, &address.identity, &proof);
    assert_int_equal(send(fd, &proof, sizeof proof, MSG_NOSIGNAL), sizeof proof);
    assert_int_equal(hear(&world, fd, &welcome, sizeof welcome), 1);
    for (int i = 0; i < 3; i++) {
        int again = dial(&world, &address);
        assert_int_equal(hear(&world, again, &challenge, sizeof challenge), 1);
        assert_int_equal(send(again, &proof, sizeof proof, MSG_NOSIGNAL), sizeof proof);
        assert_int_equal(is_refused(&world, again), 1);
        close(again);
    }
    weft_fd_close(fd);
    expect_service(&world);
    conform_close(&world);
}

/* An impostor at the address that a link dials gets no frame and no descriptor: neither by sending back what it
 * hears, nor by asking the real instance, whose key it does not have. */
static void impostors_are_refused(void **state)
{
    (void)state;
    enum { REFLECTED, WRONG, SHORT, HUNG_UP, OTHER_VERSION, VARIANTS };
    for (int variant = REFLECTED; variant < VARIANTS; variant++) {
        struct conform_world world;
        struct shm_address address;
        struct sockaddr_un name;
        struct weft_link *link;
        struct shm_proof proof;
        uint8_t answer[sizeof proof] = {0};
        conform_open(&world, &shm, 1);
        memcpy(&address, world.nodes[0].address, sizeof address);
        address.identity.words[1] ^= (uint64_t)getpid() << 8;
        int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        int length = shm_socket_name(&address.identity, &name);
        assert_int_equal(bind(listener, (struct sockaddr *)&name, (socklen_t)length), 0);
        assert_int_equal(listen(listener, 100), 0);
        assert_int_equal(
            world.nodes[0].ops.connect(world.nodes[0].transport, &address, sizeof address, &address, &link),
            0);
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        struct shm_challenge challenge;
        shm_challenge_make(&challenge);
        challenge.version += variant == OTHER_VERSION;
        assert_int_equal(send(fd, &challenge, sizeof challenge, MSG_NOSIGNAL), sizeof challenge);
        if (variant != OTHER_VERSION) {
            assert_int_equal(hear(&world, fd, &proof, sizeof proof), 1);
            memcpy(answer, variant == REFLECTED ? proof.mac : (const uint8_t *)"wrong", 5);
            if (variant == REFLECTED)
                memcpy(answer, proof.mac, sizeof proof.mac);
            if (variant != HUNG_UP)
                (void)!send(fd, answer, sizeof(struct shm_welcome) - (variant == SHORT), MSG_NOSIGNAL);
        }
        close(listener); /* nobody is there to be dialled again */
        if (variant == HUNG_UP)
            weft_fd_close(fd);
        conform_until(&world, &world.nodes[0].failed_count, 1);
        if (variant != HUNG_UP) {
            assert_true(recv(fd, answer, sizeof answer, MSG_DONTWAIT) < 0);
            weft_fd_close(fd);
        }
        conform_close(&world);
    }
}

/* A thousand connections that say nothing, or half of something, while an honest link comes up. */
static void crowds_do_not_keep_a_link_away(void **state)
{
    (void)state;
    enum { CROWD = 1000 };
    static int fds[CROWD];
    struct conform_world world;
    struct shm_address address;
    conform_open(&world, &shm, 2);
    int before = 0, after = 0;
    for (int fd = 0; fd < 4096; fd++)
        before += fcntl(fd, F_GETFD) >= 0;
    int made = 0;
    memcpy(&address, world.nodes[0].address, sizeof address);
    for (; made < CROWD; made++) {
        struct sockaddr_un name;
        int length = shm_socket_name(&address.identity, &name);
        fds[made] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fds[made] < 0)
            break; /* the limit of this process, which is both sides */
        if (connect(fds[made], (struct sockaddr *)&name, (socklen_t)length))
            usleep(1000); /* its queue is full: it stays a silent socket, no more */
        else if (made % 2)
            (void)!send(fds[made], "half", 4, MSG_NOSIGNAL);
    }
    struct weft_link *link = conform_connect(&world, 1, 0, NULL);
    conform_send(&world, 1, link, "hello", 5, NULL, 0);
    conform_until(&world, &world.nodes[0].message_count, 1);
    assert_true(made > 300);
    for (int i = 0; i <= made && i < CROWD; i++)
        close(fds[i]);
    expect_service(&world);
    for (int i = 0; i < 2000 && (i == 0 || after > before + 8); i++) { /* and they are let go */
        conform_turn(&world);
        usleep(1000);
        after = 0;
        for (int fd = 0; fd < 4096; fd++)
            after += fcntl(fd, F_GETFD) >= 0;
    }
    assert_true(after <= before + 8); /* links and channels of the two nodes */
    conform_close(&world);
}

/* Silent ones are let go although they stay. */
static void silence_ends(void **state)
{
    (void)state;
    struct conform_world world;
    struct shm_address address;
    conform_open(&world, &shm, 2);
    int fd = dial(&world, &address);
    struct shm_challenge challenge;
    assert_int_equal(hear(&world, fd, &challenge, sizeof challenge), 1);
    assert_int_equal(is_refused(&world, fd), 1);
    weft_fd_close(fd);
    expect_service(&world);
    conform_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_proofs_are_refused),
        cmocka_unit_test(recorded_proofs_are_refused),
        cmocka_unit_test(impostors_are_refused),
        cmocka_unit_test(crowds_do_not_keep_a_link_away),
        cmocka_unit_test(silence_ends),
        cmocka_unit_test(bad_introductions_are_refused),
        cmocka_unit_test(lying_records_end_the_channel),
        cmocka_unit_test(bad_segments_are_refused),
        cmocka_unit_test(feeding_begins_with_a_slice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
