/* SPDX-License-Identifier: Apache-2.0 */
/* A process that has memory of the kind "ze" and exports it. It does what the test orders, so that each step is behind the one before. */
#ifndef WEFT_TESTS_ZE_PEER_H
#define WEFT_TESTS_ZE_PEER_H

#include <sys/types.h>

#include "tests/support/ze_scene.h"

#define ZE_PEER_BYTES 13000 /* not whole pages */

enum ze_peer_order {
    ZE_PEER_ALLOCATE,    /* weft's own memory, ZE_PEER_BYTES of argument */
    ZE_PEER_ALLOCATE_BY, /* the program's, as many bytes as argument says, all of them argument's last byte */
    ZE_PEER_FREE,
    ZE_PEER_EXPORT, /* from argument bytes behind the begin on */
    ZE_PEER_FIND,   /* whether all of it is argument */
    ZE_PEER_LIE,    /* exports, and hands out a descriptor of a file instead: argument is how long that is */
    ZE_PEER_END,
};

struct ze_peer_report {
    int status;
    uint64_t address;
    uint64_t offset; /* of the last export, */
    struct weft_device_handle handle;
    char text[512];
};

struct ze_peer {
    pid_t pid;
    int in, out;
    struct ze_peer_report report;
};

/* Before this process has used the driver; set says what the peer's has. 0 on success. */
int ze_peer_start(struct ze_peer *peer, void (*set)(struct ze_fake *fake));
/* Its status. */
int ze_peer_do(struct ze_peer *peer, enum ze_peer_order order, int argument);
/* 0: it has ended well, nothing was forbidden, and nothing is left. */
int ze_peer_end(struct ze_peer *peer);

/* In this process, by a queue of the device's: fills size bytes, 0 on success; and says whether all are value, 1 or 0. */
int ze_peer_fill(struct weft_device *device, void *memory, size_t size, int value);
int ze_peer_holds(struct weft_device *device, const void *memory, size_t size, int value);
/* Descriptors of this process. */
int ze_peer_descriptors(void);

#endif
