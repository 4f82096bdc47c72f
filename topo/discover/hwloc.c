/* SPDX-License-Identifier: Apache-2.0 */
/* libhwloc, loaded when it is asked and let go afterwards.
 *
 * It is asked for its XML, which our own reader turns into the graph: one conversion for this machine and for files,
 * and no structures of hwloc's here. Only calls that hwloc 2 has kept since 2.0 are used.
 *
 * hwloc prints what it does not understand on the program's stderr unless HWLOC_HIDE_ERRORS is 2. A library must not
 * edit the environment that other threads may be reading, so hwloc gets another array for the time of the call: the
 * same strings and this one behind them. The array is never freed, as a thread may still be looking at it. Should the
 * program itself change its environment meanwhile, the C library has made an array of its own, and the variable is
 * taken out of that.
 *
 * Parts of hwloc that would open GPUs' runtimes (CUDA, OpenCL, displays) or move the calling thread from processor to
 * processor (x86) are turned off: the first take seconds and memory, and the second disturbs the program.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/error.h"
#include "base/runtime.h"
#include "base/secure.h"
#include "base/signals.h"
#include "topo/discover/discover.h"

#define QUIET "HWLOC_HIDE_ERRORS"

#define API_MAJOR 2
#define FLAG_ALLOW_DISALLOWED                                                                                \
    1UL                    /* HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED: the machine, not this cgroup's share */
#define FLAG_BLACKLIST 1UL /* HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST */
#define KEEP_IMPORTANT 3   /* HWLOC_TYPE_FILTER_KEEP_IMPORTANT */

struct library {
    unsigned (*get_api_version)(void);
    int (*init)(void **topology);
    int (*set_flags)(void *topology, unsigned long flags);
    int (*set_io_types_filter)(void *topology, int filter);
    int (*set_components)(void *topology, unsigned long flags, const char *name); /* since 2.1 */
    int (*load)(void *topology);
    int (*export_xmlbuffer)(void *topology, char **xml, int *size, unsigned long flags);
    void (*free_xmlbuffer)(void *topology, char *xml);
    void (*destroy)(void *topology);
};

#define FUNCTION(name, field, optional)                                                                      \
    {                                                                                                        \
        "hwloc_" name, offsetof(struct library, field), optional                                             \
    }
static const struct weft_live_function functions[] = {
    FUNCTION("get_api_version", get_api_version, 0),
    FUNCTION("topology_init", init, 0),
    FUNCTION("topology_set_flags", set_flags, 0),
    FUNCTION("topology_set_io_types_filter", set_io_types_filter, 0),
    FUNCTION("topology_set_components", set_components, 1),
    FUNCTION("topology_load", load, 0),
    FUNCTION("topology_export_xmlbuffer", export_xmlbuffer, 0),
    FUNCTION("free_xmlbuffer", free_xmlbuffer, 0),
    FUNCTION("topology_destroy", destroy, 0),
};

/* --- the environment that hwloc sees */

/* Held while hwloc's environment is in place; guards kept. */
static pthread_mutex_t quiet_lock = PTHREAD_MUTEX_INITIALIZER;

/* Arrays stay: the last is used again while it is large enough, the others only wait. */
static struct kept {
    struct kept *older;
    size_t room;
    char *strings[];
} * kept;

struct quiet {
    char **before, **instead;
};

static int is_quiet(void)
{
    for (char **variable = environ; variable && *variable; variable++) {
        if (strncmp(*variable, QUIET "=", sizeof QUIET) == 0)
            return 1; /* the user's own choice */
    }
    return 0;
}

static int quiet_begin(struct quiet *quiet)
{
    static char choice[] = QUIET "=2";
    pthread_mutex_lock(&quiet_lock);
    *quiet = (struct quiet){.before = environ};
    if (is_quiet())
        return WEFT_OK;
    size_t count = 0;
    while (environ && environ[count])
        count++;
    if (!kept || kept->room < count + 2) {
        size_t room = 2 * count + 16;
        struct kept *made = malloc(sizeof *made + room * sizeof *made->strings);
        if (!made) {
            pthread_mutex_unlock(&quiet_lock);
            return weft_fail(WEFT_NOMEM, "no memory to ask hwloc");
        }
        made->older = kept;
        made->room = room;
        kept = made;
    }
    for (size_t i = 0; i < count; i++)
        kept->strings[i] = environ[i];
    kept->strings[count] = choice;
    kept->strings[count + 1] = NULL;
    quiet->instead = kept->strings;
    environ = kept->strings;
    return WEFT_OK;
}

static void quiet_end(const struct quiet *quiet)
{
    if (quiet->instead && environ == quiet->instead)
        environ = quiet->before;
    else if (quiet->instead)
        unsetenv(QUIET);
    pthread_mutex_unlock(&quiet_lock);
}

/* --- asking */

static int discover(const struct library *hwloc, char **xml, size_t *size)
{
    static const char *const unwanted[] = {"x86", "cuda", "opencl", "gl", "nvml", "levelzero"};
    void *topology = NULL;
    if (hwloc->get_api_version() >> 16 != API_MAJOR || hwloc->init(&topology) != 0)
        return weft_fail(WEFT_MISSING, WEFT_RUNTIME_HWLOC " is no hwloc 2 that works");
    int status = WEFT_MISSING, length = 0;
    char *buffer = NULL;
    for (size_t i = 0; hwloc->set_components && i < sizeof unwanted / sizeof *unwanted; i++)
        hwloc->set_components(topology, FLAG_BLACKLIST, unwanted[i]);
    if (hwloc->set_flags(topology, FLAG_ALLOW_DISALLOWED) != 0 ||
        hwloc->set_io_types_filter(topology, KEEP_IMPORTANT) != 0 || hwloc->load(topology) != 0 ||
        hwloc->export_xmlbuffer(topology, &buffer, &length, 0) != 0 || length <= 0) {
        weft_fail(WEFT_MISSING, "hwloc does not tell what this machine is");
        goto destroy_topology;
    }
    char *copy = malloc((size_t)length);
    status = copy ? WEFT_OK : weft_fail(WEFT_NOMEM, "no memory for hwloc's XML");
    if (copy) {
        memcpy(copy, buffer, (size_t)length);
        *xml = copy;
        *size = strnlen(copy, (size_t)length);
    }
    hwloc->free_xmlbuffer(topology, buffer);
destroy_topology:
    hwloc->destroy(topology);
    return status;
}

/* A program with more rights than its caller loads nothing that the caller's variables name, such as HWLOC_PLUGINS_PATH. */
static int may_load(void)
{
    for (char **variable = environ; weft_secure_mode() && variable && *variable; variable++) {
        if (strncmp(*variable, "HWLOC_", 6) == 0)
            return 0;
    }
    return 1;
}

int weft_live_hwloc(char **xml, size_t *size)
{
    if (!may_load())
        return weft_fail(WEFT_MISSING, "a caller with fewer rights has set variables of hwloc");
    struct weft_signals signals;
    struct library hwloc;
    struct quiet quiet;
    void *handle;
    weft_signals_save(&signals);
    int status = quiet_begin(&quiet);
    if (status)
        goto restore_signals;
    status =
        weft_live_load(WEFT_RUNTIME_HWLOC, functions, sizeof functions / sizeof *functions, &hwloc, &handle);
    if (status)
        goto end_quiet;
    status = discover(&hwloc, xml, size);
    dlclose(handle);
end_quiet:
    quiet_end(&quiet);
restore_signals:
    weft_signals_restore(&signals);
    return status;
}
