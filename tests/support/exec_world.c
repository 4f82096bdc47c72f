/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/loop/loop.h"
#include "tests/support/exec_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "comm/exec/device/ops.h"
#include "tests/support/exec_liar.h"
#include "tests/support/exec_region.h"
#include "transport/registry.h"

#define BUFFERS_MAX 256
#define OOBS_MAX    64

struct world_rank {
    struct exec_world *world;
    struct weft_transport *transport;
    uint8_t address[WEFT_ADDRESS_MAX];
    size_t address_size;
    struct weft_exec *exec;
    struct weft_shares *shares; /* NULL: none */
    int stopped;                /* what the executor has stopped for, 0: it has not */
    char words[WEFT_DETAIL_MAX];
    struct weft_plan *plans[WEFT_ALGO_COUNT][2];
    struct {
        void *memory;
        size_t size;
        int used;
        const struct weft_device_kind *kind; /* that it is pinned for, or NULL */
        int is_ordinary;                     /* the transport allocates none */
        struct weft_region *region;          /* of a transport that registers by itself */
    } buffers[BUFFERS_MAX];
};

/* On its way between ranks of a transport that makes its links by out-of-band messages. */
struct oob {
    uint32_t from, to;
    size_t size;
    uint8_t bytes[WEFT_OOB_MAX];
};

struct exec_world {
    uint32_t regions, oob_count;
    struct oob oobs[OOBS_MAX];
    struct exec_world_options options;
    struct weft_transport_ops ops;
    uint32_t random;
    struct weft_exec_op **running;
    struct weft_exec_request *requests;
    struct world_rank ranks[];
};

static int connect_rank(void *arg, uint32_t rank, struct weft_exec_peer *peer)
{
    struct world_rank *self = arg;
    struct exec_world *world = self->world;
    struct weft_link *link;
    int status = world->ops.connect(self->transport, world->ranks[rank].address,
                                    world->ranks[rank].address_size, NULL, &link);
    if (status != WEFT_OK)
        return status;
    struct weft_transport_caps caps = {.size = sizeof caps};
    world->ops.caps(self->transport, &caps);
    uint32_t eager = caps.eager_bytes - (uint32_t)sizeof(struct weft_wire_header);
    if (world->options.eager_bytes && world->options.eager_bytes < eager)
        eager = world->options.eager_bytes;
    uint64_t process = 0;
    if (world->options.sharing != EXEC_APART)
        status = weft_share_process(&process);
    *peer = (struct weft_exec_peer){
        .ops = &world->ops,
        .instance = self->transport,
        .link = link,
        .caps = caps.flags | (world->options.registers && !world->options.transport ? WEFT_CAP_DMABUF : 0),
        .eager_bytes = eager,
        .slice_bytes = world->options.slice_bytes ? world->options.slice_bytes : 65536,
        .put_bytes = caps.put_bytes,
        .stage_only = world->options.stage_only,
        .process = process,
    };
    return status;
}

static int sent_by(void *arg, uint32_t rank, const void *sender)
{
    struct world_rank *self = arg;
    const struct world_rank *other = &self->world->ranks[rank];
    return self->world->ops.sent_by(self->transport, sender, other->address, other->address_size);
}

static void *buffer_get(void *arg, uint32_t transport, size_t size, const struct weft_device_kind *kind)
{
    (void)transport;
    struct world_rank *self = arg;
    for (int i = 0; i < BUFFERS_MAX && !self->world->options.no_staging; i++) {
        if (!self->buffers[i].used && self->buffers[i].size == size && self->buffers[i].kind == kind) {
            self->buffers[i].used = 1;
            return self->buffers[i].memory;
        }
    }
    for (int i = 0; i < BUFFERS_MAX && !self->world->options.no_staging; i++) {
        void *memory;
        if (self->buffers[i].memory)
            continue;
        int is_ordinary = self->world->options.transport != NULL;
        memory = is_ordinary ? aligned_alloc(4096, (size + 4095) / 4096 * 4096) : NULL;
        if (is_ordinary ? !memory : self->world->ops.alloc(self->transport, size, &memory) != WEFT_OK)
            return NULL;
        if (kind && kind->ops.pin(kind->device, memory, size) != WEFT_OK) {
            if (is_ordinary)
                free(memory);
            else
                self->world->ops.free(self->transport, memory);
            return NULL;
        }
        self->buffers[i].is_ordinary = is_ordinary;
        self->buffers[i].memory = memory;
        self->buffers[i].size = size;
        self->buffers[i].used = 1;
        self->buffers[i].kind = kind;
        return memory;
    }
    return NULL;
}

static void buffer_put(void *arg, uint32_t transport, void *buffer, size_t size)
{
    (void)transport;
    (void)size;
    struct world_rank *self = arg;
    for (int i = 0; i < BUFFERS_MAX; i++) {
        if (self->buffers[i].memory == buffer)
            self->buffers[i].used = 0;
    }
}

static int register_dmabuf(struct world_rank *self, const void *memory, size_t size,
                           struct weft_region **region)
{
    const struct weft_device_kind *kind = self->world->options.registers;
    struct weft_device_memory what = {.size = sizeof what,
                                      .memory = (void *)(uintptr_t)memory,
                                      .bytes = size,
                                      .kind = kind->name,
                                      .flags = WEFT_SPAN_DMABUF};
    int status = kind->ops.export_dmabuf(kind->device, memory, size, &what.fd, &what.offset);
    if (status != WEFT_OK)
        return status;
    status = self->world->ops.reg_device(self->transport, &what, region);
    close(what.fd);
    return status;
}

/* The rank's staging buffer that has the memory, or NULL. */
static struct weft_region **buffer_region(struct world_rank *self, const void *memory, void **buffer,
                                          size_t *size)
{
    for (int i = 0; i < BUFFERS_MAX && self->buffers[i].memory; i++) {
        if ((uintptr_t)memory - (uintptr_t)self->buffers[i].memory >= self->buffers[i].size)
            continue;
        *buffer = self->buffers[i].memory;
        *size = self->buffers[i].size;
        return &self->buffers[i].region;
    }
    return NULL;
}

static int region_of_transport(struct world_rank *self, const void *memory, size_t size, int is_device,
                               struct weft_region **made)
{
    void *buffer = (void *)(uintptr_t)memory;
    struct weft_region **kept = buffer_region(self, memory, &buffer, &size);
    int status = WEFT_OK;
    if (is_device)
        status = register_dmabuf(self, memory, size, made);
    else if (!kept)
        status = self->world->ops.reg(self->transport, buffer, size, made);
    else if (!*kept)
        status = self->world->ops.reg(self->transport, buffer, size, kept);
    self->world->regions += !kept && status == WEFT_OK;
    if (kept)
        *made = *kept;
    return status;
}

static int region_get(void *arg, uint32_t transport, const void *memory, size_t size,
                      struct weft_region **made)
{
    struct world_rank *self = arg;
    struct exec_world *world = self->world;
    const struct weft_device_kind *kind = world->options.registers;
    struct weft_device_span span = {.size = sizeof span};
    (void)transport;
    if (!kind) {
        *made = NULL;
        return WEFT_OK;
    }
    int is_device =
        kind->ops.identify(kind->device, memory, &span) == WEFT_OK && span.kind == WEFT_MEMORY_DEVICE;
    if (is_device && world->options.refuses >> (self - world->ranks) & 1)
        return weft_fail(WEFT_UNSUPPORTED, "the test refuses this rank");
    if (world->options.transport)
        return region_of_transport(self, memory, size, is_device, made);
    struct weft_region *region = calloc(1, sizeof *region);
    if (!region)
        return weft_fail(WEFT_NOMEM, "no memory for a region");
    region->memory = memory;
    region->seen = (uint8_t *)(uintptr_t)memory;
    int status = is_device ? exec_region_map(kind, memory, size, region) : WEFT_OK;
    if (status != WEFT_OK) {
        free(region);
        return status;
    }
    world->regions++;
    *made = region;
    return WEFT_OK;
}

static void region_put(void *arg, uint32_t transport, struct weft_region *region)
{
    struct world_rank *self = arg;
    (void)transport;
    if (!region)
        return;
    for (int i = 0; i < BUFFERS_MAX; i++) {
        if (self->buffers[i].region == region)
            return;
    }
    self->world->regions--;
    if (self->world->options.transport) {
        self->world->ops.dereg(region);
        return;
    }
    exec_region_free(region);
}

static void stopped(void *arg, int status, const char *words)
{
    struct world_rank *self = arg;
    self->stopped = status;
    snprintf(self->words, sizeof self->words, "%s", words);
}

static struct weft_shares *shares_of(void *arg)
{
    struct world_rank *self = arg;
    return self->shares;
}

static void handle_event(void *arg, const struct weft_event *event)
{
    struct world_rank *self = arg;
    if (event->kind == WEFT_EVENT_MESSAGE)
        weft_exec_message(self->exec, event->sender, event->data, event->data_size);
    else if (event->kind == WEFT_EVENT_PUT_DONE || event->kind == WEFT_EVENT_FILLED)
        weft_exec_io_done(self->exec, event->cookie, event->status);
}

static int oob_send(void *arg, const void *address, size_t address_size, const void *bytes, size_t size)
{
    struct world_rank *self = arg;
    struct exec_world *world = self->world;
    for (uint32_t r = 0; r < world->options.ranks; r++) {
        if (world->ranks[r].address_size != address_size ||
            memcmp(world->ranks[r].address, address, address_size) != 0)
            continue;
        if (world->oob_count == OOBS_MAX)
            return WEFT_AGAIN;
        struct oob *oob = &world->oobs[world->oob_count++];
        *oob = (struct oob){.from = (uint32_t)(self - world->ranks), .to = r, .size = size};
        memcpy(oob->bytes, bytes, size);
        return WEFT_OK;
    }
    return WEFT_PEER_FAILED;
}

/* More may be written meanwhile. */
static void hand_over(struct exec_world *world)
{
    while (world->oob_count) {
        struct oob oob = world->oobs[0];
        const struct world_rank *from = &world->ranks[oob.from];
        memmove(world->oobs, world->oobs + 1, --world->oob_count * sizeof *world->oobs);
        world->ops.oob_receive(world->ranks[oob.to].transport, from->address, from->address_size, oob.bytes,
                               oob.size);
    }
}

static int open_rank(struct exec_world *world, uint32_t rank)
{
    struct world_rank *self = &world->ranks[rank];
    self->world = world;
    struct weft_transport_params params = {.size = sizeof params,
                                           .provider = world->options.mode,
                                           .fail = weft_fail,
                                           .oob_send = world->options.transport ? oob_send : NULL,
                                           .oob_arg = self};
    int status = world->ops.open(&params, &self->transport);
    if (status != WEFT_OK)
        return status;
    self->address_size = sizeof self->address;
    status = world->ops.address(self->transport, self->address, &self->address_size);
    if (status != WEFT_OK)
        return status;
    struct weft_exec_options options = {
        .id = 1,
        .rank = rank,
        .ranks = world->options.ranks,
        .devices = &weft_exec_devices,
        .window = world->options.window,
        .first_sequence = world->options.first_sequence,
        .collectives = world->options.collectives,
        .hooks = {.arg = self,
                  .comm = self,
                  .connect = connect_rank,
                  .sent_by = sent_by,
                  .stopped = stopped,
                  .buffer_get = buffer_get,
                  .buffer_put = buffer_put,
                  .region_get = region_get,
                  .region_put = region_put,
                  .shares = shares_of},
    };
    if (world->options.sharing == EXEC_TOGETHER || (world->options.sharing == EXEC_ONE_WAY && rank % 2 == 0))
        status = weft_shares_open(NULL, &self->shares);
    return status != WEFT_OK ? status : weft_exec_create(&options, &self->exec);
}

static int put_late(struct weft_link *link, const struct weft_token *token, struct weft_region *region,
                    const void *memory, size_t size, uint64_t cookie)
{
    (void)link, (void)token, (void)region, (void)memory, (void)size, (void)cookie;
    return weft_fail(WEFT_CANCELLED, "the peer has taken it back");
}

int exec_world_open(const struct exec_world_options *options, struct exec_world **opened)
{
    struct exec_world *world = calloc(1, sizeof *world + options->ranks * sizeof world->ranks[0]);
    if (!world)
        return weft_fail(WEFT_NOMEM, "no memory for a world");
    world->options = *options;
    world->random = options->seed;
    world->running = calloc(options->ranks, sizeof *world->running);
    world->requests = calloc(options->ranks, sizeof *world->requests);
    int status =
        weft_transport_complete(loop_find(options->transport ? options->transport : "loop"), &world->ops);
    if (options->registers && !options->transport) {
        world->ops.advertise = exec_region_advertise;
        world->ops.put = exec_region_put;
    }
    if (options->puts_are_late)
        world->ops.put = put_late;
    exec_liar_spoil(options, &world->ops);
    for (uint32_t r = 0; status == WEFT_OK && r < options->ranks; r++)
        status = open_rank(world, r);
    if (status != WEFT_OK) {
        exec_world_close(world);
        return status;
    }
    *opened = world;
    return WEFT_OK;
}

void exec_world_close(struct exec_world *world)
{
    if (!world)
        return;
    for (uint32_t r = 0; r < world->options.ranks; r++) {
        struct world_rank *self = &world->ranks[r];
        weft_exec_destroy(self->exec);
        weft_shares_close(self->shares);
        for (int i = 0; i < BUFFERS_MAX; i++) {
            const struct weft_device_kind *kind = self->buffers[i].kind;
            if (kind)
                kind->ops.unpin(kind->device, self->buffers[i].memory, self->buffers[i].size);
            if (self->buffers[i].region)
                world->ops.dereg(self->buffers[i].region);
            if (self->buffers[i].is_ordinary)
                free(self->buffers[i].memory);
            else if (self->buffers[i].memory)
                world->ops.free(self->transport, self->buffers[i].memory);
        }
        for (int a = 0; a < WEFT_ALGO_COUNT; a++) {
            weft_plan_free(self->plans[a][0]);
            weft_plan_free(self->plans[a][1]);
        }
    }
    for (uint32_t r = 0; r < world->options.ranks; r++) {
        if (world->ranks[r].transport)
            world->ops.close(world->ranks[r].transport);
    }
    free(world->running);
    free(world->requests);
    free(world);
}

struct weft_exec *exec_world_rank(struct exec_world *world, uint32_t rank)
{
    return world->ranks[rank].exec;
}

const char *exec_world_failure(const struct exec_world *world, uint32_t rank, int *status)
{
    *status = world->ranks[rank].stopped;
    return *status == WEFT_OK ? NULL : world->ranks[rank].words;
}

struct weft_exec_stats exec_world_sum(const struct exec_world *world)
{
    struct weft_exec_stats sum = {0};
    for (uint32_t r = 0; r < world->options.ranks; r++) {
        const struct weft_exec_stats *of = weft_exec_get_stats(world->ranks[r].exec);
        sum.bytes_direct += of->bytes_direct;
        sum.bytes_staged += of->bytes_staged;
        sum.bytes_eager += of->bytes_eager;
        sum.collectives += of->collectives;
    }
    return sum;
}

uint32_t exec_world_regions(const struct exec_world *world)
{
    return world->regions;
}

static uint32_t next_rank(struct exec_world *world, uint32_t turn)
{
    if (!world->random)
        return turn;
    world->random = world->random * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)world->random * world->options.ranks >> 32);
}

int exec_world_turn(struct exec_world *world)
{
    int happened = world->oob_count != 0;
    hand_over(world);
    for (uint32_t i = 0; i < world->options.ranks; i++) {
        struct world_rank *self = &world->ranks[next_rank(world, i)];
        int events = world->ops.poll(self->transport, 64, handle_event, self);
        happened += events > 0 ? events : 0;
        happened += weft_exec_progress(self->exec);
        if (self->stopped) /* as a communicator that has heard no other reason */
            weft_exec_fail(self->exec, self->stopped);
    }
    return happened;
}

static int cached_plan(struct exec_world *world, uint32_t rank, enum weft_algorithm algorithm, int in_place,
                       const struct weft_plan **found)
{
    struct weft_plan **plan = &world->ranks[rank].plans[algorithm][in_place];
    int status = WEFT_OK;
    if (!*plan) {
        struct weft_plan_request wanted = {
            WEFT_ALLREDUCE, algorithm, world->options.ranks, rank, in_place, -1, 0, 0, world->options.hosts};
        status = weft_plan_make(&wanted, plan);
    }
    *found = *plan;
    return status;
}

static int has_command_queues(const struct exec_world *world)
{
    for (uint32_t r = 0; r < world->options.ranks; r++) {
        if (weft_exec_is_blocked(world->ranks[r].exec))
            return 1;
    }
    return 0;
}

/* Until all have ended or nothing moves any more. */
static int drive(struct exec_world *world)
{
    uint32_t ranks = world->options.ranks;
    for (int idle = 0; idle < 10000;) {
        uint32_t done = 0;
        for (uint32_t r = 0; r < ranks; r++) {
            int now = weft_exec_op_status(world->running[r]);
            done += now == WEFT_OK;
            if (now != WEFT_OK && now != WEFT_AGAIN)
                return now;
        }
        if (done == ranks)
            return WEFT_OK;
        idle = exec_world_turn(world) ? 0 : idle + 1;
        if (idle > 100 && has_command_queues(world)) /* a device takes its time */
            usleep(20);
    }
    return weft_fail(WEFT_TIMEOUT, "nothing moves any more");
}

int exec_world_run(struct exec_world *world, const struct weft_exec_request *requests)
{
    uint32_t ranks = world->options.ranks;
    int status = WEFT_OK;
    for (uint32_t r = 0; r < ranks; r++) {
        world->running[r] = NULL;
        int started = weft_exec_start(world->ranks[r].exec, &requests[r], &world->running[r]);
        status = status == WEFT_OK ? started : status;
        if (world->random)
            exec_world_turn(world);
    }
    if (status == WEFT_OK)
        status = drive(world);
    for (uint32_t r = 0; r < ranks; r++) {
        if (world->running[r])
            weft_exec_op_free(world->running[r]);
    }
    return status;
}

int exec_world_allreduce(struct exec_world *world, enum weft_algorithm algorithm, int in_place,
                         void *const *inputs, void *const *outputs, size_t count, weft_dtype dtype,
                         weft_op op)
{
    const struct weft_call call = {.sequence = 1,
                                   .count = count,
                                   .root = -1,
                                   .collective = WEFT_ALLREDUCE,
                                   .algorithm = (uint8_t)algorithm,
                                   .dtype = (uint8_t)dtype,
                                   .op = (uint8_t)op};
    for (uint32_t r = 0; r < world->options.ranks; r++) {
        struct weft_exec_request *request = &world->requests[r];
        *request = (struct weft_exec_request){
            .input = inputs[r],
            .output = outputs[r],
            .count = count,
            .element_bytes = weft_dtype_size(dtype),
            .reduce = weft_reduce_find(dtype, op),
            .finish = op == WEFT_AVG ? world->options.ranks : 0,
            .digest = weft_call_digest(&call),
            .call = call,
        };
        int status = cached_plan(world, r, algorithm, in_place, &request->plan);
        if (status != WEFT_OK)
            return status;
    }
    return exec_world_run(world, world->requests);
}

void exec_world_paint_staging(struct exec_world *world, uint8_t value)
{
    for (uint32_t r = 0; r < world->options.ranks; r++) {
        for (int i = 0; i < BUFFERS_MAX; i++) {
            if (world->ranks[r].buffers[i].memory)
                memset(world->ranks[r].buffers[i].memory, value, world->ranks[r].buffers[i].size);
        }
    }
}

size_t exec_world_painted_away(struct exec_world *world, uint8_t value)
{
    size_t differ = 0;
    for (uint32_t r = 0; r < world->options.ranks; r++) {
        for (int i = 0; i < BUFFERS_MAX; i++) {
            const uint8_t *memory = world->ranks[r].buffers[i].memory;
            for (size_t b = 0; memory && b < world->ranks[r].buffers[i].size; b++)
                differ += memory[b] != value;
        }
    }
    return differ;
}

int exec_world_staged(const struct exec_world *world)
{
    int used = 0;
    for (uint32_t r = 0; r < world->options.ranks; r++) {
        for (int i = 0; i < BUFFERS_MAX; i++)
            used += world->ranks[r].buffers[i].memory && world->ranks[r].buffers[i].used;
    }
    return used;
}
