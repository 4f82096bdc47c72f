/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the fake RDMA device: registrations and windows, and the keys of both. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "tests/fakes/verbs/rdma_fake_private.h"

#define KEYS 65536

static struct fake_key keys[KEYS];
static uint32_t next_key = 1;
static atomic_int dmabuf_error;
static atomic_long dmabufs;

void rdma_fake_refuse_dmabufs(int error)
{
    dmabuf_error = error;
}

long rdma_fake_dmabufs(void)
{
    return dmabufs;
}

void rdma_fake_must(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "the fake RDMA device: %s\n", what);
    abort();
}

static struct fake_key *key_make(void)
{
    for (uint32_t i = 0; i < KEYS; i++) {
        struct fake_key *key = &keys[next_key++ % KEYS];
        if (key->key)
            continue;
        memset(key, 0, sizeof *key);
        key->key = (uint32_t)(key - keys + 1) << 8;
        return key;
    }
    rdma_fake_must(0, "no key is free");
    return NULL;
}

struct fake_key *rdma_fake_key(uint32_t number)
{
    uint32_t index = (number >> 8) - 1;
    return index < KEYS && keys[index].key == number && number ? &keys[index] : NULL;
}

static struct fake_mr *mr_make(struct ibv_pd *domain, uint8_t *bytes, size_t size, uint64_t iova,
                               unsigned access)
{
    pthread_mutex_lock(&rdma_fake_lock);
    struct fake_mr *mr = rdma_fake_make(sizeof *mr);
    mr->key = key_make();
    mr->key->access = access;
    mr->key->start = iova;
    mr->key->size = size;
    mr->key->bytes = bytes;
    mr->base.lkey = mr->base.rkey = mr->key->key;
    pthread_mutex_unlock(&rdma_fake_lock);
    mr->base.context = domain->context;
    mr->base.pd = domain;
    mr->base.length = size;
    return mr;
}

struct ibv_mr *rdma_fake_reg_mr(struct ibv_pd *domain, void *memory, size_t size, uint64_t iova,
                                unsigned access)
{
    struct fake_mr *mr = mr_make(domain, memory, size, iova, access);
    mr->base.addr = memory;
    return &mr->base;
}

/* What Linux allows; whatever can be mapped is a dma-buf. */
struct ibv_mr *rdma_fake_reg_dmabuf_mr(struct ibv_pd *domain, uint64_t offset, size_t size, uint64_t iova,
                                       int fd, int access)
{
    const int allowed = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
                        IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_RELAXED_ORDERING;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    size_t mapped_bytes = offset + size;
    if (access & ~allowed || (offset ^ iova) % page) {
        errno = EINVAL;
        return NULL;
    }
    if (dmabuf_error) {
        errno = dmabuf_error;
        return NULL;
    }
    uint8_t *mapped = mmap(NULL, mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED)
        return NULL;
    struct fake_mr *mr = mr_make(domain, mapped + offset, size, iova, (unsigned)access);
    mr->mapped = mapped;
    mr->mapped_bytes = mapped_bytes;
    dmabufs++;
    return &mr->base;
}

int rdma_fake_dereg_mr(struct ibv_mr *base)
{
    struct fake_mr *mr = (struct fake_mr *)base;
    pthread_mutex_lock(&rdma_fake_lock);
    for (uint32_t i = 0; i < KEYS; i++)
        rdma_fake_must(!keys[i].pair || keys[i].start + keys[i].size <= mr->key->start ||
                           keys[i].start >= mr->key->start + mr->key->size,
                       "memory is deregistered that a window is bound on");
    mr->key->key = 0;
    if (mr->mapped)
        munmap(mr->mapped, mr->mapped_bytes);
    rdma_fake_drop(mr);
    pthread_mutex_unlock(&rdma_fake_lock);
    return 0;
}

struct ibv_mw *rdma_fake_alloc_mw(struct ibv_pd *domain, enum ibv_mw_type type)
{
    pthread_mutex_lock(&rdma_fake_lock);
    struct fake_mw *window = rdma_fake_make(sizeof *window);
    window->key = key_make();
    window->base.rkey = window->key->key;
    pthread_mutex_unlock(&rdma_fake_lock);
    window->base.context = domain->context;
    window->base.pd = domain;
    window->base.type = type;
    return &window->base;
}

static void window_end(struct fake_mw *window)
{
    if (!window->key->pair)
        return;
    window->key->pair->windows--;
    window->key->pair = NULL;
    window->key->access = 0;
}

int rdma_fake_dealloc_mw(struct ibv_mw *base)
{
    struct fake_mw *window = (struct fake_mw *)base;
    pthread_mutex_lock(&rdma_fake_lock);
    window_end(window);
    window->key->key = 0;
    rdma_fake_drop(window);
    pthread_mutex_unlock(&rdma_fake_lock);
    return 0;
}
