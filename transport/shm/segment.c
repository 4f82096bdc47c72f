/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of alloc(), and reading what a peer exposes.
 *
 * Each allocation is a sealed memfd of its own. The first time a region of it is exposed over a link, its
 * descriptor goes to the peer over the link's socket, before the token can go anywhere; so a peer that holds
 * a token finds the descriptor in its socket at the latest when it looks. Peers map it read-only and keep the
 * mapping until the owner frees the segment, or both directions between the two are closed. Ids are never
 * used twice.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/fd.h"
#include "transport/shm/shm_private.h"

/* An unused entry of the table. */
static struct shm_segment *segment_entry(struct weft_transport *transport)
{
    for (uint32_t i = 0; i < transport->segment_count; i++) {
        if (!transport->segments[i].base)
            return &transport->segments[i];
    }
    size_t bytes = (transport->segment_count + 1) * sizeof *transport->segments;
    struct shm_segment *grown = realloc(transport->segments, bytes);
    if (!grown)
        return NULL;
    transport->segments = grown;
    struct shm_segment *entry = &grown[transport->segment_count++];
    memset(entry, 0, sizeof *entry);
    return entry;
}

int shm_alloc(struct weft_transport *transport, size_t size, void **result)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (size > SIZE_MAX / 4)
        return transport->params.fail(WEFT_INVALID, "shm: allocation of %zu bytes", size);
    size_t rounded = size ? (size + page - 1) / page * page : page;
    int fd;
    void *memory;
    int status = shm_memfd_make(transport, rounded, &fd);
    if (status)
        return status;
    status = shm_memfd_map(transport, fd, rounded, 1, 0, &memory);
    if (status)
        goto close_fd;
    status = shm_memfd_seal(transport, fd, 1);
    if (status)
        goto unmap;
    struct shm_segment *entry = segment_entry(transport);
    if (!entry) {
        status = transport->params.fail(WEFT_NOMEM, "shm: no memory for a segment");
        goto unmap;
    }
    *entry = (struct shm_segment){memory, rounded, ++transport->last_segment, fd};
    *result = memory;
    return WEFT_OK;

unmap:
    munmap(memory, rounded);
close_fd:
    weft_fd_close(fd);
    return status;
}

void shm_free(struct weft_transport *transport, void *memory)
{
    uint32_t index = 0;
    while (index < transport->segment_count && transport->segments[index].base != memory)
        index++;
    if (!memory || index == transport->segment_count)
        return;
    struct shm_segment *segment = &transport->segments[index];
    struct shm_frame frame = {
        .magic = SHM_FRAME_MAGIC, .version = SHM_VERSION, .kind = SHM_FREE, .segment = segment->id};
    for (struct weft_link *link = transport->links; link; link = link->next) {
        if (index / 64 >= link->sent_words || !(link->sent[index / 64] >> index % 64 & 1))
            continue;
        link->sent[index / 64] &= ~(1ull << index % 64);
        shm_frame_send(transport, link->fd, &frame, NULL, 0); /* who misses it keeps the mapping, no more */
    }
    munmap(segment->base, segment->size);
    weft_fd_close(segment->fd);
    memset(segment, 0, sizeof *segment);
}

/* Gives the peer the segment's descriptor, once. */
static int segment_send(struct weft_link *link, uint32_t index)
{
    struct weft_transport *transport = link->transport;
    if (index / 64 < link->sent_words && (link->sent[index / 64] >> index % 64 & 1))
        return WEFT_OK;
    if (index / 64 >= link->sent_words) {
        uint32_t words = index / 64 + 1;
        uint64_t *grown = realloc(link->sent, words * sizeof *grown);
        if (!grown)
            return transport->params.fail(WEFT_NOMEM, "shm: no memory for segments");
        memset(grown + link->sent_words, 0, (words - link->sent_words) * sizeof *grown);
        link->sent = grown;
        link->sent_words = words;
    }
    const struct shm_segment *segment = &transport->segments[index];
    struct shm_frame frame = {.magic = SHM_FRAME_MAGIC,
                              .version = SHM_VERSION,
                              .kind = SHM_SEGMENT,
                              .segment = segment->id,
                              .size = segment->size};
    int status = shm_frame_send(transport, link->fd, &frame, &segment->fd, 1);
    if (status == WEFT_OK)
        link->sent[index / 64] |= 1ull << index % 64;
    return status;
}

/* How peers shall read ordinary memory of this instance. */
static uint32_t read_flags(const struct weft_transport *transport)
{
    uint32_t fed = transport->params.fed == WEFT_FED_ALWAYS ? SHM_TOKEN_ALWAYS_FED
                   : transport->params.fed == WEFT_FED_PAST ? SHM_TOKEN_ALWAYS_FED | SHM_TOKEN_PAST
                                                            : 0;
    if (transport->params.fed == WEFT_FED_NEVER || transport->params.help == WEFT_HELP_NEVER)
        fed = SHM_TOKEN_NOT_FED;
    return (transport->helps ? 0 : SHM_TOKEN_NOT_HELPED) | fed;
}

int shm_expose(struct weft_link *link, struct weft_region *region, const void *memory, size_t size,
               struct weft_token *result)
{
    (void)region;
    struct weft_transport *transport = link->transport;
    int state = atomic_load_explicit(&link->state, memory_order_acquire);
    if (state != SHM_LINK_UP)
        return state == SHM_LINK_FAILED ? shm_link_down(link) : WEFT_AGAIN;
    uintptr_t start = (uintptr_t)memory;
    struct shm_token token = {.kind = SHM_TOKEN_ADDRESS,
                              .owner = transport->address.identity.words[1],
                              .segment = read_flags(transport),
                              .offset = start,
                              .size = size};
    for (uint32_t i = 0; i < transport->segment_count && (link->flags & WEFT_LINK_PEER_MAPS); i++) {
        const struct shm_segment *segment = &transport->segments[i];
        uintptr_t base = (uintptr_t)segment->base;
        if (!base || start < base || start - base > segment->size || size > segment->size - (start - base))
            continue;
        int status = segment_send(link, i);
        if (status == WEFT_AGAIN && (link->flags & WEFT_LINK_PEER_PULLS))
            break; /* this once, it is read like ordinary memory */
        if (status)
            return status;
        token.kind = SHM_TOKEN_SEGMENT;
        token.segment = segment->id;
        token.offset = start - base;
        break;
    }
    if (token.kind == SHM_TOKEN_ADDRESS && !(link->flags & WEFT_LINK_PEER_PULLS))
        return transport->params.fail(
            WEFT_UNSUPPORTED, "shm: the peer cannot read this process's memory (%s)",
            link->probe_errno ? weft_errno_text(link->probe_errno) : "it does not try to");
    shm_cell_take(link, &token);
    if (token.size >= SHM_FED_BYTES_MIN)
        shm_feed_exposed(link);
    memset(result, 0, sizeof *result);
    memcpy(result, &token, sizeof token);
    return WEFT_OK;
}

void shm_expose_whole(struct weft_link *link, struct weft_token *bytes)
{
    struct shm_token token;
    memcpy(&token, bytes, sizeof token);
    if (token.kind != SHM_TOKEN_ADDRESS || token.segment & SHM_TOKEN_NOT_FED)
        return;
    token.segment |= shm_feed_ahead(link, (const void *)(uintptr_t)token.offset, token.size, token.cell);
    memcpy(bytes, &token, sizeof token);
}

static const struct shm_mapping *mapping_find(const struct shm_peer *peer, uint64_t id)
{
    for (const struct shm_mapping *m = peer->mappings; m; m = m->next) {
        if (m->id == id && !m->freed)
            return m;
    }
    return NULL;
}

/* The slow way to a segment: asks the lists, then the sockets. */
static int segment_look(struct weft_link *link, const struct shm_token *token, struct shm_map_entry *entry)
{
    struct weft_transport *transport = link->transport;
    uint64_t id = token->segment;
    pthread_mutex_lock(&transport->lock);
    const struct shm_mapping *found = mapping_find(link->peer, id);
    int status = WEFT_OK;
    for (struct shm_channel *c = transport->channels; c && !found && status == WEFT_OK; c = c->next) {
        if (c->peer == link->peer) {
            status = shm_channel_refresh(c);
            found = mapping_find(link->peer, id);
        }
    }
    if (found)
        *entry = (struct shm_map_entry){found->id, found->size, found->base};
    pthread_mutex_unlock(&transport->lock);
    if (found || status != WEFT_OK)
        return found ? WEFT_OK : status;
    status = shm_cell_check(link, token); /* whoever gives up may free its memory right away */
    if (status)
        return status;
    return transport->params.fail(
        WEFT_PROTOCOL,
        "shm: a token names segment %llu, which its owner has not handed over or has "
        "freed",
        (unsigned long long)id);
}

/* Reads a token; memory is set when it lies in a segment. */
static int token_read(struct weft_link *link, const struct weft_token *bytes, struct shm_token *token,
                      const uint8_t **memory)
{
    struct weft_transport *transport = link->transport;
    memcpy(token, bytes, sizeof *token);
    if (token->owner != link->peer->identity.words[1] ||
        (token->kind != SHM_TOKEN_SEGMENT && token->kind != SHM_TOKEN_ADDRESS))
        return transport->params.fail(WEFT_PROTOCOL, "shm: not a token of this link's peer");
    *memory = NULL;
    if (token->kind != SHM_TOKEN_SEGMENT)
        return WEFT_OK;
    struct shm_map_entry *entry = &link->cache[token->segment % SHM_MAP_CACHE];
    if (__builtin_expect(entry->id != token->segment || !entry->base, 0)) {
        int status = segment_look(link, token, entry);
        if (status)
            return status;
    }
    if (token->offset > entry->size || token->size > entry->size - token->offset)
        return transport->params.fail(WEFT_PROTOCOL, "shm: a token goes beyond its segment of %llu bytes",
                                      (unsigned long long)entry->size);
    *memory = entry->base + token->offset;
    return WEFT_OK;
}

int shm_map(struct weft_link *link, const struct weft_token *bytes, size_t size, const void **result)
{
    struct shm_token token;
    const uint8_t *memory;
    int status = token_read(link, bytes, &token, &memory);
    if (status)
        return status;
    if (!memory)
        return WEFT_UNSUPPORTED;
    if (size > token.size) /* which lies within the segment: token_read() */
        return link->transport->params.fail(WEFT_PROTOCOL, "shm: %zu bytes wanted, the token stands for %llu",
                                            size, (unsigned long long)token.size);
    *result = memory;
    return WEFT_OK;
}

int shm_pull(struct weft_link *link, const struct weft_token *bytes, uint64_t offset, void *destination,
             size_t size, uint32_t flags)
{
    struct weft_transport *transport = link->transport;
    struct shm_token token;
    const uint8_t *memory;
    int status = token_read(link, bytes, &token, &memory);
    if (status)
        return status;
    if (offset > token.size || size > token.size - offset)
        return transport->params.fail(WEFT_INVALID, "shm: pull of %zu bytes at %llu, exposed are %llu", size,
                                      (unsigned long long)offset, (unsigned long long)token.size);
    if (memory) {
        memcpy(destination, memory + offset, size);
        return shm_cell_check(link, &token);
    }
    int pid = atomic_load_explicit(&link->peer->pid, memory_order_acquire);
    if (!pid)
        return WEFT_UNSUPPORTED;
    status = shm_pull_ordinary(link, pid, &token, offset, destination, size, flags);
    /* A process id can be used again: nothing read from one that is gone counts. */
    if (!status && atomic_load_explicit(&link->state, memory_order_acquire) == SHM_LINK_FAILED)
        status = shm_link_down(link);
    int gone = shm_cell_check(link, &token); /* then that is why there was nothing to read */
    return gone ? gone : status;
}

/* What a peer has freed keeps its addresses until the peer goes: somebody here may be reading it right now
 * (an owner that gave up does not ask). Zero pages take its place, so the memory itself goes back. */
void shm_mappings_sweep(struct weft_transport *transport)
{
    for (struct shm_peer *peer = transport->peers; peer; peer = peer->next) {
        int swept = 0;
        for (struct shm_mapping *mapping = peer->mappings; mapping; mapping = mapping->next) {
            if (!mapping->freed || mapping->swept)
                continue;
            mmap(mapping->base, mapping->size, PROT_READ,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
            mapping->swept = 1;
            swept = 1;
        }
        for (struct weft_link *link = transport->links; link && swept; link = link->next) {
            if (link->peer == peer)
                memset(link->cache, 0, sizeof link->cache);
        }
    }
}
