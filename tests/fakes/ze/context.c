/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, and the lock of all that belongs to one. */
#include <stdlib.h>

#include "tests/fakes/ze/fake.h"

#define CONTEXTS 16

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_context *contexts[CONTEXTS];

ze_result_t fake_context_create(ze_driver_handle_t driver, const ze_context_desc_t *desc,
                                ze_context_handle_t *context)
{
    int of = fake_driver_index(driver, "zeContextCreate"), slot = 0;
    if (of < 0)
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (!fake_expect_struct(desc, ZE_STRUCTURE_TYPE_CONTEXT_DESC, "zeContextCreate"))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    pthread_mutex_lock(&fake_lock);
    while (slot < CONTEXTS && contexts[slot])
        slot++;
    struct fake_context *made = slot < CONTEXTS ? calloc(1, sizeof *made) : NULL;
    if (made) {
        made->driver = of;
        contexts[slot] = made;
        *context = (ze_context_handle_t)(void *)made;
        ze_fake.contexts++;
    }
    pthread_mutex_unlock(&fake_lock);
    return made ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
}

struct fake_context *fake_context_find(ze_context_handle_t context, const char *call)
{
    struct fake_context *found = NULL;
    pthread_mutex_lock(&fake_lock);
    for (int i = 0; i < CONTEXTS; i++) {
        if (contexts[i] && (void *)contexts[i] == (void *)context)
            found = contexts[i];
    }
    pthread_mutex_unlock(&fake_lock);
    fake_expect(found != NULL, call, "Fundamentals, Object Handles", "this is no context's handle");
    return found;
}

void fake_context_count(struct fake_context *context, int objects)
{
    pthread_mutex_lock(&fake_lock);
    context->objects += objects;
    pthread_mutex_unlock(&fake_lock);
}

ze_result_t fake_context_destroy(ze_context_handle_t context)
{
    struct fake_context *found = fake_context_find(context, "zeContextDestroy");
    if (!found)
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (!fake_expect(found->objects == 0, "zeContextDestroy", "Core Programming Guide, Contexts",
                     "the context still has objects"))
        return ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE;
    pthread_mutex_lock(&fake_lock);
    for (int i = 0; i < CONTEXTS; i++) {
        if (contexts[i] == found)
            contexts[i] = NULL;
    }
    ze_fake.contexts--;
    pthread_mutex_unlock(&fake_lock);
    free(found);
    return ZE_RESULT_SUCCESS;
}
