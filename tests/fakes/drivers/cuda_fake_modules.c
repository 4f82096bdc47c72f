/* SPDX-License-Identifier: Apache-2.0 */
/* The fake libcuda.so.1: modules of kernels, and when they are loaded. */
#include <stdlib.h>
#include <string.h>
#include "tests/fakes/drivers/cuda_fake_sim.h"

struct sim_module {
    struct sim_function *functions;
};

struct sim_name {
    char text[64];
    struct sim_name *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_name *names;

static void note_load(CUcontext context)
{
    int is_late = sim_waits_for_word(context);
    pthread_mutex_lock(&sim.lock);
    sim.late_loads += is_late;
    pthread_mutex_unlock(&sim.lock);
}

void sim_function_load(CUfunction function, CUcontext context)
{
    pthread_mutex_lock(&lock);
    int was_loaded = function->is_loaded;
    function->is_loaded = 1;
    pthread_mutex_unlock(&lock);
    if (!was_loaded)
        note_load(context);
}

static void count_modules(int change)
{
    pthread_mutex_lock(&sim.lock);
    sim.modules += change;
    pthread_mutex_unlock(&sim.lock);
}

int cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned number, const int *options,
                       void **values)
{
    int result = sim_call(__func__);
    for (unsigned i = 0; i < number && result; i++) {
        if (options[i] == 5) /* JIT_ERROR_LOG_BUFFER */
            strcpy(values[i], "ptxas fatal: too new");
    }
    if (result)
        return result;
    if (!image || !sim_current())
        return INVALID_VALUE;
    *module = calloc(1, sizeof **module);
    count_modules(1);
    note_load(sim_current());
    return SUCCESS;
}

int cuModuleUnload(CUmodule module)
{
    CALL();
    for (struct sim_function *function; (function = module->functions);) {
        module->functions = function->next;
        free(function);
    }
    free(module);
    count_modules(-1);
    return SUCCESS;
}

/* With the lock. */
static const char *name_keep(const char *text)
{
    struct sim_name *name = names;
    while (name && strcmp(name->text, text) != 0)
        name = name->next;
    if (!name) {
        name = calloc(1, sizeof *name);
        strncpy(name->text, text, sizeof name->text - 1);
        name->next = names;
        names = name;
    }
    return name->text;
}

int cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    CALL();
    if (!module || strncmp(name, "weft_", 5) != 0)
        return NOT_FOUND;
    pthread_mutex_lock(&lock);
    for (*function = module->functions; *function && strcmp((*function)->name, name) != 0;)
        *function = (*function)->next;
    if (!*function) {
        *function = calloc(1, sizeof **function);
        (*function)->name = name_keep(name);
        (*function)->next = module->functions;
        module->functions = *function;
    }
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

int cuFuncLoad(CUfunction function)
{
    CALL();
    sim_function_load(function, sim_current());
    return SUCCESS;
}
