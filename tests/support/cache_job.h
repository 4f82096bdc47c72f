/* SPDX-License-Identifier: Apache-2.0 */
/* Two ranks that pass ordinary memory which is freed, discarded, grown and allocated again between messages. Used by tests of
 * transports that register memory.
 */
#ifndef WEFT_TESTS_CACHE_JOB_H
#define WEFT_TESTS_CACHE_JOB_H

struct cache_job {
    int keeps; /* regions are kept, and there is a thread for that */
    const char *transports, *provider;
};

/* A body for test_ranks_fork() and test_ranks_threads(); arg is a struct cache_job. */
int cache_job_body(int rank, int ranks, void *arg);

/* Threads of this process that watch memory. */
int cache_job_watchers(void);

#endif
