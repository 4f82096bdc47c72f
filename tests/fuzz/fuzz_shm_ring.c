/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: a ring of the shm transport as a peer may have written it. The input is laid over the ring's lines; for
 * every fourth line the stamp that is right there can be asked for, since nobody guesses 64 bits.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "transport/shm/poll.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t total;
static uint32_t taken;

static void take(void *arg, const struct weft_event *event)
{
    const uint8_t *memory = arg, *bytes = event->data;
    if (bytes < memory + SHM_RING_CONTROL || bytes + event->data_size > memory + SHM_RING_BYTES)
        __builtin_trap();
    taken++;
    for (size_t i = 0; i < event->data_size; i++)
        total += bytes[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint64_t key = 0x1234567890abcdefu;
    struct shm_control control = {0};
    struct weft_transport transport = {.control = &control, .event_fd = -1};
    struct shm_peer peer = {0};
    struct shm_channel channel = {.transport = &transport, .peer = &peer};
    uint8_t *memory = aligned_alloc(4096, (SHM_RING_BYTES + 4095) / 4096 * 4096);
    if (!memory || size < 2) {
        free(memory);
        return 0;
    }
    pthread_mutex_init(&transport.lock, NULL);
    memset(memory, 0, SHM_RING_BYTES);
    channel.ring =
        (struct shm_consumer){.memory = memory, .key = key, .head = data[0] * 8u, .published = data[0] * 8u};
    channel.ring.expected = shm_stamp(key, channel.ring.head);
    uint64_t position = channel.ring.head;
    /* A record: lines to go on by, kind, size (16 bits). */
    for (size_t at = 1; at + 4 <= size; at += 4) {
        struct shm_record *record = shm_record_at(memory, position);
        atomic_store(&record->stamp, shm_stamp(key, position));
        record->kind = data[at + 1] % 8 == 7 ? data[at + 1] * 0x01010101u : data[at + 1] % 3;
        record->size = data[at + 2] | (uint32_t)data[at + 3] << 8 | (data[at + 1] >= 250 ? 0xffff0000u : 0);
        position += data[at] ? data[at] : SHM_RING_LINES - position % SHM_RING_LINES;
    }
    taken = 0;
    for (int turns = 0; turns < 64 && channel_busy(&channel); turns++)
        channel_drain(&channel, 16, take, memory);
    if (peer.deliveries != taken)
        __builtin_trap();
    pthread_mutex_destroy(&transport.lock);
    free(memory);
    return 0;
}
