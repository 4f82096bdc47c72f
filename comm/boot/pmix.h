/* SPDX-License-Identifier: Apache-2.0 */
/* The PMIx client of this process: what the launcher knows of the job, and its key-value exchange (the modex).
 *
 * PMIx is a service of launchers (mpirun of Open MPI, srun of Slurm): a process that was started by one finds
 * PMIX_NAMESPACE and PMIX_RANK in its environment and, through libpmix, a server on its own node. libpmix is
 * loaded with dlopen() when the first hold needs it, so that nobody else pays for it, and stays loaded.
 *
 * PMIx exists once per process, and so does this: holds are counted, the first initialises it, the last release
 * finalises it (launchers take a process that ends without for a failed one). A program may use PMIx or MPI
 * itself; libpmix counts too. PMIx_Init() and PMIx_Finalize() can block for ever, so they run on threads of
 * their own, and whoever waits for them has a deadline; everything else is asynchronous.
 *
 * Threads: any. After fork() the child gets WEFT_INVALID. A build without PMIx's headers has the same functions,
 * whose hold answers WEFT_NOT_FOUND.
 */
#ifndef WEFT_COMM_BOOT_PMIX_H
#define WEFT_COMM_BOOT_PMIX_H

#include <stddef.h>
#include <stdint.h>

/* What the launcher says of this process. Numbers that it does not say are -1. */
struct weft_pmix_facts {
    int rank, ranks;             /* in the namespace, which is the job */
    int local_rank, local_ranks; /* among the job's ranks of this node */
    int node, nodes; /* the launcher's number for this node, which may have gaps; nodes of the job */
    char nspace[256];
    char version[64]; /* of libpmix */
};

/* Whether a PMIx launcher started this process. Never in a set-uid program: the environment names the server to
 * trust, and plug-ins that libpmix loads. */
int weft_pmix_launched(void);

/* Makes the client usable and counts. WEFT_NOT_FOUND says what to install, WEFT_TIMEOUT which call did not come
 * back before the deadline. */
int weft_pmix_hold(int64_t deadline_ns);
/* Gives one hold back; waits a few seconds at most for PMIx_Finalize(). */
void weft_pmix_release(void);

/* NULL before the first hold has succeeded, constant and valid for ever after. */
const struct weft_pmix_facts *weft_pmix_get_facts(void);

/* While weft_pmix_hold() lasts: makes the value known to every rank of the namespace, under this rank. The copy is
 * PMIx's. Keys have at most 511 characters. */
int weft_pmix_put(const char *key, const void *value, size_t size);

/* While weft_pmix_hold() lasts: asks for what a rank has put. PMIx may answer at once, when the rank puts it, or never;
 * it forgets about the question at the deadline, or after a few seconds: ask again then. fresh: not from what this node has heard before. */
struct weft_pmix_request;
int weft_pmix_ask(uint32_t rank, const char *key, int fresh, int64_t deadline_ns,
                  struct weft_pmix_request **request);
/* Waits for the answer. WEFT_AGAIN: none yet. WEFT_RANKS_ABSENT: there is no such value (now). *size is the value's
 * length; what exceeds capacity is cut off. */
int weft_pmix_await(struct weft_pmix_request *request, int64_t until_ns, void *value, size_t capacity,
                    size_t *size);
/* The answer may still come; it is thrown away. NULL is allowed. */
void weft_pmix_forget(struct weft_pmix_request *request);

#endif
