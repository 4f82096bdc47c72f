/* SPDX-License-Identifier: Apache-2.0 */
/* Whether other queues get on while a kernel waits, as run() promises. No call of Level Zero says it: a
 * driver may run all queues of a device on one engine, where two kernels run side by side until a barrier of
 * either queue stands between them. So weft tries it when a device is first described, or its first queue
 * opened. A kernel says that it is there and waits for a word of the host's, with a mark behind it. Then
 * another queue has to do a kernel, a barrier, a copy and a mark. When it has, the host stores the word,
 * which the first kernel has to see while it runs: a device collective waits for other hosts' words, and for
 * its own host's stop. That kernel ends by itself, as the stop may be what it does not see.
 *
 * Each step has its time. Where the first kernel does not begin in time, the device is busy; where memory is
 * short, nothing is known either. Then weft tries again when the device is described next, or has another
 * queue, three times at most.
 *
 * Where a later step takes too long, or fails, the device runs no device collectives. What has not ended then
 * keeps its memory.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "devmem/ze/launch.h"

#define POLL_US    20
#define WORD_BYTES 64 /* that a word has for itself */

enum { THERE, GO, STOP, MET, SET, OTHER, COPIED, WORDS };

struct probe {
    struct weft_device *device;
    int ordinal;
    char *words;                         /* in host memory of the driver's */
    struct weft_device_queue *queues[2]; /* with the kernel that waits, and with what has to get by */
    int is_open;                         /* no kernel began, or memory was short */
    char *text;                          /* why not */
};

static ze_context_handle_t context_of(const struct probe *probe)
{
    return probe->device->places[probe->device->ordinals[probe->ordinal].place].context;
}

static uint64_t *word_of(const struct probe *probe, int word)
{
    return (uint64_t *)(void *)(probe->words + word * WORD_BYTES);
}

static int is_set(const struct probe *probe, int word)
{
    return __atomic_load_n(word_of(probe, word), __ATOMIC_ACQUIRE) != 0;
}

/* The kernel of the second queue finds its word set, and ends at once. With the launcher's lock. */
static ze_result_t launch(const struct probe *probe, ze_kernel_handle_t kernel, int which)
{
    static const int numbers[2][4] = {{THERE, GO, STOP, MET}, {OTHER, SET, STOP, MET}};
    ze_result_t result = ZE_RESULT_SUCCESS;
    for (uint32_t i = 0; i < 4 && result == ZE_RESULT_SUCCESS; i++) {
        uint64_t *word = word_of(probe, numbers[which][i]);
        result = probe->device->driver.zeKernelSetArgumentValue(kernel, i, sizeof word, &word);
    }
    if (result == ZE_RESULT_SUCCESS)
        result = weft_ze_channel_append(probe->queues[which],
                                        &(struct weft_ze_command){.kernel = kernel, .blocks = 1});
    probe->queues[which]->is_open_ended = 1;
    return result;
}

static void fail(struct probe *probe, ze_result_t result, const char *what)
{
    weft_ze_word(result, probe->text, "%s device %d", what, probe->ordinal);
    probe->is_open = weft_ze_status(result) == WEFT_NOMEM;
}

/* Why the kernel is not there. */
static void say_why(struct probe *probe)
{
    struct weft_ze_launcher *launcher = weft_ze_launcher_look(probe->device, probe->ordinal);
    if (!launcher)
        return;
    const struct weft_ze_module *module = &launcher->modules[weft_ze_module_of(WEFT_ZE_PROBE)];
    snprintf(probe->text, WEFT_ZE_TEXT, "%s", module->text);
    probe->is_open = module->state == WEFT_ZE_MODULE_UNTRIED;
    pthread_mutex_unlock(&launcher->lock);
}

/* What a queue has to do, and a mark behind it: 1, or 0 with a text. */
static int start(struct probe *probe, int which, struct weft_device_event **behind)
{
    int status = WEFT_OK;
    struct weft_ze_launcher *launcher =
        weft_ze_launcher_lock(probe->queues[which], WEFT_ZE_PROBE, WEFT_OR, &status);
    if (!launcher) {
        say_why(probe);
        return 0;
    }
    ze_result_t result = launch(probe, launcher->kernels[WEFT_ZE_PROBE], which);
    pthread_mutex_unlock(&launcher->lock);
    if (result != ZE_RESULT_SUCCESS) {
        fail(probe, result, "running a kernel on");
        return 0;
    }
    if (which == 1)
        status = weft_ze_copy(probe->queues[1], word_of(probe, COPIED), word_of(probe, OTHER), WORD_BYTES);
    if (status == WEFT_OK)
        status = weft_ze_mark(probe->queues[which], behind);
    probe->is_open = status == WEFT_NOMEM;
    if (status != WEFT_OK)
        snprintf(probe->text, WEFT_ZE_TEXT, "Level Zero device %d took no work behind a kernel",
                 probe->ordinal);
    return status == WEFT_OK;
}

static int is_late(struct probe *probe, const char *what)
{
    weft_ze_late(probe->text, probe->ordinal, what);
    return 0;
}

static int is_set_soon(const struct probe *probe, int word)
{
    int64_t deadline_ns = weft_clock_ns() + WEFT_ZE_SOON_MS * INT64_C(1000000);
    while (!is_set(probe, word) && weft_clock_ns() < deadline_ns)
        usleep(POLL_US);
    return is_set(probe, word);
}

static int get_on(struct probe *probe)
{
    struct weft_device_event *behind;
    __atomic_store_n(word_of(probe, SET), 1, __ATOMIC_RELEASE);
    if (!start(probe, 0, &behind))
        return 0;
    weft_ze_event_free(behind);
    probe->is_open = !is_set_soon(probe, THERE);
    if (probe->is_open)
        return is_late(probe, "did not begin a kernel");
    if (!start(probe, 1, &behind))
        return 0;
    int is_by = weft_ze_event_is_soon(behind) && is_set(probe, COPIED);
    weft_ze_event_free(behind);
    if (!is_by)
        return is_late(probe, "runs no queue beside a kernel that waits,");
    __atomic_store_n(word_of(probe, GO), 1, __ATOMIC_RELEASE);
    return is_set_soon(probe, MET) || is_late(probe, "has kernels that do not see what the host writes,");
}

/* Memory that a kernel may still look at stays: 0. A busy device comes to no end now, and is not waited for. */
static int close_queue(struct probe *probe, struct weft_device_queue *queue)
{
    struct weft_device_event *end;
    int is_over = weft_ze_mark(queue, &end) == WEFT_OK;
    if (is_over) {
        weft_ze_event_use(end);
        weft_ze_queue_stands(queue, end);
    }
    weft_ze_queue_close(queue);
    if (!is_over)
        return 0;
    is_over = probe->device->driver.zeEventQueryStatus(end->handle) != ZE_RESULT_NOT_READY;
    weft_ze_event_free(end);
    return is_over;
}

/* Memory that kernels may still look at stays until the kind is closed; no other thread tries meanwhile. */
static void words_end(struct probe *probe, int is_over)
{
    struct weft_ze_ordinal *known = &probe->device->ordinals[probe->ordinal];
    if (is_over)
        probe->device->driver.zeMemFree(context_of(probe), probe->words);
    else
        known->launcher->words[known->trials[WEFT_ZE_BESIDE_KERNEL].tries] = probe->words;
}

static int try_kernel(struct weft_device *device, int ordinal, char text[WEFT_ZE_TEXT])
{
    struct probe probe = {.device = device, .ordinal = ordinal, .text = text};
    const ze_host_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    void *words = NULL;
    int made = 0, is_over = 1, status = WEFT_OK;
    ze_result_t result =
        device->driver.zeMemAllocHost(context_of(&probe), &desc, WORDS * WORD_BYTES, WORD_BYTES, &words);
    if (result != ZE_RESULT_SUCCESS) {
        fail(&probe, result, "allocating host memory for");
        return probe.is_open ? WEFT_ZE_ANSWER_UNTRIED : WEFT_ZE_ANSWER_NO;
    }
    probe.words = memset(words, 0, WORDS * WORD_BYTES);
    while (made < 2 && (status = weft_ze_queue_make(device, ordinal, &probe.queues[made])) == WEFT_OK)
        made++;
    probe.is_open = status == WEFT_NOMEM;
    if (made < 2)
        snprintf(text, WEFT_ZE_TEXT, "Level Zero device %d has no two queues more", ordinal);
    int gets_on = made == 2 && get_on(&probe);
    __atomic_store_n(word_of(&probe, STOP), 1, __ATOMIC_RELEASE);
    for (int i = 0; i < made; i++)
        is_over &= close_queue(&probe, probe.queues[i]);
    words_end(&probe, is_over);
    return gets_on ? WEFT_ZE_ANSWER_YES : probe.is_open ? WEFT_ZE_ANSWER_UNTRIED : WEFT_ZE_ANSWER_NO;
}

/* --- of both trials */

/* With the probe's lock. */
static void find_out(struct weft_device *device, int ordinal, int which)
{
    struct weft_ze_trial *trial = &device->ordinals[ordinal].trials[which];
    int is_kernel = which == WEFT_ZE_BESIDE_KERNEL;
    int answer = is_kernel ? try_kernel(device, ordinal, trial->text)
                           : weft_ze_try_stream(device, ordinal, trial->text);
    if (answer == WEFT_ZE_ANSWER_UNTRIED && ++trial->tries >= WEFT_ZE_TRIES)
        answer = WEFT_ZE_ANSWER_NO;
    if (answer == WEFT_ZE_ANSWER_NO)
        device->params.log(WEFT_DEVICE_LOG_INFO, "%s; %s", trial->text,
                           is_kernel ? "it runs no device collectives" : "its streams cannot wait for calls");
    if (answer == WEFT_ZE_ANSWER_YES && is_kernel)
        atomic_store(&device->ordinals[ordinal].limit_ms, weft_ze_limit_ms(device, ordinal));
    atomic_store(&trial->answer, answer);
}

int weft_ze_try(struct weft_device *device, int ordinal, int which, char text[WEFT_ZE_TEXT])
{
    struct weft_ze_trial *trial = &device->ordinals[ordinal].trials[which];
    struct weft_ze_launcher *launcher = NULL;
    if (atomic_load(&trial->answer) == WEFT_ZE_ANSWER_UNTRIED) {
        launcher = weft_ze_launcher_of(device, ordinal);
        if (!launcher) {
            snprintf(text, WEFT_ZE_TEXT, "no memory to try what device %d does", ordinal);
            return 0;
        }
        pthread_mutex_lock(&launcher->probe_lock); /* the others wait for what comes of it */
        if (atomic_load(&trial->answer) == WEFT_ZE_ANSWER_UNTRIED)
            find_out(device, ordinal, which);
    }
    memcpy(text, trial->text, WEFT_ZE_TEXT);
    if (launcher)
        pthread_mutex_unlock(&launcher->probe_lock);
    return atomic_load(&trial->answer) == WEFT_ZE_ANSWER_YES;
}

int weft_ze_meets(struct weft_device *device, int ordinal)
{
    return atomic_load(&device->ordinals[ordinal].trials[WEFT_ZE_BESIDE_KERNEL].answer) == WEFT_ZE_ANSWER_YES;
}

void weft_ze_probe(struct weft_device *device, int ordinal)
{
    char text[WEFT_ZE_TEXT];
    if (weft_ze_has_kernels())
        weft_ze_try(device, ordinal, WEFT_ZE_BESIDE_KERNEL, text);
}

int weft_ze_queue_open(struct weft_device *device, int ordinal, struct weft_device_queue **opened)
{
    char text[WEFT_ZE_TEXT];
    int status = weft_ze_queue_make(device, ordinal, opened);
    if (status == WEFT_OK) { /* here, where it may wait */
        weft_ze_probe(device, ordinal);
        weft_ze_streams_wait(device, ordinal, text);
    }
    return status;
}
