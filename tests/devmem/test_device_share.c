/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside drivers device-sim ze */
/* Device memory that ranks of one machine work on directly: within a process, between processes, freed and allocated again at the
 * same address, and described by peers who lie. On the simulated device, and on the kinds "cuda" and "ze" with fake drivers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/weft.h>

#include "base/error.h"
#include "devmem/share_wire.h"
#include "examples/device-sim/sim.h"
#include "tests/support/bits.h"
#include "tests/support/built.h"
#include "tests/support/child.h"
#include "tests/support/cuda_scene.h"
#include "tests/support/device_suite.h"

#define BYTES  6000
#define OFFSET 300
#define PLACES 6
#define TESTS  8

static struct cuda_fake *fake;

/* --- rows */

static void sim_is_empty(const struct weft_device_kind *kind)
{
    const struct sim_api *sim = dlsym(kind->plugin.handle, SIM_API_SYMBOL);
    struct sim_counts counts;
    sim->counts(&counts);
    assert_int_equal(counts.spans + counts.queues + counts.events, 0);
}

static void cuda_is_empty(const struct weft_device_kind *kind)
{
    (void)kind;
    assert_int_equal(fake->memories(), 0);
}

static const struct device_row sim_row = {.label = "sim",
                                          .kind = "sim",
                                          .plugin = "examples/device-sim/device-sim.so",
                                          .options = "seed=1",
                                          .reuses = 1,
                                          .check_empty = sim_is_empty};
static const struct device_row cuda_row = {
    .label = "cuda", .kind = "cuda", .reuses = 1, .check_empty = cuda_is_empty};
static const struct device_row ze_row = {.label = "ze", .kind = "ze", .reuses = 1, .keeps = 1};

static int setup(void **state)
{
    if (device_row(state) == &cuda_row)
        fake->reset(); /* and forgets that it was started: the test forks */
    return 0;
}

/* --- one rank */

struct rank {
    struct device_world world;
    struct weft_shares *shares;
};

static void rank_open(struct rank *rank, const struct device_row *row, const struct weft_share_limits *limits)
{
    device_open(&rank->world, row);
    DEVICE_OK(weft_shares_open(limits, &rank->shares));
}

static void rank_close(struct rank *rank)
{
    weft_shares_close(rank->shares);
    device_close(&rank->world);
}

static struct weft_share_stats stats_of(const struct rank *rank)
{
    struct weft_share_stats stats;
    weft_shares_get_stats(rank->shares, &stats);
    return stats;
}

static char *allocate(struct rank *rank, int byte)
{
    char bytes[BYTES], *memory = device_allocate(&rank->world, 0, WEFT_MEMORY_DEVICE, OFFSET + BYTES);
    memset(bytes, byte, BYTES);
    device_put(&rank->world, memory + OFFSET, bytes, BYTES);
    return memory;
}

static void release(struct rank *rank, void *memory)
{
    DEVICE_OK(rank->world.ops->release(rank->world.device, memory));
}

/* What both announce to each other. */
struct offer {
    uint64_t instance;
    struct weft_share share;
};

static struct offer describe(struct rank *rank, char *memory, int is_for_others)
{
    struct offer offer = {.instance = weft_share_instance(rank->shares)};
    DEVICE_OK(weft_share_describe(rank->shares, rank->world.kind, memory + OFFSET, BYTES, is_for_others,
                                  &offer.share));
    return offer;
}

static int reach(struct rank *rank, const struct offer *offer, char **pointer,
                 struct weft_share_import **import)
{
    void *found = NULL;
    int status = weft_share_reach(rank->shares, rank->world.kind, 0, offer->instance, &offer->share, BYTES,
                                  &found, import);
    *pointer = found;
    return status;
}

static int holds(struct rank *rank, const char *memory, int byte)
{
    char found[BYTES], expected[BYTES];
    device_get(&rank->world, found, memory, BYTES);
    memset(expected, byte, BYTES);
    return BITS_AGREE(memcmp(found, expected, BYTES) == 0);
}

static void assert_said(const char *part)
{
    if (!strstr(weft_error_detail(), part))
        fail_msg("'%s' is not in '%s'", part, weft_error_detail());
}

/* --- one process */

static void ranks_of_a_process_use_the_pointer(void **state)
{
    struct rank owner, peer;
    struct weft_share_import *import = (void *)state;
    char *pointer;
    rank_open(&owner, device_row(state), NULL);
    DEVICE_OK(weft_shares_open(NULL, &peer.shares));
    peer.world = owner.world;
    assert_true(weft_share_instance(peer.shares) == weft_share_instance(owner.shares));
    char *memory = allocate(&owner, 1);
    struct offer offer = describe(&owner, memory, 0);
    DEVICE_OK(reach(&peer, &offer, &pointer, &import));
    assert_ptr_equal(pointer, memory + OFFSET);
    assert_null(import);
    weft_share_release(peer.shares, import);
    offer = describe(&owner, memory, 1); /* with a handle, too */
    DEVICE_OK(reach(&peer, &offer, &pointer, &import));
    assert_ptr_equal(pointer, memory + OFFSET);
    assert_int_equal(stats_of(&peer).imports_made, 0);
    assert_int_equal(stats_of(&owner).exports, 1);
    release(&owner, memory);
    assert_int_equal(reach(&peer, &offer, &pointer, &import), WEFT_PROTOCOL);
    assert_said("is freed, or never was there");
    char *other = allocate(&owner, 2);
    assert_ptr_equal(other, memory);
    assert_int_equal(reach(&peer, &offer, &pointer, &import), WEFT_PROTOCOL);
    offer = describe(&owner, other, 0);
    DEVICE_OK(reach(&peer, &offer, &pointer, &import));
    release(&owner, other);
    weft_shares_close(peer.shares);
    rank_close(&owner);
}

static void handles_are_made_once(void **state)
{
    static const struct weft_share_limits limits = {.exports_max = 4, .imports_kept = 1, .imports_max = 1};
    struct rank owner;
    char *places[PLACES];
    rank_open(&owner, device_row(state), &limits);
    for (int i = 0; i < PLACES; i++) {
        places[i] = allocate(&owner, i);
        struct offer first = describe(&owner, places[i], 1), again = describe(&owner, places[i], 1);
        assert_memory_equal(&first, &again, sizeof first);
    }
    assert_int_equal(stats_of(&owner).exports_made, PLACES);
    assert_int_equal(stats_of(&owner).export_hits, PLACES);
    assert_int_equal(stats_of(&owner).exports, 4);
    describe(&owner, places[PLACES - 4], 1); /* is used again, so that the next is the one to go */
    describe(&owner, places[0], 1);
    describe(&owner, places[PLACES - 4], 1);
    assert_int_equal(stats_of(&owner).exports_made, PLACES + 1);
    describe(&owner, places[PLACES - 3], 1);
    assert_int_equal(stats_of(&owner).exports_made, PLACES + 2);
    for (int i = 0; i < PLACES; i++)
        release(&owner, places[i]);
    char *memory = allocate(&owner, 9); /* those that are freed go */
    describe(&owner, memory, 1);
    assert_int_equal(stats_of(&owner).exports, 1);
    release(&owner, memory);
    rank_close(&owner);
}

static void what_cannot_be_described(void **state)
{
    struct device_row alone = *device_row(state);
    struct weft_share share;
    struct rank owner;
    char *pointer, here[10];
    struct weft_share_import *import;
    if (alone.plugin) /* the others have none, and stay as they are */
        alone.options = "seed=1,ipc=0";
    rank_open(&owner, &alone, NULL);
    const struct weft_device_kind *kind = owner.world.kind;
    char *memory = allocate(&owner, 1);
    assert_int_equal(weft_share_describe(owner.shares, kind, memory, 0, 0, &share), WEFT_INVALID);
    assert_int_equal(weft_share_describe(owner.shares, kind, here, 10, 0, &share), WEFT_UNSUPPORTED);
    assert_said("it is not its memory");
    assert_int_equal(weft_share_describe(owner.shares, kind, memory + 1, OFFSET + BYTES, 0, &share),
                     WEFT_UNSUPPORTED);
    assert_said("it lies in more than one span");
    kind = weft_devices_find(owner.world.devices, "host");
    assert_int_equal(weft_share_describe(owner.shares, kind, here, 10, 0, &share), WEFT_UNSUPPORTED);
    assert_said("it is memory without an identity");
    char *pinned = device_allocate(&owner.world, -1, WEFT_MEMORY_PINNED, OFFSET + BYTES);
    char *alike = device_row(state) == &sim_row ? memory : pinned;
    assert_int_equal(weft_share_describe(owner.shares, owner.world.kind, alike, 10, 1, &share),
                     WEFT_UNSUPPORTED);
    assert_said("it cannot be shared with other processes");
    struct offer offer = describe(&owner, alike, 0);
    DEVICE_OK(reach(&owner, &offer, &pointer, &import));
    assert_ptr_equal(pointer, alike + OFFSET);
    release(&owner, pinned);
    release(&owner, memory);
    rank_close(&owner);
}

/* --- two processes */

struct other {
    pid_t pid;
    int in, out;
};

/* The other process is made before this one opens anything, as ranks are. */
static struct other other_start(void **state, void (*part)(const struct device_row *row, int in, int out))
{
    int there[2], back[2];
    assert_int_equal(pipe(there), 0);
    assert_int_equal(pipe(back), 0);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(there[1]);
        close(back[0]);
        part(device_row(state), there[0], back[1]);
        _exit(0);
    }
    close(there[0]);
    close(back[1]);
    return (struct other){pid, back[0], there[1]};
}

static void other_report(const struct other *other, struct rank *owner, char *memory, int is_for_others)
{
    struct offer offer = describe(owner, memory, is_for_others);
    assert_int_equal(write(other->out, &offer, sizeof offer), sizeof offer);
}

static void other_end(const struct other *other)
{
    int status;
    assert_int_equal(waitpid(other->pid, &status, 0), other->pid);
    assert_int_equal(status, 0);
    close(other->in);
    close(other->out);
}

/* In the other process. */
#define NEED(condition)                                                                                      \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: %s; %s\n", __FILE__, __LINE__, #condition, weft_error_detail());         \
            _exit(1);                                                                                        \
        }                                                                                                    \
    } while (0)

static struct offer hear(int in)
{
    struct offer offer;
    NEED(read(in, &offer, sizeof offer) == sizeof offer);
    return offer;
}

/* Reads what the owner wrote, writes 2; then the owner has other memory at the same place. */
static void use_memory(const struct device_row *row, int in, int out)
{
    struct rank peer;
    struct weft_share_import *import, *again, *next;
    char *pointer, *same, two[BYTES];
    rank_open(&peer, row, NULL);
    struct offer offer = hear(in);
    NEED(offer.instance != weft_share_instance(peer.shares));
    NEED(reach(&peer, &offer, &pointer, &import) == WEFT_OK && import && holds(&peer, pointer, 1));
    NEED(reach(&peer, &offer, &same, &again) == WEFT_OK && same == pointer && again == import);
    NEED(stats_of(&peer).imports_made == 1 && stats_of(&peer).import_hits == 1);
    memset(two, 2, BYTES);
    device_put(&peer.world, pointer, two, BYTES);
    weft_share_release(peer.shares, import);
    NEED(write(out, "2", 1) == 1);
    offer = hear(in);
    NEED(reach(&peer, &offer, &pointer, &next) == WEFT_OK && next != import && holds(&peer, pointer, 3));
    weft_shares_trim(peer.shares);
    NEED(stats_of(&peer).imports == 2); /* the first is in use still */
    weft_share_release(peer.shares, again);
    weft_shares_trim(peer.shares);
    NEED(stats_of(&peer).imports == 1);
    weft_share_forget(peer.shares, offer.instance + 1);
    NEED(reach(&peer, &offer, &same, &again) == WEFT_OK && again == next);
    weft_share_release(peer.shares, again);
    weft_share_forget(peer.shares, offer.instance);
    weft_shares_trim(peer.shares);
    NEED(stats_of(&peer).imports == 1 && holds(&peer, pointer, 3));
    weft_share_release(peer.shares, next);
    weft_shares_trim(peer.shares);
    NEED(stats_of(&peer).imports == 0);
    NEED(reach(&peer, &offer, &pointer, &import) == WEFT_OK && holds(&peer, pointer, 3));
    weft_share_release(peer.shares, import); /* close() undoes it */
    rank_close(&peer);
}

static void memory_of_another_process_is_mapped(void **state)
{
    struct other other = other_start(state, use_memory);
    struct rank owner;
    rank_open(&owner, device_row(state), NULL);
    char *memory = allocate(&owner, 1);
    other_report(&other, &owner, memory, 1);
    char ready;
    assert_int_equal(read(other.in, &ready, 1), 1);
    assert_true(holds(&owner, memory + OFFSET, 2));
    release(&owner, memory);
    char *next = allocate(&owner, 3);
    assert_ptr_equal(next, memory);
    other_report(&other, &owner, next, 1);
    assert_int_equal(stats_of(&owner).exports_made, 2);
    other_end(&other);
    release(&owner, next);
    rank_close(&owner);
}

static void use_many(const struct device_row *row, int in, int out)
{
    static const struct weft_share_limits limits = {.exports_max = 1, .imports_kept = 2, .imports_max = 4};
    struct rank peer;
    struct offer offers[PLACES];
    struct weft_share_import *imports[PLACES], *import;
    char *pointer;
    (void)out;
    rank_open(&peer, row, &limits);
    for (int i = 0; i < PLACES; i++)
        offers[i] = hear(in);
    for (int i = 0; i < 4; i++)
        NEED(reach(&peer, &offers[i], &pointer, &imports[i]) == WEFT_OK && holds(&peer, pointer, i));
    NEED(reach(&peer, &offers[4], &pointer, &import) == WEFT_UNSUPPORTED);
    NEED(strstr(weft_error_detail(), "4 spans of device memory of other processes are mapped"));
    weft_share_release(peer.shares, imports[0]);
    weft_share_release(peer.shares, imports[1]);
    weft_shares_trim(peer.shares);
    NEED(stats_of(&peer).imports == 4); /* two may stay */
    weft_share_release(peer.shares, imports[2]);
    weft_shares_trim(peer.shares);
    NEED(stats_of(&peer).imports == 3);
    NEED(reach(&peer, &offers[1], &pointer, &import) == WEFT_OK && import == imports[1]);
    weft_share_release(peer.shares, import);
    NEED(reach(&peer, &offers[0], &pointer, &import) == WEFT_OK && stats_of(&peer).imports_made == 5);
    NEED(holds(&peer, pointer, 0));
    weft_share_release(peer.shares, import);
    weft_share_release(peer.shares, imports[3]);
    rank_close(&peer);
}

static void mappings_are_bounded(void **state)
{
    struct other other = other_start(state, use_many);
    struct rank owner;
    char *places[PLACES];
    rank_open(&owner, device_row(state), NULL);
    for (int i = 0; i < PLACES; i++) {
        places[i] = allocate(&owner, i);
        other_report(&other, &owner, places[i], 1);
    }
    other_end(&other);
    for (int i = 0; i < PLACES; i++)
        release(&owner, places[i]);
    rank_close(&owner);
}

/* --- peers who lie */

static int is_refusal(int status)
{
    return (status == WEFT_PROTOCOL || status == WEFT_UNSUPPORTED || status == WEFT_ACCESS ||
            status == WEFT_NOMEM) &&
           strlen(weft_error_detail()) > 0;
}

/* Every bit of an honest description turned round: it is refused, or leads to memory that is there. How many were taken. */
static int reach_lies(struct rank *rank, const struct offer *honest)
{
    int taken = 0;
    for (int bit = 0; bit < WEFT_SHARE_BYTES * 8; bit++) {
        struct offer lie = *honest;
        struct weft_share_import *import;
        struct weft_device_span span = {.size = sizeof span};
        char *pointer;
        lie.share.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        weft_error_set_detail("");
        int status = reach(rank, &lie, &pointer, &import);
        if (status == WEFT_OK) {
            taken++;
            NEED(rank->world.ops->identify(rank->world.device, pointer, &span) == WEFT_OK);
            NEED((uintptr_t)pointer - span.base + BYTES <= span.length);
            weft_share_release(rank->shares, import);
        } else {
            NEED(is_refusal(status));
        }
        weft_shares_trim(rank->shares);
    }
    return taken;
}

static void hear_lies(const struct device_row *row, int in, int out)
{
    static const struct weft_share_limits limits = {.exports_max = 1, .imports_kept = 2, .imports_max = 16};
    struct rank peer;
    struct weft_share_import *import;
    char *pointer;
    (void)out;
    rank_open(&peer, row, &limits);
    struct offer honest = hear(in);
    /* uuid, address, offsets and lengths that fit are not found out, nor need they be: it is the peer's memory. */
    int taken = reach_lies(&peer, &honest);
    NEED(taken >= 128 && taken < 512 && stats_of(&peer).imports <= limits.imports_max);
    NEED(reach(&peer, &honest, &pointer, &import) == WEFT_OK && holds(&peer, pointer, 1));
    weft_share_release(peer.shares, import);
    honest.instance = weft_share_instance(peer.shares);
    NEED(reach(&peer, &honest, &pointer, &import) == WEFT_PROTOCOL);
    rank_close(&peer);
}

static void lies_of_another_process(void **state)
{
    struct other other = other_start(state, hear_lies);
    struct rank owner;
    rank_open(&owner, device_row(state), NULL);
    char *memory = allocate(&owner, 1);
    other_report(&other, &owner, memory, 1);
    other_end(&other);
    assert_true(holds(&owner, memory + OFFSET, 1));
    release(&owner, memory);
    rank_close(&owner);
}

struct lie {
    const char *part; /* of the text */
    uint64_t instance, identity, address, offset, length;
    int status;
    char kind[8];
};

static void lies_of_this_process(void **state)
{
    static const struct lie lies[] = {
        {.instance = 1, .status = WEFT_PROTOCOL, .part = "of another process than its peer"},
        {.identity = 1, .status = WEFT_PROTOCOL, .part = "is freed, or never was there"},
        {.address = 1, .status = WEFT_PROTOCOL, .part = "is freed, or never was there"},
        {.length = 1, .status = WEFT_PROTOCOL, .part = "is freed, or never was there"},
        {.length = (uint64_t)-1,
         .status = WEFT_PROTOCOL,
         .part = "a description names 5999 bytes of device memory: expected 6000"},
        {.length = (uint64_t)-BYTES, .status = WEFT_PROTOCOL, .part = "its length is impossible"},
        {.length = UINT64_MAX / 2,
         .offset = UINT64_MAX / 2 + 10,
         .status = WEFT_PROTOCOL,
         .part = "its length is impossible"},
        {.offset = UINT64_MAX / 2, .status = WEFT_PROTOCOL, .part = "its address is impossible"},
        {.kind = "other", .status = WEFT_UNSUPPORTED, .part = "memory of the kind 'other' is out of reach"},
        {.kind = "Other", .status = WEFT_PROTOCOL, .part = "its kind has no good name"},
    };
    struct rank owner;
    struct weft_share_content content;
    struct weft_share_import *import;
    char *pointer;
    rank_open(&owner, device_row(state), NULL);
    char *memory = allocate(&owner, 1);
    struct offer honest = describe(&owner, memory, 1), offer = honest;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        DEVICE_OK(weft_share_read(&honest.share, &content));
        content.instance += lies[i].instance;
        content.identity += lies[i].identity;
        content.address += lies[i].address;
        content.offset += lies[i].offset;
        content.length += lies[i].length;
        if (*lies[i].kind)
            memcpy(content.kind, lies[i].kind, sizeof lies[i].kind);
        DEVICE_OK(weft_share_write(&content, &offer.share));
        assert_int_equal(reach(&owner, &offer, &pointer, &import), lies[i].status);
        assert_said(lies[i].part);
    }
    offer = honest;
    offer.share.bytes[0]++;
    assert_int_equal(reach(&owner, &offer, &pointer, &import), WEFT_PROTOCOL);
    assert_said("has version 2: expected 1");
    offer = honest;
    offer.share.bytes[1] = WEFT_DEVICE_NAME_MAX + 1;
    assert_int_equal(reach(&owner, &offer, &pointer, &import), WEFT_PROTOCOL);
    assert_said("has a name of 32 and a handle of ");
    offer = honest;
    offer.share.bytes[WEFT_SHARE_BYTES - 1] = 1;
    assert_int_equal(reach(&owner, &offer, &pointer, &import), WEFT_PROTOCOL);
    assert_said("it has more bytes than it says");
    offer = describe(&owner, memory, 0);
    offer.share.bytes[44] = 1;
    assert_int_equal(reach(&owner, &offer, &pointer, &import), WEFT_PROTOCOL);
    assert_said("it has an offset and no handle");
    offer = describe(&owner, memory, 0);
    assert_in_range(reach_lies(&owner, &offer), 128, 160); /* the uuid, and what lies before in the span */
    release(&owner, memory);
    rank_close(&owner);
}

/* A handle for others must be there. */
static void hear_no_handle(const struct device_row *row, int in, int out)
{
    struct rank peer;
    struct weft_share_import *import;
    char *pointer;
    (void)out;
    rank_open(&peer, row, NULL);
    struct offer offer = hear(in);
    NEED(reach(&peer, &offer, &pointer, &import) == WEFT_UNSUPPORTED);
    NEED(strstr(weft_error_detail(), "is described without a handle"));
    rank_close(&peer);
}

static void other_processes_need_a_handle(void **state)
{
    struct other other = other_start(state, hear_no_handle);
    struct rank owner;
    rank_open(&owner, device_row(state), NULL);
    char *memory = allocate(&owner, 1);
    other_report(&other, &owner, memory, 0);
    other_end(&other);
    release(&owner, memory);
    rank_close(&owner);
}

/* Each test, where alone is -1, or that one. */
static int run(const struct device_row *row, int alone)
{
#define ROW_TEST(test)                                                                                       \
    {                                                                                                        \
        .name = #test, .test_func = (test), .setup_func = setup, .initial_state = (void *)(uintptr_t)row     \
    }
    const struct CMUnitTest tests[TESTS] = {
        ROW_TEST(memory_of_another_process_is_mapped),
        ROW_TEST(mappings_are_bounded),
        ROW_TEST(lies_of_another_process),
        ROW_TEST(other_processes_need_a_handle),
        ROW_TEST(ranks_of_a_process_use_the_pointer),
        ROW_TEST(handles_are_made_once),
        ROW_TEST(what_cannot_be_described),
        ROW_TEST(lies_of_this_process),
    };
    const struct CMUnitTest *first = tests + (alone < 0 ? 0 : alone);
    return _cmocka_run_group_tests(row->label, first, alone < 0 ? TESTS : 1, NULL, NULL);
}

/* A process that has used Level Zero cannot fork others that use it. */
static int run_ze(int alone)
{
    return run(&ze_row, alone);
}

int main(void)
{
    setenv("WEFT_LOG", "error", 0);
    int failed = test_ze_use("devices=2") ? test_children(run_ze, TESTS) : 0; /* before threads */
    failed += run(&sim_row, -1);
    const char *reason = scene_warm_up(&fake);
    if (!reason)
        return failed + run(&cuda_row, -1);
    fprintf(stderr, "cuda: %s\n", reason);
    return 1;
}
