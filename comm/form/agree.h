/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks announce to each other when a communicator is made, and what they conclude from it.
 *
 * Rounds over the bootstrap (allgathers), the same on every rank:
 *   1  introduction: version, host name, pid and process (devmem/share.h), processors, place (arrange.h), shm address, candidate ids
 *      (rank 0's count), and the settings that must be agreed;
 *   2  vote: which candidate ids are free here; whether this rank has proven to share memory with the lowest
 *      rank of its host group; its network address when it needs one, and which ports it is of (ports.h). Held once more with everybody's network address
 *      when some rank could not prove its host, and once more with ofi addresses where verbs does not reach
 *      everybody (agree_network.h);
 *   3  fast-path tokens where all ranks share one host, otherwise empty: it also is the barrier after which
 *      messages may be sent; and whether mapping them has worked.
 */
#ifndef WEFT_COMM_FORM_AGREE_H
#define WEFT_COMM_FORM_AGREE_H

#include "comm/core/comm.h"

/* Runs rounds 1 and 2 for a communicator whose bootstrap is open: fills members, id and order, and nothing of what runs operations. */
int weft_agree(struct weft_comm *comm, int64_t deadline_ns);

/* Round 3, for a communicator that has its executor. A rank that cannot map a token still takes part; then nobody uses the path. */
int weft_agree_fastpath(struct weft_comm *comm, int64_t deadline_ns);

/* Waits for a link to a rank to come up, in vain where some rank has died meanwhile: it may be the one at the other end.
 * [lock] */
int weft_agree_link(struct weft_comm *comm, int rank, const struct weft_transport_ops *ops,
                    struct weft_link *link, int64_t deadline_ns);

#endif
