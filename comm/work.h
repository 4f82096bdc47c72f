/* Work handles: operations that a caller starts and waits for later. */
#ifndef WEFT_COMM_WORK_H
#define WEFT_COMM_WORK_H

#include "comm/comm.h"

struct weft_work {
    struct weft_comm *comm;
    struct weft_exec_op *op; /* NULL when it was finished at once */
    int status;              /* WEFT_AGAIN while running */
    int64_t deadline_ns;     /* the communicator's */
};

/* Waits for an executor operation, driving progress; on the deadline the communicator is revoked when revoke
 * is set, otherwise WEFT_TIMEOUT is returned and the operation goes on. [lock] */
int weft_work_drive(struct weft_comm *comm, struct weft_exec_op *op, int64_t deadline_ns, int revoke);

#endif
