/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: what ranks announce to each other while a communicator is made (comm/form/agree.c): introductions and votes of
 * three ranks. Each begins as a good one, over which the input is laid: a byte for whom and what, two for the place,
 * one for the length, and the bytes to add by exclusive or; a length of 255 cuts the message off there instead.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "algos/hosts.h"
#include "comm/form/agree.c"

#define RANKS    3
#define MESSAGES (2 * RANKS)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The longer of both: an introduction with settings, and a vote. */
#define MESSAGE_MAX (sizeof(struct introduction) + sizeof(struct vote))

static const char settings[] = "WEFT_ALGO=0\nWEFT_DIRECT=1\nWEFT_OFI_PROVIDER=\n";

_Static_assert(sizeof settings <= sizeof(struct vote), "both fit into MESSAGE_MAX");

static int reachable(struct weft_transport *transport, const void *address, size_t size)
{
    (void)transport;
    uint8_t last = 0;
    for (size_t i = 0; i < size; i++)
        last ^= ((const uint8_t *)address)[i]; /* all of it must be there */
    return last & 1;
}

/* In blocks of exactly their size, so that the address sanitizer sees a read beyond. */
static int make_messages(struct weft_blob messages[MESSAGES], const size_t sizes[MESSAGES],
                         uint8_t bytes[MESSAGES][MESSAGE_MAX])
{
    for (int m = 0; m < MESSAGES; m++) {
        void *copy = malloc(sizes[m] ? sizes[m] : 1);
        messages[m] = (struct weft_blob){copy, sizes[m]};
        if (copy)
            memcpy(copy, bytes[m], sizes[m]);
    }
    for (int m = 0; m < MESSAGES; m++) {
        if (!messages[m].data)
            return 0;
    }
    return 1;
}

static void lay_over(const uint8_t *data, size_t size, size_t sizes[MESSAGES],
                     uint8_t bytes[MESSAGES][MESSAGE_MAX])
{
    while (size > 4) {
        int m = data[0] % MESSAGES;
        size_t place = (size_t)(data[1] | data[2] << 8) % (sizes[m] + 1), length = data[3], given = size - 4;
        if (length == 255) {
            sizes[m] = place;
            length = 0;
        }
        length = length < sizes[m] - place ? length : sizes[m] - place;
        length = length < given ? length : given;
        for (size_t i = 0; i < length; i++)
            bytes[m][place + i] ^= data[4 + i];
        data += 4 + length;
        size -= 4 + length;
    }
}

static void agree(struct weft_comm *comm, const struct weft_blob *intros, const struct weft_blob *votes)
{
    if (check_settings(comm, intros) != WEFT_OK)
        return;
    for (int r = 0; r < RANKS; r++) {
        if (copy_member(comm, r, intros[r].data) != WEFT_OK)
            return;
    }
    if (count_processors(comm, intros) != WEFT_OK)
        return;
    uint32_t group = own_group(comm, intros);
    free_candidates(comm, intros);
    if (group > (uint32_t)comm->rank)
        __builtin_trap();
    comm->one_host = comm->no_shm = 1;
    for (int r = 0; r < RANKS; r++) {
        if (is_valid(comm, votes, r) != WEFT_OK)
            return;
    }
    struct weft_network_claim claims[RANKS];
    for (int r = 0; r < RANKS; r++) {
        const struct vote *theirs = votes[r].data;
        claims[r] = (struct weft_network_claim){&theirs->network, theirs->proven};
    }
    if (weft_network_is_open(comm, claims) < 0)
        return;
    if (count_votes(comm, intros, votes) != WEFT_OK)
        return;
    for (int r = 0; r < RANKS; r++) {
        if (comm->members[r].host_group > (uint32_t)r || comm->members[r].sizes[WEFT_OFI] > WEFT_ADDRESS_MAX)
            __builtin_trap();
    }
    if (arrange(comm, intros, votes) == WEFT_OK)
        weft_hosts_free(comm->hosts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t bytes[MESSAGES][MESSAGE_MAX];
    size_t sizes[MESSAGES];
    struct weft_blob messages[MESSAGES];
    struct weft_context *context = calloc(1, sizeof *context);
    struct weft_comm *comm = calloc(1, sizeof *comm);
    struct weft_member *members = calloc(RANKS, sizeof *members);
    if (!context || !comm || !members)
        goto free_all;
    memset(bytes, 0, sizeof bytes);
    for (int r = 0; r < RANKS; r++) {
        struct introduction intro = {.magic = INTRO_MAGIC,
                                     .version = INTRO_VERSION,
                                     .shm_size = 40,
                                     .place_size = 2,
                                     .host = {r == 2 ? 'b' : 'a'}};
        struct vote vote = {.free_ids = UINT32_MAX,
                            .proven = r == 2 ? 2 : 0, /* two hosts */
                            .network = {.sizes = {[WEFT_OFI] = 16, [WEFT_VERBS] = 16},
                                        .addresses = {[16] = 1}, /* that of verbs: reachable */
                                        .ports = {{.guid = (unsigned)r + 1,
                                                   .subnet = 7,
                                                   .rail = (uint16_t)(r / 2),
                                                   .lid = (uint16_t)(r + 2), /* 2 and 4 differ by a bit */
                                                   .number = 1,
                                                   .device = "mlx5_0"}},
                                        .port_count = 1,
                                        .is_part = 1}};
        memcpy(bytes[r], &intro, sizeof intro);
        memcpy(bytes[r] + sizeof intro, settings, sizeof settings);
        memcpy(bytes[RANKS + r], &vote, sizeof vote);
        sizes[r] = sizeof intro + sizeof settings + 2; /* and a place without words */
        sizes[RANKS + r] = sizeof vote;
    }
    lay_over(data, size, sizes, bytes);
    context->transports[WEFT_SHM].ops.reachable = context->transports[WEFT_VERBS].ops.reachable = reachable;
    context->transports[WEFT_VERBS].instance = (void *)context;
    strcpy(context->settings.transports, "shm,verbs"); /* ofi would be opened */
    pthread_mutex_init(&context->lock, NULL);
    *comm = (struct weft_comm){.context = context, .rank = 1, .ranks = RANKS, .members = members};
    if (make_messages(messages, sizes, bytes))
        agree(comm, messages, messages + RANKS);
    for (int m = 0; m < MESSAGES; m++)
        free((void *)(uintptr_t)messages[m].data);
    for (int r = 0; r < RANKS; r++)
        free(members[r].addresses);
    pthread_mutex_destroy(&context->lock);
free_all:
    free(members);
    free(comm);
    free(context);
    return 0;
}
