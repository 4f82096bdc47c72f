/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors of device memory that other processes fetch.
 *
 * Drivers hand memory to other processes as a file descriptor, which has to be passed over a socket. An exporting process has
 * one desk for all kinds of devices: a socket in Linux's abstract namespace (unix(7)), a thread that answers there, and slots. A kind puts a
 * descriptor into a slot; the offer says where it is, and travels in the kind's handle. The importer asks the desk.
 *
 * The desk is known by 128 random bits, its key, which travel in offers alone. The socket's name is made of the key and does not give it
 * away. Whoever asks proves that it has the key, and so does the answer, by an HMAC over a number that the asker has just drawn: so nobody
 * gets a descriptor by the socket's name, and nobody who has taken a name that became free can pass off one of its own.
 *
 *     asks      u64 magic, 16 random bytes, u32 slot, u32 serial, HMAC(key: "weft offer asks", bytes 8 to 31)
 *     answers   u32 status, u32 0, HMAC(key: "weft offer answers", bytes 8 to 31 of the question, status), and the descriptor where status is 0
 *
 * Sockets need a common network namespace. They work in containers, and where no process may look into another one.
 *
 * A descriptor keeps its memory from being freed. It is closed when its slot's identity is no longer that of the address, which is
 * looked at with every export that asks the desk, and with the desk, when the last device of the process is closed. A program that exports nothing
 * new keeps what it has freed until then.
 * Threads: any. */
#ifndef WEFT_DEVMEM_OFFER_OFFER_H
#define WEFT_DEVMEM_OFFER_OFFER_H

#include <stdint.h>
#include <weft/device.h>

#define WEFT_OFFER_KEY_BYTES 16
#define WEFT_OFFER_SLOTS     4096

/* What an importer is to be given. */
struct weft_offer {
    uint8_t key[WEFT_OFFER_KEY_BYTES]; /* of the exporting process */
    uint32_t serial;
    int32_t pid; /* in errors alone */
    uint16_t slot, reserved;
};
_Static_assert(sizeof(struct weft_offer) == WEFT_OFFER_KEY_BYTES + 12, "no gaps: it travels in handles");

/* The memory that a descriptor stands for. */
struct weft_offer_memory {
    const void *owner; /* the kind: identities are its own */
    uint64_t base, identity;
    uint64_t offset, size; /* for the kind alone: where in what the descriptor is of, and how long that is */
};

/* The desk lasts until it has been closed as often as it has been opened. Opening costs nothing. */
void weft_offer_open(void);
void weft_offer_close(void);

/* Sets the key and the process's number, also for handles without a descriptor. */
int weft_offer_sign(const struct weft_device_params *params, struct weft_offer *offer);
/* Whether this process has made it. */
int weft_offer_is_mine(const struct weft_offer *offer);

/* Whether the memory at base still has the identity. */
typedef int weft_offer_is_current(void *arg, const struct weft_offer_memory *memory);
/* Finds the slot of memory that has been put up before, 1, and takes down those of the same owner whose memory is gone. 0: there is none. Sets the
 * memory's offset and size as they were put up. */
int weft_offer_find(struct weft_offer_memory *memory, weft_offer_is_current *is_current, void *arg,
                    struct weft_offer *offer);
/* Puts a descriptor up that has been added (base/fd.h), and owns it from then on, also on failure. Where another thread has put up the same memory
 * meanwhile, it is closed, and that is found. The first one starts the desk's thread. */
int weft_offer_put(const struct weft_device_params *params, struct weft_offer_memory *memory, int fd,
                   struct weft_offer *offer);

/* Asks for the descriptor, which is the caller's then (base/fd.h). Waits 2 s at most for a process that does not answer. WEFT_UNSUPPORTED: there
 * is no such desk within reach, or no answer; WEFT_PROTOCOL: the desk has no such offer, or what answers is not the desk. */
int weft_offer_fetch(const struct weft_device_params *params, const struct weft_offer *offer, int *fd);

#endif
