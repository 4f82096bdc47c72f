/* Point-to-point calls: what their files share, and messages of weft's own. */
#ifndef WEFT_COMM_MESSAGE_H
#define WEFT_COMM_MESSAGE_H

#include "comm/comm.h"

/* Whether a caller's struct can be filled. */
int weft_message_check(const weft_message *message);
/* Fills as much of it as the caller knows. */
void weft_message_tell(const struct weft_request *request, weft_message *message);

/* Messages that no receive of the program can meet, by blocking calls until deadline_ns. A receive that times out leaves
 * the communicator as it is; everything else as weft_send() and weft_recv(). Any thread. */
int weft_p2p_send_internal(struct weft_comm *comm, const void *data, size_t bytes, int peer, int64_t tag,
                           int64_t deadline_ns);
int weft_p2p_recv_internal(struct weft_comm *comm, void *data, size_t capacity, int source, int64_t tag,
                           int64_t deadline_ns, size_t *bytes);

#endif
