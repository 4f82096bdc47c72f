/* SPDX-License-Identifier: Apache-2.0 */
#include "devmem/kernels/check.h"

#include <stdio.h>

#define SPANS_KNOWN 16

struct check {
    const struct weft_device_params *params;
    weft_kernel_reach *reach;
    void *arg;
    uint32_t step;        /* that is being checked */
    uint32_t count, next; /* next: to be replaced */
    struct {
        uintptr_t begin, end;
    } known[SPANS_KNOWN];
};

int weft_kernel_collective_check(const struct weft_device_params *params,
                                 const struct weft_device_collective *collective)
{
    const uint64_t *stop = collective->stop;
    if (collective->size < sizeof *collective)
        return params->fail(WEFT_INVALID, "a device collective's struct has %zu bytes: expected %zu",
                            collective->size, sizeof *collective);
    if (collective->step_count < 1 || collective->step_count > WEFT_DEVICE_STEPS_MAX)
        return params->fail(WEFT_INVALID, "a device collective of %u steps: expected 1 to %d",
                            collective->step_count, WEFT_DEVICE_STEPS_MAX);
    if ((uintptr_t)stop % sizeof *stop)
        return params->fail(WEFT_INVALID, "a device collective's stop is at %p: expected a multiple of %zu",
                            (const void *)stop, sizeof *stop);
    return WEFT_OK;
}

/* How far from an address on; 0: nobody has looked. */
static uint64_t left_in_known(const struct check *check, uintptr_t at)
{
    for (uint32_t i = 0; i < check->count; i++) {
        if (at >= check->known[i].begin && at < check->known[i].end)
            return check->known[i].end - at;
    }
    return 0;
}

static int look(struct check *check, uintptr_t at, uint64_t *left)
{
    char prefix[48];
    uintptr_t begin, end;
    snprintf(prefix, sizeof prefix, "step %u of a device collective: ", check->step);
    int status = check->reach(check->arg, (const void *)at, prefix, &begin, &end);
    if (status != WEFT_OK)
        return status;
    uint32_t place = check->count < SPANS_KNOWN ? check->count : check->next++ % SPANS_KNOWN;
    check->known[place].begin = begin;
    check->known[place].end = end;
    check->count += place == check->count;
    *left = end - at;
    return WEFT_OK;
}

/* All size bytes, which may lie in several spans. */
static int memory_check(struct check *check, const void *pointer, uint64_t size)
{
    uintptr_t at = (uintptr_t)pointer;
    while (size) {
        uint64_t left = left_in_known(check, at);
        int status = left ? WEFT_OK : look(check, at, &left);
        if (status != WEFT_OK)
            return status;
        uint64_t piece = left < size ? left : size;
        at += piece;
        size -= piece;
    }
    return WEFT_OK;
}

static int step_check(struct check *check, const struct weft_device_collective *collective)
{
    const struct weft_device_params *params = check->params;
    const struct weft_device_step *step = &collective->steps[check->step];
    uint64_t bytes;
    int status = WEFT_OK;
    if (step->kind > WEFT_DEVICE_STEP_AWAIT)
        return params->fail(WEFT_INVALID, "step %u of a device collective is of kind %u: expected 0 to %d",
                            check->step, step->kind, WEFT_DEVICE_STEP_AWAIT);
    if (step->kind != WEFT_DEVICE_STEP_REDUCE && (uintptr_t)step->word % sizeof *step->word)
        return params->fail(WEFT_INVALID,
                            "step %u of a device collective has its word at %p: expected a multiple of %zu",
                            check->step, (void *)step->word, sizeof *step->word);
    if (step->kind != WEFT_DEVICE_STEP_REDUCE)
        return memory_check(check, step->word, sizeof *step->word);
    if (step->source_count < 1 || step->source_count > WEFT_DEVICE_SOURCES_MAX ||
        step->destination_count < 1 || step->destination_count > WEFT_DEVICE_DESTINATIONS_MAX)
        return params->fail(
            WEFT_INVALID,
            "step %u of a device collective reduces %u sources (1 to %d) to %u destinations (1 to %d)",
            check->step, step->source_count, WEFT_DEVICE_SOURCES_MAX, step->destination_count,
            WEFT_DEVICE_DESTINATIONS_MAX);
    if (__builtin_mul_overflow(step->count, weft_dtype_size(collective->dtype), &bytes))
        return params->fail(WEFT_INVALID,
                            "step %u of a device collective has %llu elements: more than there is memory",
                            check->step, (unsigned long long)step->count);
    for (uint32_t i = 0; i < step->source_count && status == WEFT_OK; i++)
        status = memory_check(check, step->sources[i], bytes);
    for (uint32_t i = 0; i < step->destination_count && status == WEFT_OK; i++)
        status = memory_check(check, step->destinations[i], bytes);
    return status;
}

int weft_kernel_steps_check(const struct weft_device_params *params,
                            const struct weft_device_collective *collective, weft_kernel_reach *reach,
                            void *arg)
{
    struct check check = {.params = params, .reach = reach, .arg = arg};
    int status = WEFT_OK;
    for (; check.step < collective->step_count && status == WEFT_OK; check.step++)
        status = step_check(&check, collective);
    return status;
}
