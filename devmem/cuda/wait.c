/* SPDX-License-Identifier: Apache-2.0 */
/* Stream waits: places where a stream of the program's waits.
 *
 * A stream wait is a 32-bit word that the device reads over and over (cuStreamWaitValue32) until it is at least the wait's number,
 * counted cyclically. Opening stores the number, from the host, or by a queue behind the work that it holds
 * (cuStreamWriteValue32). Every use of a word counts on, so a word may serve the next wait while a stream has yet to come by
 * the last one: what it waits for has been written already, and is never taken back. The one condition is that the last number has
 * been seen in the word, or a late write by a queue could take back the next one.
 *
 * The words lie in shared memory of the process's, registered with the driver and never given back: streams may have to pass
 * stream waits whose device weft has closed. Shared, as of private pages a fork makes copies, and then the host might write to one
 * and the device read the other. A store into them needs no driver, so stream waits are opened even when CUDA is shut down or has
 * failed.
 *
 * When work fails, it is the context of its device that fails, and with it every stream there. A stream on another device might
 * wait on for a write that never comes: whoever learns of a failure opens, from the host, what queues of that
 * device were to open (rescue).
 *
 * CUDA does not see that the stream depends on weft's queues. Its reference warns that the driver may then put both into one
 * channel, where the first holds up the second; see queue.c for why these two do not meet. Calls that wait for a whole device
 * (cuMemFree, loading a module) must not be made by the thread that is to open a stream wait, so none are, between opening and
 * closing a queue.
 *
 * Where memory operations in streams are missing (drivers before CUDA 11.7 have them switched off) there are no stream waits. A
 * host function that waits is no substitute: the driver runs such functions one after another, and one that waits for another rank
 * of this process may keep that rank's from running.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "devmem/cuda/cuda.h"

#define WORDS 4096 /* stream waits closed at a time in a process */

enum state { FREE, CLOSED, LEFT_TO_QUEUE };

struct weft_device_wait {
    struct weft_device *device;
    uint32_t index, number;
};

static struct {
    pthread_mutex_t lock;
    uint32_t *words; /* NULL: not there */
    pid_t pid;       /* whose: a forked child makes its own */
    cuda_pointer pointer;
    uint32_t next;
    uint32_t issued[WORDS];
    unsigned char state[WORDS];
    unsigned char opener[WORDS]; /* ordinal of the queue */
} waits = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void store(uint32_t index, uint32_t number)
{
    __atomic_store_n(&waits.words[index], number, __ATOMIC_RELEASE);
}

static int is_written(uint32_t index)
{
    return __atomic_load_n(&waits.words[index], __ATOMIC_ACQUIRE) == waits.issued[index];
}

/* With the lock. Registration ends with the contexts of the process; then it is made again. */
static int prepare(const struct weft_cuda_driver *driver)
{
    size_t bytes = WORDS * sizeof *waits.words;
    if (!waits.words || waits.pid != getpid()) {
        void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            return CUDA_OUT_OF_MEMORY;
        if (waits.words)
            munmap(waits.words, bytes); /* the parent's */
        waits.words = memory;
        waits.pid = getpid();
        memset(waits.issued, 0, sizeof waits.issued);
        memset(waits.state, 0, sizeof waits.state);
    }
    if (driver->host_get_pointer(&waits.pointer, waits.words, 0) == CUDA_SUCCESS)
        return CUDA_SUCCESS;
    int result = driver->host_register(waits.words, bytes, CUDA_HOST_PORTABLE | CUDA_HOST_DEVICEMAP);
    return result ? result : driver->host_get_pointer(&waits.pointer, waits.words, 0);
}

int weft_cuda_waits_prepare(struct weft_device *device)
{
    pthread_mutex_lock(&waits.lock);
    int result = prepare(&device->driver);
    pthread_mutex_unlock(&waits.lock);
    return result;
}

/* A word for the next stream wait; WORDS when all are in use. With the lock. */
static uint32_t take_word(void)
{
    for (uint32_t tried = 0; tried < WORDS; tried++) {
        uint32_t index = waits.next++ % WORDS;
        if (waits.state[index] == FREE && is_written(index)) {
            waits.state[index] = CLOSED;
            waits.issued[index]++;
            return index;
        }
    }
    return WORDS;
}

/* Nothing will be waiting for its last number. */
static void untake_word(uint32_t index)
{
    pthread_mutex_lock(&waits.lock);
    waits.state[index] = FREE;
    store(index, waits.issued[index]);
    pthread_mutex_unlock(&waits.lock);
}

/* Another rank's first queue may just be asking for the pointer. */
static cuda_pointer word_of(uint32_t index)
{
    pthread_mutex_lock(&waits.lock);
    cuda_pointer word = waits.pointer + index * sizeof *waits.words;
    pthread_mutex_unlock(&waits.lock);
    return word;
}

static int wait_in(struct weft_device *device, int ordinal, cuda_stream stream, uint32_t index)
{
    const struct weft_cuda_ordinal *place = &device->ordinals[ordinal];
    unsigned flags = CUDA_WAIT_GEQ;
    if (place->can_flush)
        flags |= CUDA_WAIT_FLUSH; /* what NICs wrote before it opened is seen behind it */
    return device->driver.wait_value(stream, word_of(index), waits.issued[index], flags);
}

int weft_cuda_wait_stream(struct weft_device *device, int ordinal, void *stream,
                          struct weft_device_wait **made)
{
    struct weft_cuda_turn turn;
    cuda_context context;
    int status = weft_cuda_check(device, ordinal);
    if (status)
        return status;
    if (!device->ordinals[ordinal].has_waits)
        return device->params.fail(
            WEFT_UNSUPPORTED,
            "the driver (CUDA %d.%d) has no memory operations in streams, which stream waits need",
            device->driver.version / 1000, device->driver.version % 1000 / 10);
    struct weft_device_wait *wait = malloc(sizeof *wait);
    if (!wait)
        return device->params.fail(WEFT_NOMEM, "no memory for a stream wait");
    status = weft_cuda_enter_stream(device, ordinal, stream, &context, &turn);
    if (status)
        goto find_free;
    pthread_mutex_lock(&waits.lock);
    int result = prepare(&device->driver);
    uint32_t index = result ? WORDS : take_word();
    pthread_mutex_unlock(&waits.lock);
    if (result)
        status = weft_cuda_fail(device, result, "registering memory for stream waits");
    else if (index == WORDS)
        status = device->params.fail(
            WEFT_NOMEM, "%d stream waits are closed in this process, which is all there are", WORDS);
    else {
        *wait = (struct weft_device_wait){device, index, waits.issued[index]};
        result = wait_in(device, ordinal, stream, index);
        if (result) {
            untake_word(index);
            status =
                weft_cuda_fail(device, result, "putting a wait into stream %p of device %d", stream, ordinal);
        }
    }
    weft_cuda_leave(&turn);
    if (!status) {
        *made = wait;
        return WEFT_OK;
    }
find_free:
    free(wait);
    return status;
}

/* A queue that cannot do it any more leaves it to the host: what was before it in the queue has failed, or never will
 * be. test() says. */
int weft_cuda_wait_open(struct weft_device_wait *wait, struct weft_device_queue *queue)
{
    struct weft_cuda_turn turn;
    pthread_mutex_lock(&waits.lock);
    waits.state[wait->index] = LEFT_TO_QUEUE;
    waits.opener[wait->index] = queue ? (unsigned char)queue->ordinal : WEFT_CUDA_ORDINALS_MAX;
    pthread_mutex_unlock(&waits.lock);
    int is_left = 0;
    if (queue && weft_cuda_enter(queue->device, queue->ordinal, &turn) == WEFT_OK) {
        cuda_pointer word = word_of(wait->index);
        is_left = queue->device->driver.write_value(queue->stream, word, wait->number, CUDA_WRITE_DEFAULT) ==
                  CUDA_SUCCESS;
        weft_cuda_leave(&turn);
    }
    if (!is_left)
        store(wait->index, wait->number);
    return WEFT_OK;
}

void weft_cuda_wait_free(struct weft_device_wait *wait)
{
    pthread_mutex_lock(&waits.lock);
    if (waits.state[wait->index] == CLOSED)
        store(wait->index, wait->number);
    waits.state[wait->index] = FREE;
    pthread_mutex_unlock(&waits.lock);
    free(wait);
}

void weft_cuda_waits_rescue(int ordinal)
{
    pthread_mutex_lock(&waits.lock);
    for (uint32_t i = 0; waits.words && i < WORDS; i++) {
        if (waits.opener[i] == ordinal && waits.state[i] != CLOSED && !is_written(i))
            store(i, waits.issued[i]);
    }
    pthread_mutex_unlock(&waits.lock);
}
