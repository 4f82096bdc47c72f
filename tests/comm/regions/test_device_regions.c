/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs verbs; with tests/fakes/verbs/; wrap calloc; beside drivers device-sim */
/* Registrations of device memory, on a NIC in memory that maps dma-bufs: which way they are made, what is kept, and that memory
 * which comes again at the same address is never taken for what was registered there before. */
#include "comm/regions/device_regions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/weft.h>

#include "base/error.h"
#include "comm/drive/context.h"
#include "tests/fakes/verbs/verbs_nodes.h"
#include "tests/support/cuda_scene.h"
#include "tests/support/device_suite.h"

#define BYTES 100000
#define CAPS  (WEFT_CAP_DMABUF | WEFT_CAP_DEVICE_POINTER)

static struct cuda_fake *cuda;

static const char *cuda_absent(void)
{
    return scene_warm_up(&cuda);
}

/* The fake's dma-bufs are copies of what the memory holds when they are made. */
static const struct device_row rows[] = {
    {.label = "sim",
     .kind = "sim",
     .plugin = "examples/device-sim/device-sim.so",
     .options = "seed=1,dmabuf=1",
     .managed = 1},
    {.label = "cuda", .kind = "cuda", .absent = cuda_absent},
};
#define SIM  (&rows[0])
#define CUDA (&rows[1])

/* The calloc() after so many others fails; 0: none does. */
static _Thread_local int calloc_fails;

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return calloc_fails && --calloc_fails == 0 ? NULL : __real_calloc(count, size);
}

/* A row, its registrations with instance 0 of the NIC, and what was asked of that. */
struct scene {
    struct device_world world;
    struct weft_device_regions *regions;
    int by_dmabuf, by_pointer; /* tries */
    int refuse_dmabuf, refuse_pointer;
    int fail_behind; /* what calloc_fails is once it has been registered */
    int live;
    int last_fd;
};

static int scene_register(void *arg, uint32_t transport, const struct weft_device_memory *memory,
                          struct weft_region **region)
{
    struct scene *scene = arg;
    (void)transport;
    *(memory->fd < 0 ? &scene->by_pointer : &scene->by_dmabuf) += 1;
    scene->last_fd = memory->fd;
    int refused = memory->fd < 0 ? scene->refuse_pointer : scene->refuse_dmabuf;
    if (refused)
        return weft_fail(refused, memory->fd < 0 ? "no such pointer" : "no such dma-buf");
    struct weft_device_memory known = *memory;
    known.flags |= WEFT_SPAN_PEER_MEMORY;
    int status = verbs_nodes_ops.reg_device(verbs_nodes[0].transport, &known, region);
    calloc_fails = scene->fail_behind;
    scene->live += status == WEFT_OK;
    return status;
}

static void scene_deregister(void *arg, uint32_t transport, struct weft_region *region)
{
    struct scene *scene = arg;
    (void)transport;
    scene->live--;
    verbs_nodes_ops.dereg(region);
}

static void begin(struct scene *scene, const struct device_row *row, uint64_t bytes_max)
{
    memset(scene, 0, sizeof *scene);
    device_open(&scene->world, row);
    struct weft_device_regions_options options = {.bytes_max = bytes_max,
                                                  .devices = scene->world.devices,
                                                  .arg = scene,
                                                  .reg = scene_register,
                                                  .dereg = scene_deregister};
    assert_int_equal(weft_device_regions_open(&options, &scene->regions), WEFT_OK);
}

static void end(struct scene *scene)
{
    weft_device_regions_close(scene->regions);
    assert_int_equal(scene->live, 0);
    device_close(&scene->world);
}

static void *take(struct scene *scene, size_t size)
{
    return device_allocate(&scene->world, 0, WEFT_MEMORY_DEVICE, size);
}

static void drop(struct scene *scene, void *memory)
{
    DEVICE_OK(scene->world.ops->release(scene->world.device, memory));
}

static int get_with(struct scene *scene, uint32_t caps, const void *memory, size_t size,
                    struct weft_region **region)
{
    struct weft_device_buffer buffer;
    assert_int_equal(weft_device_buffer_look(scene->world.devices, memory, size, &buffer), 1);
    assert_ptr_equal(buffer.kind, scene->world.kind);
    return weft_device_regions_get(scene->regions, WEFT_VERBS, caps, &buffer, region);
}

static struct weft_region *get(struct scene *scene, const void *memory, size_t size)
{
    struct weft_region *region = NULL;
    DEVICE_OK(get_with(scene, CAPS, memory, size, &region));
    assert_non_null(region);
    return region;
}

static void put(struct scene *scene, struct weft_region *region)
{
    assert_int_equal(weft_device_regions_put(scene->regions, region), 1);
}

/* Uses a region for a moment; whether it had to be made. */
static int use(struct scene *scene, const void *memory, size_t size)
{
    int before = scene->by_dmabuf + scene->by_pointer;
    put(scene, get(scene, memory, size));
    return scene->by_dmabuf + scene->by_pointer - before;
}

static void expect_kept(struct scene *scene, uint64_t entries, uint64_t bytes)
{
    struct weft_device_regions_stats stats;
    weft_device_regions_get_stats(scene->regions, &stats);
    assert_int_equal(stats.entries, entries);
    assert_int_equal(stats.bytes, bytes);
}

/* --- what arrives */

static uint8_t source[BYTES], target[BYTES];

static void fill(uint8_t *bytes, int seed)
{
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 251 + (size_t)seed * 31);
}

/* Node `from` writes from its region's memory into that of the other node's. */
static void transfer(int from, struct weft_region *out, const void *out_memory, struct weft_region *in,
                     void *in_memory)
{
    int to = 1 - from, before = verbs_nodes[to].filled;
    struct weft_link *there = verbs_nodes_join(from, to), *back = verbs_nodes_join(to, from);
    struct weft_token token;
    assert_int_equal(verbs_nodes_ops.advertise(back, in, in_memory, BYTES, 1, &token), WEFT_OK);
    verbs_nodes_say(back, "token", from);
    assert_int_equal(verbs_nodes_ops.put(there, &token, out, out_memory, BYTES, 2), WEFT_OK);
    verbs_nodes_turns(5);
    assert_int_equal(verbs_nodes[to].filled, before + 1);
}

/* Frees and allocates between operations, each of which sends what is there now and receives to where it is now. */
static void memory_that_comes_again(const struct device_row *row)
{
    struct scene scene;
    struct weft_region *host;
    void *first = NULL;
    begin(&scene, row, 1 << 30);
    assert_int_equal(verbs_nodes_ops.reg(verbs_nodes[1].transport, target, BYTES, &host), WEFT_OK);
    for (int round = 0; round < 6; round++) {
        uint8_t *memory = take(&scene, BYTES);
        assert_true(!first || first == memory); /* or nothing is tested */
        first = memory;
        fill(source, round);
        device_put(&scene.world, memory, source, BYTES);
        struct weft_region *region = get(&scene, memory, BYTES);
        assert_int_equal(scene.by_dmabuf, round + 1);
        transfer(0, region, memory, host, target);
        assert_memory_equal(target, source, BYTES);
        put(&scene, region);
        if (row == SIM) {
            fill(target, round + 100);
            region = get(&scene, memory, BYTES);
            assert_int_equal(scene.by_dmabuf, round + 1);
            transfer(1, host, target, region, memory);
            device_get(&scene.world, source, memory, BYTES);
            assert_memory_equal(target, source, BYTES);
            put(&scene, region);
        }
        expect_kept(&scene, 1, BYTES);
        drop(&scene, memory);
    }
    verbs_nodes_ops.dereg(host);
    end(&scene);
}

/* What is in use when its memory is freed stays what it was until it is given back, and is not found. */
static void memory_that_goes_in_use(const struct device_row *row)
{
    struct scene scene;
    begin(&scene, row, 1 << 30);
    void *memory = take(&scene, BYTES);
    struct weft_region *old = get(&scene, memory, BYTES);
    drop(&scene, memory);
    assert_ptr_equal(take(&scene, BYTES), memory);
    struct weft_region *new = get(&scene, memory, BYTES);
    assert_ptr_not_equal(old, new);
    assert_int_equal(scene.live, 2);
    put(&scene, old);
    assert_int_equal(scene.live, 1);
    put(&scene, new);
    assert_int_equal(use(&scene, memory, BYTES), 0);
    drop(&scene, memory);
    end(&scene);
}

/* Memory that was freed and is not asked for again goes with the next registration. */
static void memory_that_is_gone(const struct device_row *row)
{
    struct scene scene;
    begin(&scene, row, 1 << 30);
    void *memory = take(&scene, BYTES), *other = take(&scene, BYTES);
    assert_int_equal(use(&scene, memory, BYTES), 1);
    drop(&scene, memory);
    assert_int_equal(scene.live, 1);
    assert_int_equal(use(&scene, other, BYTES), 1);
    assert_int_equal(scene.live, 1);
    expect_kept(&scene, 1, BYTES);
    drop(&scene, other);
    end(&scene);
}

/* --- what is kept */

static void what_is_kept(const struct device_row *row)
{
    struct scene scene;
    struct weft_device_buffer buffer;
    struct weft_region *region;
    struct weft_device_regions_stats stats;
    begin(&scene, row, 200000);
    char *memory = take(&scene, 300000);
    assert_int_equal(use(&scene, memory + 1000, 100000), 1);
    assert_int_equal(use(&scene, memory + 1000, 100000), 0);
    assert_int_equal(use(&scene, memory + 50000, 51000), 0);
    assert_int_equal(use(&scene, memory + 50000, 51001), 1); /* beyond it */
    expect_kept(&scene, 2, 151001);
    assert_int_equal(use(&scene, memory + 60000, 100), 0);
    assert_int_equal(use(&scene, memory + 1000, 10), 0);
    assert_int_equal(use(&scene, memory + 200000, 50000), 1); /* the second is the oldest now, and goes */
    expect_kept(&scene, 2, 150000);
    assert_int_equal(use(&scene, memory + 1000, 10), 0);
    weft_device_regions_get_stats(scene.regions, &stats);
    assert_int_equal(stats.hits, 5);
    assert_int_equal(stats.misses, 3);
    /* More than there may be, and what has no identity, end with their operations. */
    DEVICE_OK(get_with(&scene, CAPS, memory, 200001, &region));
    assert_int_equal(weft_device_regions_put(scene.regions, region), 0);
    scene_deregister(&scene, 0, region);
    assert_int_equal(weft_device_buffer_look(scene.world.devices, memory, 10, &buffer), 1);
    buffer.identity = 0;
    DEVICE_OK(weft_device_regions_get(scene.regions, WEFT_VERBS, CAPS, &buffer, &region));
    assert_int_equal(weft_device_regions_put(scene.regions, region), 0);
    scene_deregister(&scene, 0, region);
    /* What is in use stays, also when all that is not goes. */
    region = get(&scene, memory + 1000, 10);
    assert_int_equal(weft_device_regions_trim(scene.regions), 1);
    assert_int_equal(use(&scene, memory + 1000, 100000), 0);
    put(&scene, region);
    /* Each transport has its own. */
    assert_int_equal(weft_device_buffer_look(scene.world.devices, memory + 1000, 10, &buffer), 1);
    DEVICE_OK(weft_device_regions_get(scene.regions, WEFT_OFI, CAPS, &buffer, &region));
    put(&scene, region);
    assert_int_equal(scene.live, 2);
    weft_device_regions_forget(scene.regions, WEFT_VERBS);
    assert_int_equal(scene.live, 1);
    drop(&scene, memory);
    end(&scene);
}

/* --- ways */

static void refused(struct scene *scene, uint32_t caps, const void *memory, const char *text)
{
    struct weft_region *region = NULL;
    assert_int_equal(get_with(scene, caps, memory, 100, &region), WEFT_UNSUPPORTED);
    assert_null(region);
    if (!strstr(weft_error_detail(), text))
        fail_msg("'%s' is not in '%s'", text, weft_error_detail());
}

static void ways_in_their_order(const struct device_row *row)
{
    struct scene scene;
    begin(&scene, row, 1 << 30);
    char *memory = take(&scene, 1000);
    assert_int_equal(use(&scene, memory, 100), 1);
    assert_int_equal(scene.by_dmabuf, 1);
    assert_int_equal(fcntl(scene.last_fd, F_GETFD), -1); /* closed */
    weft_device_regions_trim(scene.regions);
    scene.refuse_dmabuf = WEFT_INVALID;
    assert_int_equal(use(&scene, memory, 100), 2); /* then by its pointer */
    assert_int_equal(scene.by_pointer, 1);
    assert_int_equal(fcntl(scene.last_fd, F_GETFD), -1);
    weft_device_regions_trim(scene.regions);
    scene.refuse_pointer = WEFT_TRANSPORT;
    refused(&scene, CAPS, memory, "as a dma-buf: no such dma-buf; by its pointer: no such pointer");
    assert_int_equal(scene.by_dmabuf + scene.by_pointer, 5);
    refused(&scene, CAPS, memory, "as was found before");
    assert_int_equal(scene.by_dmabuf + scene.by_pointer, 5);
    expect_kept(&scene, 1, 0);
    drop(&scene, memory);
    memory = take(&scene, 1000); /* other memory may be taken */
    refused(&scene, WEFT_CAP_DEVICE_POINTER, memory,
            "the transport takes none here; by its pointer: no such");
    weft_device_regions_trim(scene.regions);
    refused(&scene, 0, memory, "as a dma-buf: the transport takes none here; by its pointer: the transport");
    assert_int_equal(scene.by_dmabuf, 3);
    assert_int_equal(scene.by_pointer, 3);
    drop(&scene, memory);
    end(&scene);
}

/* Where memory for registrations has run out, what nobody uses goes, and nothing is concluded from it. */
static void room_runs_out(const struct device_row *row)
{
    struct scene scene;
    begin(&scene, row, 1 << 30);
    char *memory = take(&scene, 1000);
    assert_int_equal(use(&scene, memory, 100), 1);
    scene.refuse_dmabuf = scene.refuse_pointer = WEFT_NOMEM;
    refused(&scene, CAPS, memory + 500, "no such dma-buf");
    assert_int_equal(scene.live, 0);
    assert_int_equal(scene.by_dmabuf, 3); /* once more after that */
    scene.refuse_dmabuf = 0;
    assert_int_equal(use(&scene, memory + 500, 100), 1);
    drop(&scene, memory);
    end(&scene);
}

/* Without memory for an entry the region serves its operation alone. */
static void no_memory(const struct device_row *row)
{
    struct scene scene;
    struct weft_region *region;
    begin(&scene, row, 1 << 30);
    struct weft_device_regions_options options = {.bytes_max = 1};
    struct weft_device_regions *none = NULL;
    calloc_fails = 1;
    assert_int_equal(weft_device_regions_open(&options, &none), WEFT_NOMEM);
    assert_null(none);
    char *memory = take(&scene, 1000);
    scene.fail_behind = 1;
    DEVICE_OK(get_with(&scene, CAPS, memory, 100, &region));
    assert_int_equal(calloc_fails, 0);
    assert_int_equal(weft_device_regions_put(scene.regions, region), 0);
    scene_deregister(&scene, 0, region);
    expect_kept(&scene, 0, 0);
    scene.fail_behind = 0;
    assert_int_equal(use(&scene, memory, 100), 1);
    drop(&scene, memory);
    end(&scene);
}

static void other_memory(const struct device_row *row)
{
    struct scene scene;
    struct weft_device_buffer buffer;
    begin(&scene, row, 1 << 30);
    void *pinned = device_allocate(&scene.world, -1, WEFT_MEMORY_PINNED, 100);
    assert_int_equal(weft_device_buffer_look(scene.world.devices, pinned, 100, &buffer), 0);
    assert_int_equal(weft_device_buffer_look(scene.world.devices, target, BYTES, &buffer), 0);
    drop(&scene, pinned);
    if (row->managed) {
        void *managed = device_allocate(&scene.world, 0, WEFT_MEMORY_MANAGED, 100);
        assert_int_equal(weft_device_buffer_look(scene.world.devices, managed, 100, &buffer),
                         WEFT_UNSUPPORTED);
        assert_non_null(strstr(weft_error_detail(), "managed memory moves"));
        drop(&scene, managed);
    }
    end(&scene);
}

static void need_cuda(void)
{
    const char *reason = cuda_absent();
    if (!reason)
        return;
    print_message("SKIP: %s\n", reason);
    skip();
}

#define EACH(name)                                                                                           \
    static void name##_sim(void **state)                                                                     \
    {                                                                                                        \
        (void)state;                                                                                         \
        name(SIM);                                                                                           \
    }                                                                                                        \
    static void name##_cuda(void **state)                                                                    \
    {                                                                                                        \
        (void)state;                                                                                         \
        need_cuda();                                                                                         \
        name(CUDA);                                                                                          \
    }

EACH(memory_that_comes_again)
EACH(memory_that_goes_in_use)
EACH(memory_that_is_gone)
EACH(what_is_kept)
EACH(ways_in_their_order)
EACH(room_runs_out)
EACH(no_memory)
EACH(other_memory)

/* --- memory that was mapped piece by piece */

#define MIB SCENE_BYTES

static CUhandle piece_map(CUdeviceptr at)
{
    CUhandle piece;
    assert_int_equal(scene_block_make(&piece, SCENE_MAPPED, 0), 0);
    assert_int_equal(CU(cuMemMap)(at, MIB, 0, piece, 0), 0);
    return piece;
}

static void piece_unmap(CUdeviceptr at, CUhandle piece)
{
    assert_int_equal(CU(cuMemUnmap)(at, MIB), 0);
    assert_int_equal(CU(cuMemRelease)(piece), 0);
}

static void memory_in_pieces(void **state)
{
    struct scene scene;
    CUdeviceptr range;
    struct weft_device_buffer buffer;
    CUcontext context;
    (void)state;
    need_cuda();
    begin(&scene, CUDA, 1 << 30);
    assert_int_equal(scene_enter(0, &context), 0);
    assert_int_equal(CU(cuMemAddressReserve)(&range, 3 * MIB, 0, 0, 0), 0);
    CUhandle first = piece_map(range), second = piece_map(range + MIB);
    char *memory = (char *)(uintptr_t)range;
    assert_int_equal(use(&scene, memory + 100, 2 * MIB - 200), 1);
    assert_int_equal(use(&scene, memory + 100, 2 * MIB - 200), 0);
    assert_int_equal(use(&scene, memory + 200, 1000), 0); /* of one piece */
    assert_int_equal(use(&scene, memory + MIB - 10, 20), 0);
    assert_int_equal(weft_device_buffer_look(scene.world.devices, memory, 2 * MIB + 1, &buffer),
                     WEFT_UNSUPPORTED);
    assert_non_null(strstr(weft_error_detail(), "not all of it is memory of one device"));
    /* Another second piece makes other memory of it all; the first one is what it was. */
    piece_unmap(range + MIB, second);
    second = piece_map(range + MIB);
    assert_int_equal(use(&scene, memory + 200, 1000), 1);
    assert_int_equal(use(&scene, memory + 100, 2 * MIB - 200), 1);
    expect_kept(&scene, 2, 2 * MIB - 200 + 1000);
    piece_unmap(range, first);
    piece_unmap(range + MIB, second);
    CU(cuMemAddressFree)(range, 3 * MIB);
    assert_int_equal(scene_leave(0, context), 0);
    end(&scene);
}

#define NODES(name) cmocka_unit_test_setup_teardown(name, verbs_nodes_setup, verbs_nodes_teardown)
#define BOTH(name)  NODES(name##_sim), NODES(name##_cuda)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(memory_that_comes_again),
        BOTH(memory_that_goes_in_use),
        BOTH(memory_that_is_gone),
        BOTH(what_is_kept),
        BOTH(ways_in_their_order),
        BOTH(room_runs_out),
        BOTH(no_memory),
        BOTH(other_memory),
        NODES(memory_in_pieces),
    };
    setenv("WEFT_LOG", "error", 0);
    return cmocka_run_group_tests_name("registrations of devices' memory", tests, NULL, NULL);
}
