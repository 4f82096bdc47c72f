/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/form/agree.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/majority.h"
#include "comm/form/agree_network.h"
#include "comm/form/arrange.h"
#include "comm/drive/progress.h"
#include "comm/drive/wait.h"

#define INTRO_MAGIC     0x54464557u /* "WEFT" */
#define INTRO_VERSION   8
#define ID_CANDIDATES   8
#define PROCESSOR_WORDS 16
#define PROOF_MS        3000 /* to shake hands with a neighbour; then the network serves */
#define SETTINGS_MAX    2048

/* Round 1, followed by the settings text and, behind its end, the place's. */
struct introduction {
    uint32_t magic, version;
    uint32_t candidates[ID_CANDIDATES];
    uint64_t processors[PROCESSOR_WORDS]; /* that this rank may run on; the first 1,024 */
    struct weft_placement placement;
    int32_t pid, numa;
    uint64_t fabric;
    uint64_t process; /* devmem/share.h; 0: its device memory is not shared */
    uint16_t shm_size,
        place_size; /* place_size: of the text that ends the message, weft_place_announce()'s */
    uint32_t machine;
    char host[64];
    uint8_t shm_address[WEFT_ADDRESS_MAX];
};

/* Round 2. */
struct vote {
    uint32_t free_ids; /* bit per candidate */
    uint32_t group;    /* lowest rank that this one believes to share memory with */
    uint32_t proven;   /* the same when shaking hands with it has worked, otherwise the own rank */
    uint32_t reserved;
    struct weft_network network;
};

/* Kept for the case that there is no other way. */
static void note_no_shm(struct weft_comm *comm, int status)
{
    comm->shm_status = status;
    snprintf(comm->shm_reason, sizeof comm->shm_reason, "%s", weft_error_detail());
}

static int introduce(struct weft_comm *comm, char *message, size_t *size)
{
    struct introduction *intro = (struct introduction *)message;
    memset(intro, 0, sizeof *intro);
    intro->magic = INTRO_MAGIC;
    intro->version = INTRO_VERSION;
    if (getrandom(intro->candidates, sizeof intro->candidates, 0) != sizeof intro->candidates)
        return weft_fail_errno("getrandom");
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        memcpy(intro->processors, &set, sizeof intro->processors);
    intro->pid = (int32_t)getpid();
    if (weft_share_process(&intro->process) != WEFT_OK)
        weft_error_clear();
    gethostname(intro->host, sizeof intro->host - 1);
    weft_pmix_placement(&intro->placement);
    if (comm->ranks > 1 && weft_network_allowed(comm, "shm")) {
        weft_context_lock(comm->context);
        int status = weft_context_transport(comm->context, WEFT_SHM, NULL);
        struct weft_open_transport *shm = &comm->context->transports[WEFT_SHM];
        size_t length = sizeof intro->shm_address;
        if (status == WEFT_OK)
            status = shm->ops.address(shm->instance, intro->shm_address, &length);
        weft_context_unlock(comm->context);
        if (status == WEFT_OK) {
            intro->shm_size = (uint16_t)length;
        } else {
            note_no_shm(comm, status);
            weft_log_once(WEFT_LOG_WARN, "no shared memory: %s", weft_error_detail());
        }
    }
    size_t text = weft_settings_agreed(&comm->context->settings, message + sizeof *intro, SETTINGS_MAX);
    if (text >= SETTINGS_MAX)
        return weft_fail(WEFT_INTERNAL, "the agreed settings need %zu bytes of %d", text, SETTINGS_MAX);
    struct weft_announced_place place;
    size_t end = sizeof *intro + text + 1;
    intro->place_size = (uint16_t)weft_place_announce(comm->context, &set, &place, message + end);
    intro->numa = place.numa;
    intro->machine = place.machine;
    intro->fabric = place.fabric;
    *size = end + intro->place_size;
    return WEFT_OK;
}

/* The place behind the settings; 0 when it is none. */
static int read_place(const struct weft_blob *blob, struct weft_announced_place *place)
{
    const struct introduction *intro = blob->data;
    if (blob->size < sizeof *intro + 1 + intro->place_size)
        return 0;
    const char *text = (const char *)blob->data + blob->size - intro->place_size;
    *place = (struct weft_announced_place){
        .numa = intro->numa, .machine = intro->machine, .fabric = intro->fabric};
    return text[-1] == '\0' && weft_place_read_text(text, intro->place_size, place);
}

static int check_introduction(uint32_t rank, const struct weft_blob *blob)
{
    const struct introduction *intro = blob->data;
    struct weft_announced_place place;
    if (blob->size > sizeof *intro && intro->magic == INTRO_MAGIC && intro->version == INTRO_VERSION &&
        intro->shm_size <= sizeof intro->shm_address && memchr(intro->host, 0, sizeof intro->host) &&
        read_place(blob, &place))
        return WEFT_OK;
    return weft_fail(WEFT_PROTOCOL, "rank %u introduced itself in a form this weft does not understand",
                     rank);
}

static const char *settings_of(const struct weft_blob *blob)
{
    return (const char *)((const struct introduction *)blob->data + 1);
}

static int same_settings(const void *arg, int a, int b)
{
    const struct weft_blob *blobs = arg;
    return strcmp(settings_of(&blobs[a]), settings_of(&blobs[b])) == 0;
}

/* The value of a setting in a text of "NAME=value" lines, fit to be printed. */
static void setting_value(const char *settings, const char *name, char *value, size_t capacity)
{
    size_t length = strlen(name), used = 0;
    value[0] = '\0';
    while (settings && !(strncmp(settings, name, length) == 0 && settings[length] == '=')) {
        settings = strchr(settings, '\n');
        settings = settings ? settings + 1 : NULL;
    }
    for (const char *c = settings ? settings + length + 1 : ""; *c && *c != '\n' && used + 1 < capacity; c++)
        value[used++] = (unsigned char)*c < ' ' || *c == 0x7f ? '?' : *c;
    value[used] = '\0';
}

/* Names the first rank that differs from the majority. All ranks see the same, so they all say the same. */
static int check_settings(const struct weft_comm *comm, const struct weft_blob *blobs)
{
    for (int r = 0; r < comm->ranks; r++) {
        int status = check_introduction((uint32_t)r, &blobs[r]);
        if (status != WEFT_OK)
            return status;
    }
    int right = weft_majority(comm->ranks, same_settings, blobs);
    for (int r = 0; r < comm->ranks; r++) {
        char name[64], theirs[48], expected[48];
        if (!weft_settings_differ(settings_of(&blobs[right]), settings_of(&blobs[r]), name, sizeof name))
            continue;
        setting_value(settings_of(&blobs[r]), name, theirs, sizeof theirs);
        setting_value(settings_of(&blobs[right]), name, expected, sizeof expected);
        return weft_fail(WEFT_SETTINGS, "rank %d on host '%s' runs with %s='%s', rank %d with '%s'", r,
                         ((const struct introduction *)blobs[r].data)->host, name, theirs, right, expected);
    }
    return WEFT_OK;
}

static int copy_member(struct weft_comm *comm, int rank, const struct introduction *intro)
{
    struct weft_member *member = &comm->members[rank];
    snprintf(member->host, sizeof member->host, "%s", intro->host);
    member->pid = intro->pid;
    member->numa = intro->numa;
    member->machine = intro->machine;
    member->process = intro->process;
    member->placement = intro->placement;
    member->sizes[WEFT_SHM] = intro->shm_size;
    member->addresses = malloc(intro->shm_size + 1u);
    if (!member->addresses)
        return weft_fail(WEFT_NOMEM, "no memory for the addresses of rank %d", rank);
    memcpy(member->addresses, intro->shm_address, intro->shm_size);
    return WEFT_OK;
}

/* Who shares a host: addresses that shm finds reachable from each other, named by the lowest such rank. What
 * is reachable from here decides about this rank's own group; groups of others are found by their host names
 * and the part of the address that tells hosts apart, which is the transport's business: so every rank only
 * claims its own group here, and learns the others' claims from the vote. */
static uint32_t own_group(struct weft_comm *comm, const struct weft_blob *blobs)
{
    struct weft_open_transport *shm = &comm->context->transports[WEFT_SHM];
    const struct introduction *mine = blobs[comm->rank].data;
    for (int r = 0; r < comm->rank && mine->shm_size; r++) {
        const struct introduction *theirs = blobs[r].data;
        if (theirs->shm_size && shm->ops.reachable(shm->instance, theirs->shm_address, theirs->shm_size))
            return (uint32_t)r;
    }
    return (uint32_t)comm->rank;
}

static int compare_hosts(const void *a, const void *b)
{
    const struct introduction *const *x = a, *const *y = b;
    return strcmp((*x)->host, (*y)->host);
}

static int compare_nodes(const void *a, const void *b)
{
    const struct introduction *const *x = a, *const *y = b;
    return ((*x)->placement.node > (*y)->placement.node) - ((*x)->placement.node < (*y)->placement.node);
}

/* Finds hosts with more ranks than processors that these may use; hosts are told apart by the launcher's numbers where there are some,
 * since names may be the same in containers. The own host decides how to wait, any of
 * them which algorithm is cheapest, so all ranks must see the same. How many ranks the launcher has put on a host is
 * of no use here: those in other communicators may be bound to processors that nobody here knows. */
static int count_processors(struct weft_comm *comm, const struct weft_blob *blobs)
{
    size_t ranks = (size_t)comm->ranks;
    int (*compare)(const void *, const void *) = weft_comm_has_nodes(comm) ? compare_nodes : compare_hosts;
    const struct introduction **sorted = malloc(ranks * sizeof(struct introduction *));
    if (!sorted)
        return weft_fail(WEFT_NOMEM, "no memory to sort %zu ranks by host", ranks);
    for (size_t r = 0; r < ranks; r++)
        sorted[r] = blobs[r].data;
    qsort(sorted, ranks, sizeof(struct introduction *), compare);
    const struct introduction *mine = blobs[comm->rank].data;
    for (size_t first = 0, next; first < ranks; first = next) {
        uint64_t together[PROCESSOR_WORDS] = {0};
        size_t processors = 0;
        for (next = first; next < ranks && compare(&sorted[next], &sorted[first]) == 0; next++) {
            for (int w = 0; w < PROCESSOR_WORDS; w++)
                together[w] |= sorted[next]->processors[w];
        }
        for (int w = 0; w < PROCESSOR_WORDS; w++)
            processors += (size_t)__builtin_popcountll(together[w]);
        if (next - first <= processors || processors == 0)
            continue;
        comm->some_host_crowded = 1;
        if (compare(&sorted[first], &mine) == 0)
            atomic_store(&comm->context->oversubscribed, 1);
    }
    free(sorted);
    return WEFT_OK;
}

struct rising_link {
    struct weft_comm *comm;
    const struct weft_transport_ops *ops;
    struct weft_link *link;
    int status;
};

static int has_risen(void *arg)
{
    struct rising_link *rising = arg;
    uint32_t flags;
    weft_comm_check(rising->comm); /* progress does not know it yet */
    rising->status = rising->ops->link_flags(rising->link, &flags);
    return rising->status != WEFT_AGAIN;
}

int weft_agree_link(struct weft_comm *comm, int rank, const struct weft_transport_ops *ops,
                    struct weft_link *link, int64_t deadline_ns)
{
    struct rising_link rising = {comm, ops, link, WEFT_AGAIN};
    const struct weft_wait wait = {.driven = &comm->driven,
                                   .done = has_risen,
                                   .late = weft_wait_ends,
                                   .arg = &rising,
                                   .deadline_ns = deadline_ns,
                                   .is_unannounced = 1};
    int status = weft_wait(comm->context, &wait);
    if (comm->failure.status)
        return weft_comm_word_failure(comm);
    if (status == WEFT_TIMEOUT)
        return weft_fail(WEFT_TIMEOUT, "the link to rank %d on host '%s' did not come up in time", rank,
                         comm->members[rank].host);
    return rising.status;
}

/* Proves to share memory with the first rank of the own group, by shaking hands with it. [lock] */
static int prove_host(struct weft_comm *comm, uint32_t group, int64_t deadline_ns)
{
    if ((int)group == comm->rank)
        return WEFT_OK;
    struct weft_open_transport *shm = &comm->context->transports[WEFT_SHM];
    const struct weft_member *first = &comm->members[group];
    struct weft_link *link;
    int status = weft_context_link(comm->context, WEFT_SHM, first->addresses, first->sizes[WEFT_SHM], &link);
    if (status != WEFT_OK)
        return status;
    int64_t soon_ns = weft_deadline_ns(PROOF_MS);
    status =
        weft_agree_link(comm, (int)group, &shm->ops, link, soon_ns < deadline_ns ? soon_ns : deadline_ns);
    weft_context_unlink(comm->context, link);
    return status;
}

static uint32_t free_candidates(struct weft_comm *comm, const struct weft_blob *blobs)
{
    const struct introduction *first = blobs[0].data;
    uint32_t mask = 0;
    for (int i = 0; i < ID_CANDIDATES; i++) {
        if (first->candidates[i] && !weft_context_find(comm->context, first->candidates[i]))
            mask |= 1u << i;
    }
    return mask;
}

/* Whether any pair of ranks may need the network. Every rank must come to the same answer, so it rests on
 * what all have seen: settings and host identities (the shm addresses, compared by the transport). */
static int needs_network(struct weft_comm *comm, const struct weft_blob *blobs)
{
    struct weft_open_transport *shm = &comm->context->transports[WEFT_SHM];
    const struct introduction *mine = blobs[comm->rank].data;
    for (int r = 0; r < comm->ranks; r++) {
        const struct introduction *theirs = blobs[r].data;
        if (r == comm->rank)
            continue;
        if (!mine->shm_size || !theirs->shm_size || !shm->instance ||
            !shm->ops.reachable(shm->instance, theirs->shm_address, theirs->shm_size))
            return 1;
    }
    return 0;
}

/* Adds this rank's network address, or why there is none. [lock] */
static void vote_network(struct weft_comm *comm, struct vote *vote)
{
    int limit = comm->shm_status ? 0 : weft_limits_descriptors();
    if (limit) { /* a peer that could not be let in knows only that nobody answered */
        weft_fail(WEFT_SYSTEM, "shm: %s", weft_errno_text(limit));
        note_no_shm(comm, WEFT_SYSTEM);
    }
    weft_network_open(comm, &vote->network);
}

static void cast_vote(struct weft_comm *comm, const struct weft_blob *blobs, struct vote *vote,
                      int64_t deadline_ns)
{
    memset(vote, 0, sizeof *vote);
    weft_context_lock(comm->context);
    vote->free_ids = free_candidates(comm, blobs);
    vote->group = own_group(comm, blobs);
    int proof = prove_host(comm, vote->group, deadline_ns);
    vote->proven = proof == WEFT_OK ? vote->group : (uint32_t)comm->rank;
    if (proof != WEFT_OK)
        note_no_shm(comm, proof);
    if (vote->proven != vote->group)
        weft_log_once(WEFT_LOG_WARN, "ranks on this host cannot share memory: %s", weft_error_detail());
    if (needs_network(comm, blobs))
        vote_network(comm, vote);
    weft_context_unlock(comm->context);
}

static int is_valid(const struct weft_comm *comm, const struct weft_blob *votes, int rank)
{
    const struct vote *vote = votes[rank].data;
    if (votes[rank].size == sizeof *vote && vote->proven <= (uint32_t)rank &&
        weft_network_is_valid(&vote->network))
        return WEFT_OK;
    return weft_fail(WEFT_PROTOCOL, "rank %d on host '%s' voted in a form this weft does not understand",
                     rank, comm->members[rank].host);
}

/* In place of earlier votes, or of NULL; the caller frees them, whatever the result. */
static int gather_votes(struct weft_comm *comm, const struct vote *vote, struct weft_blob **votes,
                        int64_t deadline_ns)
{
    free(*votes);
    *votes = NULL;
    int status = weft_bootstrap_allgather(comm->bootstrap, "making the communicator", vote, sizeof *vote,
                                          votes, deadline_ns);
    for (int r = 0; r < comm->ranks && status == WEFT_OK; r++)
        status = is_valid(comm, *votes, r);
    return status;
}

/* Some rank could not prove its host: it is left to the network. */
static int unproven_rank(const struct weft_comm *comm, const struct weft_blob *votes)
{
    for (int r = 0; r < comm->ranks; r++) {
        const struct vote *vote = votes[r].data;
        if (vote->proven != vote->group)
            return 1;
    }
    return 0;
}

/* Some pair may turn out not to be served by what its ranks have: agree_network.h. Whether there is one more vote, or a status. */
static int complete_network(struct weft_comm *comm, const struct weft_blob *votes, struct vote *vote)
{
    struct weft_network_claim *all = malloc((size_t)comm->ranks * sizeof *all);
    if (!all)
        return weft_fail(WEFT_NOMEM, "no memory for the addresses of %d ranks", comm->ranks);
    for (int r = 0; r < comm->ranks; r++) {
        const struct vote *theirs = votes[r].data;
        all[r] = (struct weft_network_claim){&theirs->network, theirs->proven};
    }
    int is_open = weft_network_is_open(comm, all);
    if (is_open) {
        weft_context_lock(comm->context);
        weft_network_complete(comm, all, &vote->network);
        weft_context_unlock(comm->context);
    }
    free(all);
    return is_open;
}

/* Votes; again with network addresses when some rank could not prove its host, and with more of them where
 * the first may not serve everybody. */
static int hold_vote(struct weft_comm *comm, const struct weft_blob *blobs, struct weft_blob **votes,
                     int64_t deadline_ns)
{
    struct vote vote;
    cast_vote(comm, blobs, &vote, deadline_ns);
    int status = gather_votes(comm, &vote, votes, deadline_ns);
    if (status == WEFT_OK && unproven_rank(comm, *votes)) {
        weft_context_lock(comm->context);
        if (!weft_network_has(&vote.network) && vote.network.status == WEFT_OK)
            vote_network(comm, &vote);
        weft_context_unlock(comm->context);
        status = gather_votes(comm, &vote, votes, deadline_ns);
    }
    if (status == WEFT_OK)
        status = complete_network(comm, *votes, &vote);
    return status > 0 ? gather_votes(comm, &vote, votes, deadline_ns) : status;
}

/* The vote that fails it for all: one with a reason of its own before those that only miss the others. */
static int vetoing_rank(const struct weft_comm *comm, const struct weft_blob *votes)
{
    int found = -1;
    for (int r = 0; r < comm->ranks; r++) {
        const struct vote *vote = votes[r].data;
        if (vote->network.status == WEFT_OK)
            continue;
        if (vote->network.status != WEFT_TRANSPORT)
            return r;
        found = found < 0 ? r : found;
    }
    return found;
}

static int count_votes(struct weft_comm *comm, const struct weft_blob *intros, const struct weft_blob *votes)
{
    int veto = vetoing_rank(comm, votes);
    if (veto >= 0) {
        const struct weft_network *network = &((const struct vote *)votes[veto].data)->network;
        comm->vetoed = 1;
        int valid = network->status < WEFT_AGAIN && network->status >= WEFT_INTERNAL;
        return weft_fail(valid ? network->status : WEFT_INTERNAL, "rank %d on host '%s': %s", veto,
                         comm->members[veto].host, network->reason);
    }
    uint32_t free_ids = UINT32_MAX;
    for (int r = 0; r < comm->ranks; r++) {
        const struct vote *vote = votes[r].data;
        free_ids &= vote->free_ids;
        comm->members[r].host_group = vote->proven;
        int status = weft_network_note(comm, r, &vote->network);
        if (status != WEFT_OK)
            return status;
        comm->one_host &= vote->proven == 0;
        comm->no_shm &= vote->proven == (uint32_t)r;
    }
    free_ids &= (1u << ID_CANDIDATES) - 1;
    if (!free_ids)
        return weft_fail(WEFT_INTERNAL, "none of %d random communicator ids is free on all ranks",
                         ID_CANDIDATES);
    const struct introduction *first = intros[0].data;
    comm->driven.id = first->candidates[__builtin_ctz(free_ids)];
    return weft_network_choose(comm);
}

static int arrange(struct weft_comm *comm, const struct weft_blob *intros, const struct weft_blob *votes)
{
    struct weft_announced_place *announced = malloc((size_t)comm->ranks * sizeof *announced);
    if (!announced)
        return weft_fail(WEFT_NOMEM, "no memory for the places of %d ranks", comm->ranks);
    for (int r = 0; r < comm->ranks; r++) {
        const struct weft_network *network = &((const struct vote *)votes[r].data)->network;
        read_place(&intros[r], &announced[r]);
        announced[r].ports = network->ports;
        announced[r].port_count = network->port_count;
    }
    int status = weft_comm_arrange(comm, announced);
    free(announced);
    return status;
}

int weft_agree(struct weft_comm *comm, int64_t deadline_ns)
{
    _Alignas(8) char message[sizeof(struct introduction) + SETTINGS_MAX + WEFT_PLACE_TEXT_MAX];
    size_t size = 0;
    struct weft_blob *intros = NULL, *votes = NULL;
    int status = introduce(comm, message, &size);
    if (status == WEFT_OK)
        status = weft_bootstrap_allgather(comm->bootstrap, "making the communicator", message, size, &intros,
                                          deadline_ns);
    if (status != WEFT_OK)
        return status;
    status = check_settings(comm, intros);
    for (int r = 0; r < comm->ranks && status == WEFT_OK; r++)
        status = copy_member(comm, r, intros[r].data);
    if (status == WEFT_OK)
        status = count_processors(comm, intros);
    if (status == WEFT_OK)
        status = hold_vote(comm, intros, &votes, deadline_ns);
    comm->one_host = comm->no_shm = 1;
    if (status == WEFT_OK)
        status = count_votes(comm, intros, votes);
    if (status == WEFT_OK)
        status = arrange(comm, intros, votes);
    free(votes);
    free(intros);
    return status;
}
