/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the fake libcuda.so.1. One lock, sim.lock, guards everything but what streams work on. */
#ifndef WEFT_TESTS_DRIVERS_CUDA_FAKE_SIM_H
#define WEFT_TESTS_DRIVERS_CUDA_FAKE_SIM_H

#include <pthread.h>
#include <sys/types.h>
#include "tests/fakes/drivers/cuda_fake.h"
#include "tests/fakes/drivers/cuda_fake_api.h"

#define SIM_DEVICES 4
#define SIM_PAGE    4096UL

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    DEINITIALIZED = 4,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    ALREADY_MAPPED = 208,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    PEER_ALREADY_ENABLED = 704,
    CONTEXT_IS_DESTROYED = 709,
    ALREADY_REGISTERED = 712,
    NOT_REGISTERED = 713,
    NOT_SUPPORTED = 801,
};

struct sim_context {
    int device, is_primary, references;
    unsigned peers;
    struct sim_stream *legacy;
};

/* Physical memory: what cuMemCreate makes, and what is behind every other allocation of a device's. */
struct sim_block {
    unsigned long long id;
    int fd, device, references, handle_types;
    size_t size;
};

struct sim_pool {
    int device, handle_types, fd;
    int is_import;
    unsigned access;
    struct sim_pool *next;
};

enum sim_kind {
    SIM_DEVICE,
    SIM_MANAGED,
    SIM_PINNED,
    SIM_REGISTERED,
    SIM_MAPPED,
    SIM_POOL,
    SIM_IMPORT,
    SIM_RESERVED
};

struct sim_memory {
    enum sim_kind kind;
    int device;
    uintptr_t base;
    size_t size;
    uintptr_t range;
    size_t range_size;    /* of what was reserved */
    unsigned char *alias; /* where the host may touch it */
    unsigned long long id;
    unsigned flags;
    int is_synchronous;
    CUcontext context;
    struct sim_block *block;
    struct sim_pool *pool;
    CUblob handle; /* of an import */
    struct sim_memory *next;
};

struct sim_function {
    const char *name; /* kept for good: work that is queued names it */
    int is_loaded;
    struct sim_function *next;
};

struct sim {
    pthread_mutex_t lock;
    pid_t pid; /* that called cuInit; 0: nobody */
    int is_down;
    int results[SIM_DEVICES]; /* of broken devices */
    struct sim_context primary[SIM_DEVICES];
    struct sim_memory *memory;
    struct sim_pool *pools;
    unsigned long long next_id;
    int streams, events, modules, contexts, blocks;
    int late_loads;
};
extern struct sim sim;
extern struct cuda_fake cuda_fake;

/* What every function begins with: counts the call; a result other than SUCCESS is the function's. */
int sim_call(const char *name);
#define CALL()                                                                                               \
    do {                                                                                                     \
        int result_ = sim_call(__func__);                                                                    \
        if (result_)                                                                                         \
            return result_;                                                                                  \
    } while (0)

CUcontext sim_current(void);
/* The memory at a pointer; with the lock. Reserved addresses only where nothing is mapped. */
struct sim_memory *sim_find(uintptr_t pointer);
/* A new entry; with the lock. */
struct sim_memory *sim_add(enum sim_kind kind, int device, uintptr_t base, size_t size);
void sim_remove(struct sim_memory *memory);
/* Addresses that the host may not touch, the most recently returned first. */
uintptr_t sim_reserve(size_t size);
void sim_unreserve(uintptr_t base, size_t size);
struct sim_block *sim_block_new(int fd, int device, size_t size, int handle_types);
void sim_block_put(struct sim_block *block);
/* Makes entry's bytes those of the block. */
int sim_attach(struct sim_memory *memory, struct sim_block *block);
void sim_release(struct sim_memory *memory);
/* Where the host may touch the byte at a pointer, and how many follow it there. Not device memory: the pointer itself. */
unsigned char *sim_touch(uintptr_t pointer, size_t *room);
void sim_copy(uintptr_t destination, uintptr_t source, size_t size);
void sim_fill(uintptr_t destination, int byte, size_t size);
/* Ends what streams of a context's do; not with the lock. */
void sim_streams_end(CUcontext context);
void sim_wake(void);
/* Whether a stream of the context is at a word that has yet to be written, or will come to one. */
int sim_waits_for_word(CUcontext context);
/* As late as a driver may. */
void sim_function_load(CUfunction function, CUcontext context);
/* Lets launches run, where the fake has kernels (cuda_kernels.c); NULL elsewhere. */
void sim_kernels_run(struct cuda_fake *fake) __attribute__((weak));
int sim_stream_is_idle(void *stream);
int sim_stream_flags(void *stream, int *priority);

#endif
