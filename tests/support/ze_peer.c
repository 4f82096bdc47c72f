/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ze */
#include "tests/support/ze_peer.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "devmem/ze/handle.h"
#include "tests/support/bits.h"

static const struct weft_device_ops *const ops = &weft_ze_ops;

struct order {
    enum ze_peer_order what;
    int argument;
};

/* --- copies */

/* size bytes between the memory and pinned memory of the host; 0 on success. */
static int move(struct weft_device *device, void *to, const void *from, size_t size)
{
    struct weft_device_queue *queue;
    struct weft_device_event *event;
    int state;
    if (ops->queue_open(device, 0, &queue) != WEFT_OK)
        return 1;
    int status = ops->copy(queue, to, from, size);
    if (status == WEFT_OK)
        status = ops->mark(queue, &event);
    if (status == WEFT_OK) {
        while ((state = ops->test(event)) == 0)
            usleep(20);
        status = state < 0 ? state : WEFT_OK;
        ops->event_free(event);
    }
    ops->queue_close(queue);
    return status != WEFT_OK;
}

int ze_peer_fill(struct weft_device *device, void *memory, size_t size, int value)
{
    void *host;
    if (ops->allocate(device, -1, WEFT_MEMORY_PINNED, size, &host) != WEFT_OK)
        return 1;
    memset(host, value, size);
    int failed = move(device, memory, host, size);
    return ops->release(device, host) != WEFT_OK || failed;
}

int ze_peer_holds(struct weft_device *device, const void *memory, size_t size, int value)
{
    char *host;
    size_t same = 0;
    if (ops->allocate(device, -1, WEFT_MEMORY_PINNED, size, (void **)&host) != WEFT_OK)
        return 0;
    memset(host, ~value, size);
    if (move(device, host, memory, size) == 0) {
        while (same < size && host[same] == (char)value)
            same++;
    }
    ops->release(device, host);
    return same == size;
}

int ze_peer_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = -1; /* without the folder's own */
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

/* --- the peer's process */

struct party {
    struct weft_device *device;
    struct ze_fake *fake;
    void *memory;
    size_t size;
    int is_foreign; /* the memory is not of weft's allocating */
};

static int allocate(struct party *party, int is_foreign, int value)
{
    const ze_device_mem_alloc_desc_t plain = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    int status = ops->count(party->device) > 0 ? WEFT_OK : WEFT_NOT_FOUND;
    party->is_foreign = is_foreign;
    party->size = is_foreign ? (size_t)value : ZE_PEER_BYTES;
    if (status == WEFT_OK && is_foreign)
        status = party->device->driver.zeMemAllocDevice(party->device->places[0].context, &plain, party->size,
                                                        0, party->device->ordinals[0].device, &party->memory)
                     ? WEFT_NOMEM
                     : WEFT_OK;
    else if (status == WEFT_OK)
        status = ops->allocate(party->device, 0, WEFT_MEMORY_DEVICE, party->size, &party->memory);
    if (status != WEFT_OK)
        return status;
    return ze_peer_fill(party->device, party->memory, party->size, value & 0xff) ? WEFT_SYSTEM : WEFT_OK;
}

static int release(struct party *party)
{
    void *memory = party->memory;
    party->memory = NULL;
    if (!party->is_foreign)
        return ops->release(party->device, memory);
    return party->device->driver.zeMemFree(party->device->places[0].context, memory) ? WEFT_SYSTEM : WEFT_OK;
}

/* The file is sealed as those of the fake driver are where its length is right. */
static int lie(const struct party *party, int bytes, struct ze_peer_report *report)
{
    struct weft_device_params params = party->device->params;
    struct weft_offer_memory memory = {.owner = &params, .base = 1, .identity = 1 + (uint64_t)bytes};
    struct weft_offer offer = {.slot = 0};
    struct weft_ze_handle handle;
    int ends[2], fd = -1,
                 status = ops->export_ipc(party->device, party->memory, &report->handle, &report->offset);
    if (bytes == 0 && pipe(ends) == 0) {
        close(ends[1]);
        fd = ends[0];
    } else if (bytes) {
        fd = memfd_create("a-file", MFD_CLOEXEC);
        if (ftruncate(fd, bytes) != 0)
            return WEFT_SYSTEM;
    }
    if (status != WEFT_OK || weft_offer_put(&params, &memory, weft_fd_add(fd), &offer) != WEFT_OK)
        return WEFT_SYSTEM;
    memcpy(&handle, report->handle.bytes, sizeof handle);
    handle.offer = offer;
    handle.check = weft_ze_handle_check(&handle);
    memcpy(report->handle.bytes, &handle, sizeof handle);
    return WEFT_OK;
}

static void obey(struct party *party, const struct order *order, struct ze_peer_report *report)
{
    char *memory = party->memory;
    *ze_said = 0;
    switch (order->what) {
    case ZE_PEER_ALLOCATE:
    case ZE_PEER_ALLOCATE_BY:
        report->status = allocate(party, order->what == ZE_PEER_ALLOCATE_BY, order->argument);
        break;
    case ZE_PEER_FREE:
        report->status = release(party);
        break;
    case ZE_PEER_EXPORT:
        report->status =
            ops->export_ipc(party->device, memory + order->argument, &report->handle, &report->offset);
        break;
    case ZE_PEER_FIND:
        report->status =
            ze_peer_holds(party->device, memory, party->size, order->argument) ? WEFT_OK : WEFT_INVALID;
        break;
    case ZE_PEER_LIE:
        report->status = lie(party, order->argument, report);
        break;
    case ZE_PEER_END:
        break;
    }
    report->address = (uint64_t)(uintptr_t)party->memory;
    snprintf(report->text, sizeof report->text, "%s", ze_said);
}

__attribute__((noreturn)) static void serve(int in, int out, void (*set)(struct ze_fake *fake))
{
    struct party party = {.fake = ze_scene_load()};
    struct order order = {ZE_PEER_ALLOCATE, 0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!party.fake)
        _exit(10);
    party.fake->device_count = 2;
    if (set)
        set(party.fake);
    party.device = ze_scene_open();
    if (!party.device)
        _exit(11);
    while (order.what != ZE_PEER_END) {
        struct ze_peer_report report;
        memset(&report, 0, sizeof report);
        if (read(in, &order, sizeof order) != sizeof order)
            _exit(12);
        obey(&party, &order, &report);
        if (write(out, &report, sizeof report) != sizeof report)
            _exit(13);
    }
    if (party.memory && release(&party) != WEFT_OK)
        _exit(14);
    ops->close(party.device);
    if (party.fake->violations)
        fprintf(stderr, "the peer: %s\n", party.fake->first_violation);
    _exit(party.fake->violations || party.fake->contexts || party.fake->ipc_handles ? 15 : 0);
}

/* --- the test's */

int ze_peer_start(struct ze_peer *peer, void (*set)(struct ze_fake *fake))
{
    int there[2], back[2];
    memset(peer, 0, sizeof *peer);
    if (pipe2(there, O_CLOEXEC) != 0 || pipe2(back, O_CLOEXEC) != 0)
        return 1;
    peer->pid = fork();
    if (peer->pid < 0)
        return 1;
    if (peer->pid == 0) {
        close(there[1]);
        close(back[0]);
        serve(there[0], back[1], set);
    }
    close(there[0]);
    close(back[1]);
    peer->in = back[0];
    peer->out = there[1];
    return 0;
}

int ze_peer_do(struct ze_peer *peer, enum ze_peer_order what, int argument)
{
    struct order order = {what, argument};
    struct ze_peer_report report;
    if (write(peer->out, &order, sizeof order) != sizeof order ||
        read(peer->in, &report, sizeof report) != sizeof report)
        return WEFT_SYSTEM;
    if (what != ZE_PEER_EXPORT && what != ZE_PEER_LIE) {
        report.handle = peer->report.handle;
        report.offset = peer->report.offset;
    }
    peer->report = report;
    return report.status;
}

int ze_peer_end(struct ze_peer *peer)
{
    int status;
    if (ze_peer_do(peer, ZE_PEER_END, 0) != WEFT_OK || waitpid(peer->pid, &status, 0) != peer->pid)
        return 1;
    close(peer->in);
    close(peer->out);
    return status;
}
