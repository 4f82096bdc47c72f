/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: everything that the shm transport reads from another process.
 *
 * The first byte chooses the reader, the second varies it; the rest is what the other process puts there:
 *   STRANGER  to the listener, before any proof: messages of 80 bytes and what is left
 *   FRAMES    to a channel whose peer has proven the key: a byte that says what descriptors go along, then a frame
 *   DIALER    from a listener that a link has dialled: challenge, welcome (right or not), then a frame
 *   RING      records in the ring of a peer that is welcome
 *   TOKEN     tokens in messages of such a peer
 *   FEED      what such a peer wants to be fed with, of memory that it may read some of
 *
 * One instance lives through all inputs, and after each an honest peer must still be heard.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "base/fd.h"
#include "base/error.h"
#include "transport/registry.h"
#include "transport/shm/shm_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STRANGER, FRAMES, DIALER, RING, TOKEN, FEED, READERS };

#define WATCHED_MAX 512

static struct {
    int fd;
    weft_watch_callback *callback;
    void *arg;
} watched[WATCHED_MAX];
static int watched_count;

static struct weft_transport_ops ops;
static struct weft_transport *target, *friend;
static struct weft_link *to_friend, *from_friend;
static struct shm_address target_address, friend_address;
static size_t heard;
static const struct shm_identity stranger = {{7, 8}};

static void must(int good)
{
    if (!good)
        __builtin_trap();
}

static int watch(void *arg, int fd, weft_watch_callback *callback, void *callback_arg)
{
    (void)arg;
    if (watched_count == WATCHED_MAX)
        return WEFT_NOMEM;
    watched[watched_count].fd = fd;
    watched[watched_count].callback = callback;
    watched[watched_count++].arg = callback_arg;
    return WEFT_OK;
}

static void unwatch(void *arg, int fd)
{
    (void)arg;
    for (int i = 0; i < watched_count; i++) {
        if (watched[i].fd == fd)
            watched[i] = watched[--watched_count];
    }
}

static void log_line(int level, const char *format, ...)
{
    (void)level, (void)format;
}

/* What a caller does with a message: reads all of it. */
static void handle(void *arg, const struct weft_event *event)
{
    uint8_t copy[SHM_EAGER_BYTES];
    (void)arg;
    if (event->kind != WEFT_EVENT_MESSAGE)
        return;
    must(event->data_size <= sizeof copy);
    memcpy(copy, event->data, event->data_size);
    heard++;
}

/* The service thread's work and the polling thread's, until nothing is left to do. */
static void turn(void)
{
    for (int round = 0; round < 50; round++) {
        struct pollfd fds[WATCHED_MAX];
        int count = watched_count, happened = 0;
        for (int i = 0; i < count; i++)
            fds[i] = (struct pollfd){.fd = watched[i].fd, .events = POLLIN};
        if (poll(fds, (nfds_t)count, 0) > 0) {
            for (int i = 0; i < count; i++) {
                for (int k = 0; fds[i].revents && k < watched_count; k++) {
                    if (watched[k].fd == fds[i].fd) {
                        watched[k].callback(watched[k].arg, fds[i].fd);
                        happened = 1;
                        break;
                    }
                }
            }
        }
        happened |= ops.poll(target, 64, handle, NULL) > 0;
        happened |= ops.poll(friend, 64, handle, NULL) > 0;
        if (!happened)
            return;
    }
}

static void open_instance(struct weft_transport **transport, struct shm_address *address)
{
    size_t size = sizeof *address;
    struct weft_transport_params params = {.size = sizeof params,
                                           .direct = 1,
                                           .instance =
                                               (uint64_t)getpid() << 32 | (uint64_t)(transport == &friend),
                                           .watch = watch,
                                           .unwatch = unwatch,
                                           .fail = weft_fail,
                                           .log = log_line};
    must(ops.open(&params, transport) == WEFT_OK);
    must(ops.address(*transport, address, &size) == WEFT_OK && size == sizeof *address);
}

static void set_up(void)
{
    static int done;
    if (done)
        return;
    done = 1;
    must(weft_transport_complete(weft_transport_find("shm"), &ops) == WEFT_OK);
    open_instance(&target, &target_address);
    open_instance(&friend, &friend_address);
    must(ops.connect(target, &friend_address, sizeof friend_address, NULL, &to_friend) == WEFT_OK);
    must(ops.connect(friend, &target_address, sizeof target_address, NULL, &from_friend) == WEFT_OK);
    turn();
}

static int dial(void)
{
    struct sockaddr_un name;
    int length = shm_socket_name(&target_address.identity, &name);
    int fd = weft_fd_add(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); /* shm asks */
    must(fd >= 0 && connect(fd, (struct sockaddr *)&name, (socklen_t)length) == 0);
    turn();
    return fd;
}

static int prove(void)
{
    struct shm_challenge challenge;
    struct shm_proof proof;
    struct shm_welcome welcome;
    int fd = dial();
    must(recv(fd, &challenge, sizeof challenge, 0) == (ssize_t)sizeof challenge);
    shm_proof_make(&target_address.key, &challenge, &stranger, &target_address.identity, &proof);
    must(send(fd, &proof, sizeof proof, MSG_NOSIGNAL) == (ssize_t)sizeof proof);
    turn();
    must(recv(fd, &welcome, sizeof welcome, 0) == (ssize_t)sizeof welcome);
    return fd;
}

/* A frame takes weft's own descriptors along, and no others. */
static int own(int fd)
{
    fd = weft_fd_add(fd);
    must(fd >= 0);
    return fd;
}

static int memory_make(size_t size, int seals)
{
    int fd = own(memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    must(ftruncate(fd, (off_t)size) == 0);
    fcntl(fd, F_ADD_SEALS, seals);
    return fd;
}

/* A descriptor of one of eight kinds; -1 none. */
static int descriptor(unsigned kind)
{
    int ends[2];
    switch (kind & 7) {
    case 1:
        return memory_make(SHM_RING_BYTES, F_SEAL_SHRINK);
    case 2:
        return memory_make(SHM_CONTROL_BYTES, F_SEAL_SHRINK);
    case 3:
        return memory_make(SHM_CONTROL_BYTES, 0);
    case 4:
        return memory_make(8192, F_SEAL_SHRINK);
    case 5:
        return own(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    case 6:
        must(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
        weft_fd_close(ends[1]);
        return own(ends[0]);
    default:
        return -1;
    }
}

static void frame_send(int fd, const struct shm_frame *frame, unsigned kinds)
{
    const int fds[2] = {descriptor(kinds), descriptor(kinds >> 3)};
    int count = fds[0] < 0 ? 0 : fds[1] < 0 ? 1 : 2;
    shm_frame_send(target, fd, frame, fds, count);
    for (int i = 0; i < 2; i++) {
        if (fds[i] >= 0)
            weft_fd_close(fds[i]);
    }
    turn();
}

/* The frame that bytes make, with what leads beyond the first look put right. */
static struct shm_frame frame_of(const uint8_t *data, size_t size, unsigned right)
{
    struct shm_frame frame;
    memset(&frame, 0, sizeof frame);
    memcpy(&frame, data, size < sizeof frame ? size : sizeof frame);
    if (right & 64) {
        frame.magic = SHM_FRAME_MAGIC;
        frame.version = SHM_VERSION;
        frame.kind %= 7;
        frame.source = stranger;
        frame.target = target_address.identity;
    }
    return frame;
}

static void send_frames(int fd, const uint8_t *data, size_t size)
{
    while (size > 1) {
        struct shm_frame frame = frame_of(data + 1, size - 1, data[0]);
        size_t used = size - 1 < sizeof frame ? size - 1 : sizeof frame;
        frame_send(fd, &frame, data[0]);
        data += 1 + used;
        size -= 1 + used;
    }
}

static void fuzz_stranger(const uint8_t *data, size_t size)
{
    int fd = dial();
    while (size) {
        size_t part = size < sizeof(struct shm_proof) ? size : sizeof(struct shm_proof);
        (void)!send(fd, data, part, MSG_NOSIGNAL);
        turn();
        data += part;
        size -= part;
    }
    weft_fd_close(fd);
}

static void fuzz_frames(const uint8_t *data, size_t size)
{
    int fd = prove();
    send_frames(fd, data, size);
    weft_fd_close(fd);
}

static void fuzz_dialer(unsigned variant, const uint8_t *data, size_t size)
{
    struct shm_address address = friend_address;
    struct sockaddr_un name;
    struct shm_challenge challenge;
    struct shm_proof proof;
    struct shm_welcome welcome;
    struct weft_link *link;
    address.identity.words[1] ^= 1;
    int length = shm_socket_name(&address.identity, &name);
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    must(listener >= 0 && bind(listener, (struct sockaddr *)&name, (socklen_t)length) == 0);
    must(listen(listener, 8) == 0);
    must(ops.connect(target, &address, sizeof address, NULL, &link) == WEFT_OK);
    int fd = weft_fd_add(accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
    must(fd >= 0);
    weft_fd_close(listener);
    shm_challenge_make(&challenge);
    size_t part = variant & 1 ? size < sizeof challenge ? size : sizeof challenge : 0;
    memcpy(&challenge, data, part);
    (void)!send(fd, &challenge, part && !(variant & 2) ? part : sizeof challenge, MSG_NOSIGNAL);
    turn();
    data += part;
    size -= part;
    memset(&welcome, 0, sizeof welcome);
    if (recv(fd, &proof, sizeof proof, 0) == (ssize_t)sizeof proof) {
        must(shm_proof_check(&address.key, &challenge, &address.identity, &proof, &welcome));
        if (variant & 4)
            memcpy(&welcome, data, size < sizeof welcome ? size : sizeof welcome);
        (void)!send(fd, &welcome, sizeof welcome, MSG_NOSIGNAL);
        turn();
        struct shm_frame hello, reply = frame_of(data, size, 64);
        int fds[SHM_FRAME_FDS];
        if (shm_frame_receive(target, fd, &hello, fds) == WEFT_OK) {
            for (int i = 0; i < SHM_FRAME_FDS; i++)
                weft_fd_close(fds[i]);
            reply.kind = variant & 8 ? SHM_REPLY : reply.kind;
            reply.nonce = variant & 8 ? hello.nonce : reply.nonce;
            frame_send(fd, &reply, variant & 16 ? 2 | 5 << 3 : variant >> 2);
        }
    }
    weft_fd_close(fd);
    turn();
    ops.disconnect(link);
}

static void fuzz_ring(const uint8_t *data, size_t size)
{
    int fd = prove();
    struct shm_frame hello = {.magic = SHM_FRAME_MAGIC,
                              .version = SHM_VERSION,
                              .kind = SHM_HELLO,
                              .source = stranger,
                              .target = target_address.identity,
                              .key = 5};
    const int fds[] = {memory_make(SHM_RING_BYTES, F_SEAL_SHRINK),
                       memory_make(SHM_CONTROL_BYTES, F_SEAL_SHRINK)};
    uint8_t *memory = mmap(NULL, SHM_RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    must(memory != MAP_FAILED && shm_frame_send(target, fd, &hello, fds, 2) == WEFT_OK);
    weft_fd_close(fds[0]);
    weft_fd_close(fds[1]);
    turn();
    /* Four bytes make a record: its size, its kind, and how far the next one is. The stamp is right. */
    struct shm_producer ring = {.memory = memory, .key = 5};
    while (size >= 4) {
        struct shm_record *record = shm_record_at(memory, ring.tail);
        uint32_t length = (uint32_t)data[0] | (uint32_t)data[1] << 8,
                 kind = data[2] & 1 ? SHM_RECORD_DATA : data[2];
        length = data[3] & 0x80 ? length << 16 : length & 0x3fff;
        uint64_t lines =
            kind == SHM_RECORD_SKIP ? SHM_RING_LINES - ring.tail % SHM_RING_LINES : shm_record_lines(length);
        shm_producer_publish(&ring, record, kind, length, data[3] & 1 ? lines : 1u + data[3] % 64u);
        data += 4;
        size -= 4;
        turn();
    }
    weft_fd_close(fd);
    munmap(memory, SHM_RING_BYTES);
}

static void fuzz_token(unsigned variant, const uint8_t *data, size_t size)
{
    uint8_t copy[64];
    struct weft_token token;
    struct shm_token inside;
    const void *mapped = NULL;
    static void *memory;
    if (!memory)
        must(ops.alloc(friend, 8192, &memory) == WEFT_OK);
    must(ops.expose(from_friend, NULL, memory, 8192, &token) == WEFT_OK);
    turn();
    must(ops.map(to_friend, &token, 8192, &mapped) == WEFT_OK); /* the segment is known here */
    ops.unexpose(from_friend, &token, variant & 1);
    memcpy(&inside, &token, sizeof inside);
    uint64_t owner = inside.owner, segment = inside.segment;
    memcpy(&inside, data, size < sizeof inside ? size : sizeof inside);
    if (variant & 2)
        inside.owner = owner;
    if (variant & 4)
        inside.segment = segment;
    if (variant & 8)
        inside.kind = variant & 16 ? SHM_TOKEN_SEGMENT : SHM_TOKEN_ADDRESS;
    memcpy(&token, &inside, sizeof inside);
    size_t wanted = variant & 64 ? 8192 : variant & 128 ? 0 : inside.size;
    if (ops.map(to_friend, &token, wanted, &mapped) == WEFT_OK) {
        must((const uint8_t *)mapped != NULL && inside.offset <= 8192 && wanted <= 8192 - inside.offset);
        for (size_t i = 0; i < wanted; i++) /* all of it can be loaded */
            (void)((const volatile uint8_t *)mapped)[i];
    }
    ops.pull(to_friend, &token, variant & 32 ? 0 : inside.offset, copy, sizeof copy, 0);
    ops.exposed(to_friend, &token);
}

/* Eight bytes are a wish: where, how much, which cell, the slices, whether past the caches, what is free, and whether it is a new one. */
static void fuzz_feed(unsigned variant, const uint8_t *data, size_t size)
{
    enum { BYTES = 20000 };
    struct weft_token token;
    struct shm_token inside;
    uint8_t *memory = malloc(BYTES);
    int is_exposed = 1;
    must(memory != NULL);
    memset(memory, 7, BYTES);
    if (ops.expose(to_friend, NULL, memory, BYTES, &token) != WEFT_OK) {
        free(memory);
        return; /* the kernel lets nobody read it */
    }
    memcpy(&inside, &token, sizeof inside);
    struct shm_feed *feed = &((struct shm_ring_control *)(void *)to_friend->ring.memory)->feed;
    for (; size >= 8; data += 8, size -= 8) {
        uint64_t from = (uint64_t)data[0] << (data[0] & 1 ? 7 : 56),
                 bytes = (uint64_t)data[1] << (data[2] & 31);
        feed->source = inside.offset + from;
        feed->bytes = bytes;
        feed->cell = data[3] & 1 ? inside.cell : (uint32_t)data[3] << (data[4] & 7);
        feed->slice_blocks = data[4];
        feed->is_past = data[3] >> 7;
        feed->freed = data[5] & 1 ? feed->wanted : (uint64_t)data[5] << (data[6] & 63);
        feed->wanted = data[6] & 1 ? feed->wanted : (uint64_t)data[7] << (data[6] & 56);
        if (data[7] == 255 && is_exposed) {
            ops.unexpose(to_friend, &token, variant & 1);
            is_exposed = 0;
        }
        turn();
    }
    if (is_exposed)
        ops.unexpose(to_friend, &token, variant & 1);
    feed->wanted = 0;
    turn();
    free(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 8192)
        return 0;
    set_up();
    unsigned reader = data[0] % READERS, variant = data[1];
    data += 2;
    size -= 2;
    if (reader == STRANGER)
        fuzz_stranger(data, size);
    else if (reader == FRAMES)
        fuzz_frames(data, size);
    else if (reader == DIALER)
        fuzz_dialer(variant, data, size);
    else if (reader == RING)
        fuzz_ring(data, size);
    else if (reader == FEED)
        fuzz_feed(variant, data, size);
    else
        fuzz_token(variant, data, size);
    turn();
    size_t before = heard;
    must(ops.send(from_friend, "honest", 6, NULL, 0) == WEFT_OK);
    turn();
    must(heard == before + 1);
    return 0;
}
