/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/read_only.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/ranks.h"

#define LARGEST 300001 /* elements: several slices, not of equal size */

void *read_only_make(enum read_only_kind kind, const void *bytes, size_t size)
{
    int file = memfd_create("weights", MFD_CLOEXEC);
    void *memory = MAP_FAILED;
    if (file >= 0 && pwrite(file, bytes, size, 0) == (ssize_t)size)
        memory = mmap(NULL, size, PROT_READ, kind == READ_ONLY_SHARED ? MAP_SHARED : MAP_PRIVATE, file, 0);
    close(file);
    if (memory == MAP_FAILED)
        return NULL;
    if (kind == READ_ONLY_OWN) {
        if (mprotect(memory, size, PROT_READ | PROT_WRITE))
            return NULL;
        memcpy(memory, bytes, size);
        if (mprotect(memory, size, PROT_READ))
            return NULL;
    }
    return memory;
}

/* Rank 0 has what it sends in memory that it cannot write. */
static int use(struct job *job, void *send, void *recv, size_t count)
{
    size_t size = count * sizeof(float);
    memset(recv, 0xcc, 2 * size);
    if (weft_comm_rank(job->comm) == 0) {
        CHECK_OK(weft_send(job->comm, send, count, WEFT_FLOAT32, 1, 3, NULL));
    } else {
        CHECK_OK(weft_recv(job->comm, recv, count, WEFT_FLOAT32, 0, 3, NULL, NULL));
        job_fill(send, WEFT_FLOAT32, 0, count);
        CHECK_BITS(memcmp(send, recv, size) == 0);
        job_fill(send, WEFT_FLOAT32, 1, count);
    }
    CHECK_OK(weft_allreduce(job->comm, send, recv, count, WEFT_FLOAT32, WEFT_SUM, NULL));
    CHECK_BITS(job_wrong(recv, WEFT_FLOAT32, WEFT_SUM, 2, count) == 0);
    CHECK_OK(weft_allgather(job->comm, send, recv, count, WEFT_FLOAT32, NULL));
    CHECK_BITS(memcmp((char *)recv + (weft_comm_rank(job->comm) ? size : 0), send, size) == 0);
    return 0;
}

int read_only_is_sent_from(struct job *job)
{
    static const size_t counts[] = {3, 5000, LARGEST};
    int rank = weft_comm_rank(job->comm);
    float *bytes = malloc(LARGEST * sizeof *bytes), *recv = malloc(2 * LARGEST * sizeof *recv);
    CHECK(bytes && recv);
    for (int i = 0; i < 2 * READ_ONLY_KINDS; i++) {
        job_fill(bytes, WEFT_FLOAT32, rank, LARGEST);
        void *send =
            rank ? bytes : read_only_make((enum read_only_kind)(i / 2), bytes, LARGEST * sizeof *bytes);
        CHECK(send);
        if (i % 2)
            CHECK_OK(weft_mem_register(job->context, send, LARGEST * sizeof *bytes));
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
            CHECK(use(job, send, recv, counts[c]) == 0);
        if (i % 2)
            CHECK_OK(weft_mem_deregister(job->context, send));
        if (!rank)
            munmap(send, LARGEST * sizeof *bytes);
    }
    free(bytes);
    free(recv);
    return 0;
}
