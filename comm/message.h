/* SPDX-License-Identifier: Apache-2.0 */
/* Point-to-point calls: what their files share. */
#ifndef WEFT_COMM_MESSAGE_H
#define WEFT_COMM_MESSAGE_H

#include "comm/comm.h"

/* Whether a caller's struct can be filled. */
int weft_message_check(const weft_message *message);
/* Fills as much of it as the caller knows. */
void weft_message_tell(const struct weft_request *request, weft_message *message);

#endif
