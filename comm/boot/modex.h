/* SPDX-License-Identifier: Apache-2.0 */
/* PMIx as a source of rank, number of ranks and the place of rank 0 (docs/bootstrap.md, section 2).
 *
 * The record by which rank 0 is found goes through PMIx's modex, behind the interface of a store. What PMIx has
 * taken it keeps, and servers of other nodes may answer with what they heard first; so every record has a key of
 * its own: "weft/<life>/<hash of the name>/<number>". Rank 0 counts the records that it has made for a name; a rank
 * begins with the number after that of its last communicator of this name, and goes on to the next whenever the
 * record that it has got leads nowhere. So ranks need not have failed equally often. The life is a random number of
 * rank 0's process, under the key "weft/life", and is asked for anew in the same case: a job may run one program
 * after the other.
 *
 * A fence is not used: it could not say who is missing, while rank 0 can as soon as the others have its record.
 *
 * Threads: as pmix.h; one source belongs to one call.
 */
#ifndef WEFT_COMM_BOOT_MODEX_H
#define WEFT_COMM_BOOT_MODEX_H

#include "comm/boot/pmix.h"
#include <weft/weft.h>

/* Where a rank runs, as its launcher says: -1 where not known. Ranks announce it to each other when they meet, and it stays
 * with the member record (comm.h). Node numbers mean something only between ranks of one job. */
struct weft_placement {
    uint64_t job; /* hash of the namespace; 0: nothing is known */
    int32_t node; /* the launcher's number, which may have gaps */
    int32_t local_rank,
        local_ranks;  /* among all ranks of the job on this node, in this communicator or not */
    int32_t reserved; /* 0 */
};

/* Of this process: all unknown unless it holds PMIx, or has. */
void weft_pmix_placement(struct weft_placement *placement);

/* For one communicator while it is made. The caller sets held and deadline_ns; all zero otherwise. */
struct weft_pmix_source {
    int *
        held; /* the context's: whether it holds PMIx already; set here, given back by weft_pmix_drop_hold() */
    int64_t deadline_ns;
    weft_store store;         /* valid between begin and end */
    uint64_t name_hash, life; /* life 0: not known yet */
    int reads;                /* of the store so far */
    unsigned number;          /* of the record in use */
    /* Questions that are open, NULL none: for that record, the one after it, and the life. */
    struct weft_pmix_request *record, *next, *life_request;
};

/* Makes *facts valid, holding PMIx for the context if it does not do so yet. Statuses of weft_pmix_hold(). */
int weft_pmix_source_open(struct weft_pmix_source *source, const struct weft_pmix_facts **facts);

/* Makes source->store ready for a communicator of this name. WEFT_NOMEM. */
int weft_pmix_source_begin(struct weft_pmix_source *source, const char *name);

/* The ranks have met by this record, or have not. Allowed at any time, also on a source that was never used. */
void weft_pmix_source_end(struct weft_pmix_source *source, int met);

/* Gives back what weft_pmix_source_open() holds for a context. */
void weft_pmix_drop_hold(int *held);

#endif
