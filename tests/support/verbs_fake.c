/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/verbs_fake.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/transport.h>
#include "tests/fakes/loop/loop.h"

#define INSTANCES_MAX 64
#define LINKS_MAX     64

struct fake_address {
    uint8_t loop[32];
    uint64_t fabric;
};

struct instance {
    struct weft_transport *transport;
    struct fake_address address;
    void *oob_arg;
    int (*oob_send)(void *oob_arg, const void *address, size_t address_size, const void *oob, size_t size);
    struct weft_link *links[LINKS_MAX]; /* and their contexts */
    void *contexts[LINKS_MAX];
    int link_count;
    char devices[320]; /* that it was asked for */
    atomic_int cut;    /* its links are broken, and it has heard of it */
};

_Thread_local char verbs_fake_devices[320];
atomic_int verbs_fake_opened, verbs_fake_oob, verbs_fake_cut;

static _Thread_local struct verbs_fake next;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct instance instances[INSTANCES_MAX];
static int instance_count, lossy;

void verbs_fake_set(const struct verbs_fake *fake)
{
    next = *fake;
}

void verbs_fake_reset(int is_lossy)
{
    memset(instances, 0, sizeof instances);
    instance_count = 0;
    lossy = is_lossy;
    verbs_fake_opened = verbs_fake_oob = verbs_fake_cut = 0;
}

static struct instance *instance_of(const struct weft_transport *transport)
{
    struct instance *found = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < instance_count; i++) {
        if (instances[i].transport == transport)
            found = &instances[i];
    }
    pthread_mutex_unlock(&lock);
    if (!found)
        abort();
    return found;
}

/* The whole address of a loop address. */
static int find_address(const void *loop, struct fake_address *address)
{
    int found = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < instance_count && !found; i++) {
        found = memcmp(instances[i].address.loop, loop, sizeof address->loop) == 0;
        *address = instances[i].address;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static int fake_oob_send(void *arg, const void *address, size_t address_size, const void *oob, size_t size)
{
    const struct instance *own = arg;
    struct fake_address whole;
    if (address_size != sizeof whole.loop || !find_address(address, &whole))
        return WEFT_PEER_FAILED;
    int number = atomic_fetch_add(&verbs_fake_oob, 1);
    return lossy && number % 3 == 0 ? WEFT_OK : own->oob_send(own->oob_arg, &whole, sizeof whole, oob, size);
}

static struct instance *new_instance(const struct weft_transport_params *params)
{
    pthread_mutex_lock(&lock);
    if (instance_count == INSTANCES_MAX)
        abort();
    struct instance *own = &instances[instance_count++];
    *own = (struct instance){.oob_arg = params->oob_arg, .oob_send = params->oob_send};
    pthread_mutex_unlock(&lock);
    return own;
}

static int fake_open(const struct weft_transport_params *params, struct weft_transport **opened)
{
    snprintf(verbs_fake_devices, sizeof verbs_fake_devices, "%s", params->devices ? params->devices : "");
    if (next.status != WEFT_OK)
        return params->fail(next.status, VERBS_FAKE_MISSING);
    if (next.missing && strstr(verbs_fake_devices, next.missing))
        return params->fail(WEFT_NOT_FOUND, "verbs: cannot open %s", next.missing);
    struct weft_transport *transport;
    struct instance *own = new_instance(params);
    struct weft_transport_params inner = *params;
    inner.provider = "put:oob";
    inner.oob_arg = own;
    inner.oob_send = fake_oob_send;
    int status = weft_loop_ops.open(&inner, &transport);
    if (status != WEFT_OK)
        return status;
    struct fake_address address = {.fabric = next.fabric};
    size_t size = sizeof address.loop;
    status = weft_loop_ops.address(transport, address.loop, &size);
    pthread_mutex_lock(&lock);
    own->address = address;
    memcpy(own->devices, verbs_fake_devices, sizeof own->devices);
    own->transport = transport;
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&verbs_fake_opened, 1);
    *opened = transport;
    return status;
}

static int fake_address(struct weft_transport *transport, void *address, size_t *size)
{
    const struct instance *own = instance_of(transport);
    if (*size < sizeof own->address)
        return WEFT_INVALID;
    memcpy(address, &own->address, sizeof own->address);
    *size = sizeof own->address;
    return WEFT_OK;
}

static int fake_reachable(struct weft_transport *transport, const void *address, size_t size)
{
    struct fake_address theirs;
    if (size != sizeof theirs)
        return 0;
    memcpy(&theirs, address, sizeof theirs);
    return theirs.fabric == instance_of(transport)->address.fabric;
}

static int fake_connect(struct weft_transport *transport, const void *address, size_t size, void *context,
                        struct weft_link **link)
{
    struct instance *own = instance_of(transport);
    if (!fake_reachable(transport, address, size))
        abort(); /* the choice was wrong */
    int status = weft_loop_ops.connect(transport, address, sizeof own->address.loop, context, link);
    if (status == WEFT_OK && own->link_count < LINKS_MAX) {
        own->links[own->link_count] = *link;
        own->contexts[own->link_count++] = context;
    }
    return status;
}

static int fake_sent_by(struct weft_transport *transport, const void *sender, const void *address,
                        size_t size)
{
    return size == sizeof(struct fake_address) &&
           weft_loop_ops.sent_by(transport, sender, address, sizeof((struct fake_address *)0)->loop);
}

static void fake_oob_receive(struct weft_transport *transport, const void *from, size_t from_size,
                             const void *oob, size_t size)
{
    if (from_size != sizeof(struct fake_address))
        abort();
    weft_loop_ops.oob_receive(transport, from, sizeof((struct fake_address *)0)->loop, oob, size);
}

static int fake_poll(struct weft_transport *transport, int budget, weft_event_handler *handler, void *arg)
{
    struct instance *own = instance_of(transport);
    int cut = atomic_load(&verbs_fake_cut);
    if (cut && !own->cut && own->link_count && cut == (int)own->address.fabric) {
        own->cut = 1;
        struct weft_event event = {
            .kind = WEFT_EVENT_LINK_FAILED, .status = WEFT_PEER_FAILED, .link_context = own->contexts[0]};
        handler(arg, &event);
        return 1;
    }
    return weft_loop_ops.poll(transport, budget, handler, arg);
}

static const char *fake_why(struct weft_link *link)
{
    const char *why = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < instance_count; i++) {
        if (instances[i].cut && instances[i].links[0] == link)
            why = VERBS_FAKE_WHY;
    }
    pthread_mutex_unlock(&lock);
    return why;
}

/* A list as "mlx5_1:1,mlx5_3:1". */
static int asked_rails(const char *list, weft_rail *rails, int capacity)
{
    int count = 0, length;
    weft_rail info = {.size = sizeof info, .active = 1, .bytes_per_s = 50000000000};
    for (; sscanf(list, "%63[^:]:%d%n", info.device, &info.port, &length) == 2; list += length + 1) {
        if (count < capacity)
            memcpy(&rails[count], &info, rails[count].size < sizeof info ? rails[count].size : sizeof info);
        count++;
        if (!list[length])
            break;
    }
    return count;
}

static int fake_rails(struct weft_transport *transport, weft_rail *rails, int capacity)
{
    const char *asked = instance_of(transport)->devices;
    if (*asked)
        return asked_rails(asked, rails, capacity);
    static const weft_rail known[] = {
        {sizeof *known, "mlx5_0", 1, "InfiniBand", "fe80::1", 0, 4096, 1, 12500000000},
        {sizeof *known, "mlx5_1", 2, "Ethernet", "::ffff:10.0.0.1", 3, 1024, 0, 3125000000},
    };
    for (int i = 0; i < 2 && i < capacity; i++)
        memcpy(&rails[i], &known[i], rails[i].size < sizeof *known ? rails[i].size : sizeof *known);
    return 2;
}

const struct weft_transport_ops *verbs_fake_ops(void)
{
    static struct weft_transport_ops fake;
    pthread_mutex_lock(&lock);
    if (!fake.name) {
        fake = weft_loop_ops;
        fake.name = "verbs";
        fake.open = fake_open;
        fake.address = fake_address;
        fake.reachable = fake_reachable;
        fake.connect = fake_connect;
        fake.sent_by = fake_sent_by;
        fake.oob_receive = fake_oob_receive;
        fake.poll = fake_poll;
        fake.why = fake_why;
        fake.rails = fake_rails;
    }
    pthread_mutex_unlock(&lock);
    return &fake;
}
