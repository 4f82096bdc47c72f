/* SPDX-License-Identifier: Apache-2.0 */
/* The exporter's side. Slots are looked up and changed with the lock; guests are the thread's alone, until it has ended. The lock is not had
 * while the thread is waited for. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/fd_message.h"
#include "base/fork.h"
#include "base/limits.h"
#include "base/service.h"
#include "devmem/offer/wire.h"

#define RECOVERY_US 10000
#define GUESTS_MAX  64 /* the one that has been silent for longest makes room */

struct slot {
    struct weft_offer_memory memory; /* identity 0: free */
    uint32_t serial;
    int fd;
};

struct guest {
    struct desk *desk;
    int fd;
    struct guest *next;
};

struct desk {
    uint8_t key[WEFT_OFFER_KEY_BYTES];
    pid_t pid;                    /* whose it is: a forked child makes its own */
    struct weft_service *service; /* NULL: nobody can ask yet */
    int listen_fd;
    struct guest *guests; /* the newest first */
    int guest_count;
    struct slot slots[WEFT_OFFER_SLOTS];
};

static struct {
    pthread_mutex_t lock;
    int users;
    struct desk *desk; /* NULL: not made */
} here = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* --- the thread's */

static void guest_leave(struct guest *guest)
{
    struct desk *desk = guest->desk;
    struct guest **at = &desk->guests;
    while (*at != guest)
        at = &(*at)->next;
    *at = guest->next;
    desk->guest_count--;
    weft_service_unwatch(desk->service, guest->fd);
    weft_fd_close(guest->fd);
    free(guest);
}

/* Within the lock, so that nobody closes the descriptor meanwhile. Nothing here blocks. */
static void answer(struct desk *desk, int socket_fd, const struct offer_ask *ask)
{
    struct offer_answer answer = {.status = OFFER_GONE};
    int fd = -1;
    pthread_mutex_lock(&here.lock);
    if (ask->slot < WEFT_OFFER_SLOTS && desk->slots[ask->slot].memory.identity &&
        desk->slots[ask->slot].serial == ask->serial) {
        fd = desk->slots[ask->slot].fd;
        answer.status = OFFER_GIVEN;
    }
    if (fd >= 0 && !weft_fd_is_own(fd)) { /* the program has closed it */
        fd = -1;
        answer.status = OFFER_GONE;
    }
    offer_answer_prove(desk->key, ask, answer.status, answer.mac);
    weft_fd_message_send(socket_fd, &answer, sizeof answer, &fd, fd >= 0); /* who hears nothing says so */
    pthread_mutex_unlock(&here.lock);
}

/* One question, and that is all. */
static void guest_ready(void *arg, int socket_fd)
{
    struct guest *guest = arg;
    struct offer_ask ask;
    uint8_t mac[WEFT_MAC_BYTES];
    int fds[WEFT_FD_MESSAGE_FDS], is_cut;
    ssize_t got = weft_fd_message_receive(socket_fd, &ask, sizeof ask, fds, &is_cut);
    if (got < 0 && errno == EAGAIN)
        return;
    if (got == (ssize_t)sizeof ask && !is_cut && ask.magic == OFFER_MAGIC) {
        offer_ask_prove(guest->desk->key, &ask, mac);
        if (weft_crypto_equal(mac, ask.mac, sizeof mac))
            answer(guest->desk, socket_fd, &ask);
    }
    weft_fd_message_close(fds);
    guest_leave(guest);
}

static void guest_comes(void *arg, int listen_fd)
{
    struct desk *desk = arg;
    struct guest *last = desk->guests;
    if (!weft_fd_is_own(listen_fd))
        return;
    int fd = weft_fd_add(accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
    struct guest *guest = fd >= 0 ? malloc(sizeof *guest) : NULL;
    if (!guest) {
        weft_limits_note(errno);
        weft_fd_close(fd);
        usleep(RECOVERY_US); /* the listener stays readable: do not spin on it */
        return;
    }
    while (desk->guest_count == GUESTS_MAX && last->next)
        last = last->next;
    if (desk->guest_count == GUESTS_MAX)
        guest_leave(last);
    *guest = (struct guest){desk, fd, desk->guests};
    desk->guests = guest;
    desk->guest_count++;
    if (weft_service_watch(desk->service, fd, guest_ready, guest) != WEFT_OK)
        guest_leave(guest);
}

/* --- making it; with the lock */

static int make(const struct weft_device_params *params)
{
    if (here.desk && here.desk->pid == getpid())
        return WEFT_OK;
    if (weft_crypto_init() != WEFT_OK)
        return params->fail(WEFT_SYSTEM, "%s",
                            "no randomness for the key by which device memory is handed out");
    struct desk *desk = calloc(1, sizeof *desk);
    if (!desk)
        return params->fail(WEFT_NOMEM, "no memory to hand out device memory");
    weft_crypto_random(desk->key, sizeof desk->key);
    desk->pid = getpid();
    desk->listen_fd = -1;
    here.desk = desk; /* a parent's stays as it is: its thread is not here */
    return WEFT_OK;
}

static int fail_start(const struct weft_device_params *params, int error)
{
    return params->fail(WEFT_SYSTEM, "making a socket where device memory is handed out: %s",
                        weft_errno_text(error));
}

static int start(const struct weft_device_params *params, struct desk *desk)
{
    struct sockaddr_un name;
    const int length = offer_socket_name(desk->key, &name);
    int fd = weft_fd_add(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd < 0)
        return fail_start(params, errno);
    int status = WEFT_OK;
    if (bind(fd, (struct sockaddr *)&name, (socklen_t)length) || listen(fd, SOMAXCONN))
        status = fail_start(params, errno);
    if (status == WEFT_OK && weft_service_start("weft-offers", &desk->service) != WEFT_OK)
        status = fail_start(params, EAGAIN);
    if (status == WEFT_OK && weft_service_watch(desk->service, fd, guest_comes, desk) != WEFT_OK) {
        status = fail_start(params, EMFILE);
        weft_service_stop(desk->service);
        desk->service = NULL;
    }
    if (status != WEFT_OK) {
        weft_fd_close(fd);
        return status;
    }
    desk->listen_fd = fd;
    return WEFT_OK;
}

static void take_down(struct slot *slot)
{
    weft_fd_close(slot->fd);
    slot->memory.identity = 0;
}

static void sign(const struct desk *desk, struct weft_offer *offer)
{
    memcpy(offer->key, desk->key, sizeof offer->key);
    offer->pid = (int32_t)desk->pid;
}

/* --- called by kinds */

void weft_offer_open(void)
{
    if (weft_fork_is_child()) /* the lock may be a thread's that is not here */
        return;
    pthread_mutex_lock(&here.lock);
    here.users++;
    pthread_mutex_unlock(&here.lock);
}

void weft_offer_close(void)
{
    struct desk *desk = NULL;
    if (weft_fork_is_child())
        return;
    pthread_mutex_lock(&here.lock);
    if (--here.users == 0) {
        desk = here.desk;
        here.desk = NULL;
    }
    pthread_mutex_unlock(&here.lock);
    if (!desk || desk->pid != getpid())
        return;
    weft_service_stop(desk->service);
    weft_fd_close(desk->listen_fd);
    while (desk->guests) {
        struct guest *guest = desk->guests;
        desk->guests = guest->next;
        weft_fd_close(guest->fd);
        free(guest);
    }
    for (uint32_t i = 0; i < WEFT_OFFER_SLOTS; i++) {
        if (desk->slots[i].memory.identity)
            take_down(&desk->slots[i]);
    }
    weft_crypto_wipe(desk->key, sizeof desk->key);
    free(desk);
}

int weft_offer_sign(const struct weft_device_params *params, struct weft_offer *offer)
{
    pthread_mutex_lock(&here.lock);
    int status = make(params);
    if (status == WEFT_OK)
        sign(here.desk, offer);
    pthread_mutex_unlock(&here.lock);
    return status;
}

int weft_offer_is_mine(const struct weft_offer *offer)
{
    pthread_mutex_lock(&here.lock);
    int is_mine =
        here.desk && here.desk->pid == getpid() && memcmp(here.desk->key, offer->key, sizeof offer->key) == 0;
    pthread_mutex_unlock(&here.lock);
    return is_mine;
}

/* Whether the slot has that memory. */
static int is_in(const struct slot *slot, const struct weft_offer_memory *memory)
{
    return slot->memory.identity && slot->memory.owner == memory->owner &&
           slot->memory.identity == memory->identity && slot->memory.base == memory->base;
}

static void give(const struct desk *desk, uint32_t place, struct weft_offer_memory *memory,
                 struct weft_offer *offer)
{
    *memory = desk->slots[place].memory;
    offer->slot = (uint16_t)place;
    offer->serial = desk->slots[place].serial;
}

int weft_offer_find(struct weft_offer_memory *memory, weft_offer_is_current *is_current, void *arg,
                    struct weft_offer *offer)
{
    int found = 0;
    pthread_mutex_lock(&here.lock);
    struct desk *desk = here.desk && here.desk->pid == getpid() ? here.desk : NULL;
    for (uint32_t i = 0; desk && i < WEFT_OFFER_SLOTS; i++) {
        struct slot *slot = &desk->slots[i];
        if (!slot->memory.identity || slot->memory.owner != memory->owner)
            continue;
        if (is_in(slot, memory)) {
            give(desk, i, memory, offer);
            found = 1;
        } else if (!is_current(arg, &slot->memory)) {
            take_down(slot);
        }
    }
    pthread_mutex_unlock(&here.lock);
    return found;
}

/* Where it is, or the first that is free. */
static uint32_t place_for(const struct slot *slots, const struct weft_offer_memory *memory)
{
    uint32_t unused = WEFT_OFFER_SLOTS;
    for (uint32_t i = 0; i < WEFT_OFFER_SLOTS; i++) {
        if (is_in(&slots[i], memory))
            return i;
        if (unused == WEFT_OFFER_SLOTS && !slots[i].memory.identity)
            unused = i;
    }
    return unused;
}

/* With the lock. */
static int put(const struct weft_device_params *params, struct weft_offer_memory *memory, int fd,
               struct weft_offer *offer)
{
    int status = make(params);
    if (status == WEFT_OK && !here.desk->service)
        status = start(params, here.desk);
    if (status != WEFT_OK) {
        weft_fd_close(fd);
        return status;
    }
    struct slot *slots = here.desk->slots;
    const uint32_t place = place_for(slots, memory);
    if (place == WEFT_OFFER_SLOTS || slots[place].memory.identity)
        weft_fd_close(fd);
    else
        slots[place] = (struct slot){*memory, slots[place].serial + 1, fd};
    if (place == WEFT_OFFER_SLOTS)
        return params->fail(WEFT_NOMEM,
                            "%d spans of device memory are exported by descriptor, and no more can be",
                            WEFT_OFFER_SLOTS);
    sign(here.desk, offer);
    give(here.desk, place, memory, offer);
    return WEFT_OK;
}

int weft_offer_put(const struct weft_device_params *params, struct weft_offer_memory *memory, int fd,
                   struct weft_offer *offer)
{
    pthread_mutex_lock(&here.lock);
    int status = put(params, memory, fd, offer);
    pthread_mutex_unlock(&here.lock);
    return status;
}
