/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a run with a fault: a process that takes orders.
 *
 * A run goes through the whole life of a context; its scene says in which phase the faulty rank's calls count.
 * The faulty rank and its peer then end as a program would that checks every status: destroy, free, close. The
 * driver (test_faults.c) judges.
 */
#ifndef WEFT_TESTS_FAULTS_WORKER_H
#define WEFT_TESTS_FAULTS_WORKER_H

#include <stdint.h>
#include <sys/types.h>

#include "tests/faults/inject.h"
#include "tests/support/leak.h"

enum fault_phase {
    PHASE_CONTEXT,
    PHASE_MEMORY,
    PHASE_CACHE, /* the cache of registrations by itself, without ranks: it is opened and used; it is closed */
    PHASE_CACHE_END,
    PHASE_CREATE,
    PHASE_REDUCE,
    PHASE_SHRINK,
    PHASE_SPLIT,
    PHASE_SUBSET,
    PHASE_END
};

enum fault_source { SOURCE_FILE, SOURCE_ADDRESS };

struct fault_scene {
    const char *name;
    const char *settings; /* of the context */
    enum fault_phase phase;
    enum fault_source source;
    size_t count;                /* elements of the allreduce */
    int mapped;                  /* its memory comes from weft_mem_alloc() */
    int started;                 /* by a work, and weft_work_wait() */
    const char *setting, *value; /* an environment variable, NULL for none */
};

#define WORKER_SLOWNESS 4 /* how many times slower the workers' clock runs than the machine's */
#define WORKER_RANKS    2

struct fault_order {
    struct fault_scene scene;
    int faulty; /* rank */
    int armed;  /* 0: only a run to be counted */
    int cold;   /* the first run of its process: what stays once per process is in allowed */
    int solo;   /* only the faulty rank takes part */
    struct fault_aim aim;
    int64_t timeout_ms;
    char path[108];   /* SOURCE_FILE */
    char address[32]; /* SOURCE_ADDRESS */
    struct test_leak allowed;
    size_t allowed_blocks;
};

struct fault_outcome {
    int status;       /* the first that was not 0 */
    const char *call; /* which call gave it; points into the program's text */
    char detail[512];
    size_t wrong;           /* elements with other bits, in an allreduce that said 0 */
    int closed;             /* what weft_context_close() said */
    int fds;                /* weft's own descriptors, still open */
    int leaks;              /* kinds that have grown in the process */
    size_t blocks;          /* weft's, not freed, above what is allowed */
    struct test_leak stays; /* what the run has added to the process */
    size_t stays_blocks;
    struct fault_report report;
};

/* Shared between the driver and the ranks of one track. */
struct fault_stage {
    struct fault_order order;
    struct fault_outcome outcomes[WORKER_RANKS];
};

struct fault_worker {
    pid_t pid; /* 0: none */
    int fd;    /* the driver's end: a byte starts a run and comes back at its end; 'q' ends the process */
};

/* Starts a process for a rank of the stage. 0, or -1 with errno. */
int fault_worker_start(struct fault_stage *stage, int rank, struct fault_worker *worker);
/* Ends it: politely when it is idle, otherwise by SIGKILL. Returns its wait status. */
int fault_worker_stop(struct fault_worker *worker, int idle);

#endif
