/* SPDX-License-Identifier: Apache-2.0 */
/* A RECV whose sender offers its memory: WEFT_MODE_READ. */
#ifndef WEFT_COMM_EXEC_READ_H
#define WEFT_COMM_EXEC_READ_H

#include "comm/exec/internal.h"

/* Asks for the mapping: before each use, as an owner that gave up may have freed its memory meanwhile. WEFT_UNSUPPORTED:
 * it is pulled. */
int weft_read_map(struct weft_exec_op *op, struct weft_inflight *inflight);
/* After reading mapped memory, before anybody hears of it or may build on it: an owner that gave up may have let its
 * user overwrite what was just read. Pulls are checked by the transport. */
int weft_read_check(struct weft_exec_op *op, const struct weft_inflight *inflight);
/* As weft_recv_source(). */
int weft_read_source(struct weft_exec_op *op, struct weft_inflight *inflight, size_t position, size_t size,
                     int scratch, const uint8_t **source);
int weft_read_slice(struct weft_exec_op *op, struct weft_inflight *inflight, uint32_t slice, uint8_t *target);
/* Into OUTPUT or TEMP, as far as it is offered and may be written. */
int weft_read_advance(struct weft_exec_op *op, struct weft_inflight *inflight);

#endif
