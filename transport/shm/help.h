/* SPDX-License-Identifier: Apache-2.0 */
/* What a reader of a peer's memory and its owner write into the owner's ring, where the owner helps: help.c. */
#ifndef WEFT_TRANSPORT_SHM_HELP_H
#define WEFT_TRANSPORT_SHM_HELP_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/uio.h>

#define SHM_HELPED_BYTES_MIN (64u << 10) /* of a piece that is read */

/* What becomes of the second half of a read. */
enum shm_help_state {
    SHM_HELP_READ,   /* the reader reads it, or has */
    SHM_HELP_OPEN,   /* the helper may take it */
    SHM_HELP_TAKEN,  /* it has */
    SHM_HELP_DONE,   /* and has copied it */
    SHM_HELP_FAILED, /* or could not copy all of it */
    SHM_HELP_STATES = 8
};

/* The second half of one read. The reader writes it, and then the state. */
struct shm_help {
    _Alignas(64) _Atomic uint64_t state; /* the read's number * SHM_HELP_STATES + enum shm_help_state */
    _Alignas(64) struct iovec place;     /* the reader's memory. A length of 0: it wants nothing any more */
    uint64_t source, bytes;              /* the owner's memory, and how much */
    uint32_t cell;                       /* of the token that stands for it */
};

#endif
