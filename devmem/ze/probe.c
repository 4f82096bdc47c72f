/* SPDX-License-Identifier: Apache-2.0 */
/* Whether kernels wait for each other. A device collective waits for those of other ranks, which may run in another queue of the same device. No
 * call of Level Zero says whether kernels in two queues run side by side, or one behind the other. So it is tried when a device is first
 * described, or its first queue opened: two kernels, each of which says that it is there and waits for the other one. Then they wait for a word that the
 * host stores when both are there: a device collective waits for other hosts' words, and for its own host's stop, while it runs. The kernels end by
 * themselves, as the stop may be what they do not see.
 *
 * Time counts from when one of them is there. Where neither is in time, as the device is busy, or memory is short, nothing is known yet: it is tried
 * again when the device is described next, or has another queue, three times at most.
 *
 * Where they do not meet in time, or it cannot be tried for another reason, the device runs no device collectives. What has not ended then keeps its memory.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "devmem/ze/launch.h"

#define PROBE_MS   500
#define POLL_US    20
#define WORD_BYTES 64 /* that a word has for itself */

enum { OWN, OTHER, GO, STOP, MET, OTHER_MET, WORDS };

struct probe {
    struct weft_device *device;
    int ordinal;
    char *words; /* in host memory of the driver's */
    struct weft_device_queue *queues[2];
    int is_open;             /* neither kernel began, or memory was short */
    char text[WEFT_ZE_TEXT]; /* why not */
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

/* It signals its end, as it may never end. With the launcher's lock. */
static ze_result_t launch(const struct probe *probe, ze_kernel_handle_t kernel, int which)
{
    const struct weft_ze_driver *driver = &probe->device->driver;
    uint64_t *const words[] = {word_of(probe, which ? OTHER : OWN), word_of(probe, which ? OWN : OTHER),
                               word_of(probe, GO), word_of(probe, STOP),
                               word_of(probe, which ? OTHER_MET : MET)};
    struct weft_device_event *end = weft_ze_event_get(probe->device, probe->ordinal);
    ze_result_t result = end ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < sizeof words / sizeof *words && result == ZE_RESULT_SUCCESS; i++)
        result = driver->zeKernelSetArgumentValue(kernel, i, sizeof words[i], &words[i]);
    if (result == ZE_RESULT_SUCCESS)
        result = weft_ze_channel_append(
            probe->queues[which],
            &(struct weft_ze_command){.kernel = kernel, .blocks = 1, .signal = end->handle});
    if (result == ZE_RESULT_SUCCESS)
        weft_ze_queue_stands(probe->queues[which], end);
    else if (end)
        weft_ze_event_unused(end);
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
    snprintf(probe->text, sizeof probe->text, "%s", module->text);
    probe->is_open = module->state == WEFT_ZE_MODULE_UNTRIED;
    pthread_mutex_unlock(&launcher->lock);
}

static int start(struct probe *probe)
{
    int status;
    struct weft_ze_launcher *launcher =
        weft_ze_launcher_lock(probe->queues[0], WEFT_ZE_PROBE, WEFT_OR, &status);
    ze_result_t result = ZE_RESULT_SUCCESS;
    if (!launcher) {
        say_why(probe);
        return 0;
    }
    for (int i = 0; i < 2 && result == ZE_RESULT_SUCCESS; i++)
        result = launch(probe, launcher->kernels[WEFT_ZE_PROBE], i);
    pthread_mutex_unlock(&launcher->lock);
    if (result != ZE_RESULT_SUCCESS)
        fail(probe, result, "running two kernels on");
    return result == ZE_RESULT_SUCCESS;
}

static int meet(struct probe *probe)
{
    int64_t deadline_ns = weft_clock_ns() + PROBE_MS * INT64_C(1000000);
    int has_begun = 0, is_there = 0;
    while (!(is_set(probe, MET) && is_set(probe, OTHER_MET)) && weft_clock_ns() < deadline_ns) {
        if (!has_begun && (is_set(probe, OWN) || is_set(probe, OTHER))) {
            has_begun = 1;
            deadline_ns = weft_clock_ns() + PROBE_MS * INT64_C(1000000);
        }
        if (!is_there && is_set(probe, OWN) && is_set(probe, OTHER)) {
            is_there = 1;
            __atomic_store_n(word_of(probe, GO), 1, __ATOMIC_RELEASE);
        }
        usleep(POLL_US);
    }
    if (is_set(probe, MET) && is_set(probe, OTHER_MET))
        return 1;
    probe->is_open = !has_begun;
    snprintf(probe->text, sizeof probe->text,
             has_begun ? "Level Zero device %d did not run two kernels side by side%s within %d ms"
                       : "Level Zero device %d did not begin a kernel%s within %d ms",
             probe->ordinal, is_there ? " that see what the host writes" : "", PROBE_MS);
    return 0;
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

static int run(struct probe *probe)
{
    struct weft_device *device = probe->device;
    const ze_host_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    void *words = NULL;
    int made = 0, is_over = 1;
    ze_result_t result =
        device->driver.zeMemAllocHost(context_of(probe), &desc, WORDS * WORD_BYTES, WORD_BYTES, &words);
    if (result != ZE_RESULT_SUCCESS) {
        fail(probe, result, "allocating host memory for");
        return 0;
    }
    probe->words = memset(words, 0, WORDS * WORD_BYTES);
    int status = WEFT_OK;
    while (made < 2 && (status = weft_ze_queue_make(device, probe->ordinal, &probe->queues[made])) == WEFT_OK)
        made++;
    probe->is_open = status == WEFT_NOMEM;
    if (made < 2)
        snprintf(probe->text, sizeof probe->text, "Level Zero device %d has no two queues more",
                 probe->ordinal);
    int meets = made == 2 && start(probe) && meet(probe);
    __atomic_store_n(word_of(probe, STOP), 1, __ATOMIC_RELEASE);
    for (int i = 0; i < made; i++)
        is_over &= close_queue(probe, probe->queues[i]);
    if (is_over)
        device->driver.zeMemFree(context_of(probe), words);
    else /* until the kind is closed; no other thread probes */
        device->ordinals[probe->ordinal].launcher->words[device->ordinals[probe->ordinal].launcher->tries] =
            words;
    return meets;
}

void weft_ze_probe(struct weft_device *device, int ordinal)
{
    struct probe probe = {.device = device, .ordinal = ordinal};
    atomic_int *answer = &device->ordinals[ordinal].meets;
    if (!weft_ze_has_kernels() || atomic_load(answer) != WEFT_ZE_ANSWER_UNTRIED)
        return;
    struct weft_ze_launcher *launcher = weft_ze_launcher_look(device, ordinal);
    if (!launcher)
        return;
    pthread_mutex_unlock(&launcher->lock);
    pthread_mutex_lock(&launcher->probe_lock); /* the others wait for what comes of it */
    int is_known = atomic_load(answer) != WEFT_ZE_ANSWER_UNTRIED;
    int meets = is_known ? 1 : run(&probe), is_again = 0;
    if (!is_known) {
        pthread_mutex_lock(&launcher->lock);
        is_again = probe.is_open && ++launcher->tries < WEFT_ZE_TRIES;
        memcpy(launcher->meets_text, probe.text, sizeof launcher->meets_text);
        atomic_store(answer, meets      ? WEFT_ZE_ANSWER_YES
                             : is_again ? WEFT_ZE_ANSWER_UNTRIED
                                        : WEFT_ZE_ANSWER_NO);
        pthread_mutex_unlock(&launcher->lock);
    }
    if (!meets && !is_again)
        device->params.log(WEFT_DEVICE_LOG_INFO, "%s; it runs no device collectives", probe.text);
    pthread_mutex_unlock(&launcher->probe_lock);
}

int weft_ze_meets(struct weft_device *device, int ordinal)
{
    return weft_ze_has_kernels() && atomic_load(&device->ordinals[ordinal].meets) == WEFT_ZE_ANSWER_YES;
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
