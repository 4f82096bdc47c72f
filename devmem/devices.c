/* SPDX-License-Identifier: Apache-2.0 */
#include "devmem/devices.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/log.h"
#include "base/signals.h"
#include "devmem/host.h"

#define KINDS_MAX 24

struct weft_devices {
    pthread_mutex_t lock; /* held while kinds are opened */
    atomic_int is_open;   /* the rest does not change any more */
    char *allowed;
    char *plugins;
    char *options; /* its separators cut out: each part ends with a NUL; options_size is that of all */
    size_t options_size;
    int count, asked;
    struct weft_device_kind *kinds[KINDS_MAX];     /* the first is host, which is open from the beginning */
    const struct weft_device_kind *ask[KINDS_MAX]; /* the others that are open */
    atomic_int in_use;                             /* once some kind has been */
    atomic_llong not_used_ns;                      /* by the coarse clock, when none was */
};

/* --- what the settings say */

/* Whether a list ("cuda,sim" or "^cuda") has the name. */
static int list_has(const char *list, const char *name)
{
    for (const char *word = list + (*list == '^'); *word;) {
        size_t length = strcspn(word, ",");
        if (strlen(name) == length && strncmp(word, name, length) == 0)
            return 1;
        word += length + (word[length] == ',');
    }
    return 0;
}

static int is_allowed(const struct weft_devices *devices, const char *name)
{
    const char *list = devices->allowed;
    if (!*list || strcmp(name, "host") == 0)
        return 1;
    return list_has(list, name) == (*list != '^');
}

static int check_list(const char *list)
{
    char name[WEFT_DEVICE_NAME_MAX + 2];
    for (const char *word = list + (*list == '^'); *word;) {
        size_t length = strcspn(word, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, word);
        if (!weft_device_name_is_good(name))
            return weft_fail(WEFT_INVALID,
                             "WEFT_DEVICE is '%s': expected kinds of devices such as 'cuda', separated by "
                             "commas, or behind one ^ those not to use",
                             list);
        word += length + (word[length] == ',');
    }
    return *list == '^' && !list[1]
               ? weft_fail(WEFT_INVALID, "WEFT_DEVICE is '^': expected the kinds not to use behind it")
               : WEFT_OK;
}

/* Cuts "kind:options;kind:options" into its parts. */
static int cut_options(struct weft_devices *devices)
{
    devices->options_size = strlen(devices->options);
    for (char *part = devices->options; *part;) {
        char *end = part + strcspn(part, ";"), *colon = strchr(part, ':');
        if (end != part && (!colon || colon > end || colon == part))
            return weft_fail(WEFT_INVALID,
                             "WEFT_DEVICE_OPTIONS has '%.*s': expected a kind of device, a colon and its "
                             "options; another kind's behind a semicolon",
                             (int)(end - part), part);
        part = *end ? end + 1 : end;
        *end = '\0';
    }
    return WEFT_OK;
}

static const char *options_of(const struct weft_devices *devices, const char *name)
{
    size_t length = strlen(name);
    for (const char *part = devices->options, *end = part + devices->options_size; part < end;
         part += strlen(part) + 1) {
        if (strncmp(part, name, length) == 0 && part[length] == ':')
            return part + length + 1;
    }
    return "";
}

/* --- opening */

/* A new entry; NULL when there is no room or memory, which is logged. */
static struct weft_device_kind *add(struct weft_devices *devices, const char *name, const char *source)
{
    struct weft_device_kind *kind = devices->count < KINDS_MAX ? calloc(1, sizeof *kind) : NULL;
    if (!kind) {
        weft_log(WEFT_LOG_ERROR, "devices: no room for '%s', kind %d of at most %d", *name ? name : source,
                 devices->count + 1, KINDS_MAX);
        return NULL;
    }
    snprintf(kind->name, sizeof kind->name, "%s", name);
    snprintf(kind->source, sizeof kind->source, "%s", source);
    devices->kinds[devices->count++] = kind;
    return kind;
}

/* Keeps why a kind does not work: the calling thread's last failure. Said aloud where somebody asked for the kind. */
static void give_up(const struct weft_devices *devices, struct weft_device_kind *kind, int status)
{
    kind->status = status;
    snprintf(kind->reason, sizeof kind->reason, "%s", weft_error_detail());
    int is_asked_for =
        status != WEFT_NOT_FOUND || *kind->source == '/' || list_has(devices->allowed, kind->name);
    weft_log(is_asked_for ? WEFT_LOG_WARN : WEFT_LOG_INFO, "devices: %s cannot be used: %s",
             *kind->name ? kind->name : "a plug-in", kind->reason);
}

static const struct weft_device_kind *find(const struct weft_devices *devices, const char *name)
{
    for (int i = 0; i < devices->count; i++) {
        if (strcmp(devices->kinds[i]->name, name) == 0)
            return devices->kinds[i];
    }
    return NULL;
}

static void open_kind(struct weft_devices *devices, struct weft_device_kind *kind,
                      const struct weft_device_ops *ops)
{
    struct weft_device_params params = {.size = sizeof params, .fail = weft_fail, .log = weft_log_line};
    int status = weft_device_complete(ops, &kind->ops);
    if (status != WEFT_OK) {
        give_up(devices, kind, status);
        return;
    }
    if (!is_allowed(devices, kind->ops.name)) {
        kind->status = WEFT_NOT_FOUND;
        snprintf(kind->reason, sizeof kind->reason, "left out: WEFT_DEVICE is '%s'", devices->allowed);
        return;
    }
    params.options = options_of(devices, kind->ops.name);
    /* Those of the library have none; a plug-in looks at its own. */
    if (*params.options && weft_device_find(kind->ops.name) == ops) {
        kind->status = WEFT_INVALID;
        snprintf(kind->reason, sizeof kind->reason,
                 "WEFT_DEVICE_OPTIONS has '%.60s' for it: expected nothing, as it has no options",
                 params.options);
        return;
    }
    weft_error_set_detail("it does not say why");
    status = kind->ops.open(&params, &kind->device);
    if (status != WEFT_OK)
        give_up(devices, kind, status);
    else if (ops != &weft_host_device_ops)
        devices->ask[devices->asked++] = kind;
}

/* A plug-in's name is known only when it has been loaded, and must not be another's. */
static int check_name(const struct weft_devices *devices, const char *path, const struct weft_plugin *plugin,
                      char name[WEFT_DEVICE_NAME_MAX + 1])
{
    struct weft_device_ops ops;
    int status = weft_device_complete(plugin->ops, &ops);
    if (status != WEFT_OK)
        return status;
    const struct weft_device_kind *taken = find(devices, ops.name);
    if (taken)
        return weft_fail(WEFT_INVALID, "plug-in '%s' calls its kind '%s', as does %s", path, ops.name,
                         *taken->source == '/' ? taken->source : "one that is built in");
    snprintf(name, WEFT_DEVICE_NAME_MAX + 1, "%s", ops.name);
    return WEFT_OK;
}

static void open_plugin(struct weft_devices *devices, const char *path)
{
    char name[WEFT_DEVICE_NAME_MAX + 1] = "";
    struct weft_plugin plugin = {0};
    int status = weft_plugin_load(path, &plugin);
    if (status == WEFT_OK)
        status = check_name(devices, path, &plugin, name);
    struct weft_device_kind *kind = add(devices, name, path);
    if (kind && status != WEFT_OK) {
        give_up(devices, kind, status);
    } else if (kind) {
        struct weft_signals signals;
        weft_signals_save(&signals);
        open_kind(devices, kind, plugin.ops);
        weft_signals_restore(&signals);
    }
    if (kind && kind->status == WEFT_OK)
        kind->plugin = plugin;
    else if (plugin.handle)
        weft_plugin_unload(&plugin);
}

static void open_built_in(struct weft_devices *devices)
{
    const struct weft_device_ops *ops;
    for (size_t i = 0; (ops = weft_device_built_in(i)) != NULL; i++) {
        struct weft_device_kind *kind =
            ops == &weft_host_device_ops ? NULL : add(devices, ops->name, "built in");
        if (kind)
            open_kind(devices, kind, ops);
    }
}

static void open_plugins(struct weft_devices *devices)
{
    for (char *path = devices->plugins, *end; *path; path = end) {
        end = path + strcspn(path, ":");
        if (*end)
            *end++ = '\0';
        if (*path)
            open_plugin(devices, path);
    }
}

/* Names in WEFT_DEVICE that nobody has are mistakes, but for those that are not to be used. */
static void note_unknown(struct weft_devices *devices)
{
    char name[WEFT_DEVICE_NAME_MAX + 1];
    for (const char *word = *devices->allowed == '^' ? "" : devices->allowed; *word;) {
        size_t length = strcspn(word, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, word);
        word += length + (word[length] == ',');
        if (find(devices, name))
            continue;
        weft_fail(WEFT_NOT_FOUND, "WEFT_DEVICE is '%s': no kind '%s' is built in or comes from a plug-in",
                  devices->allowed, name);
        struct weft_device_kind *kind = add(devices, name, "nowhere");
        if (kind)
            give_up(devices, kind, WEFT_NOT_FOUND);
    }
}

static void open_all(struct weft_devices *devices)
{
    if (atomic_load_explicit(&devices->is_open, memory_order_acquire))
        return;
    pthread_mutex_lock(&devices->lock);
    if (!atomic_load_explicit(&devices->is_open, memory_order_relaxed)) {
        char detail[WEFT_DETAIL_MAX];
        snprintf(detail, sizeof detail, "%s", weft_error_detail());
        open_built_in(devices);
        open_plugins(devices);
        note_unknown(devices);
        weft_error_set_detail(detail);
        atomic_store_explicit(&devices->is_open, 1, memory_order_release);
    }
    pthread_mutex_unlock(&devices->lock);
}

/* --- the set */

void weft_devices_destroy(struct weft_devices *devices)
{
    if (!devices)
        return;
    for (int i = devices->count - 1; i >= 0; i--) {
        struct weft_device_kind *kind = devices->kinds[i];
        if (kind->device)
            kind->ops.close(kind->device);
        if (kind->plugin.handle)
            weft_plugin_unload(&kind->plugin);
        free(kind);
    }
    pthread_mutex_destroy(&devices->lock);
    free(devices->allowed);
    free(devices->plugins);
    free(devices->options);
    free(devices);
}

int weft_devices_create(const char *allowed, const char *plugins, const char *options,
                        struct weft_devices **devices)
{
    struct weft_devices *made = calloc(1, sizeof *made);
    if (!made)
        return weft_fail(WEFT_NOMEM, "no memory for devices");
    pthread_mutex_init(&made->lock, NULL);
    made->allowed = strdup(allowed);
    made->plugins = strdup(plugins);
    made->options = strdup(options);
    int status = made->allowed && made->plugins && made->options
                     ? check_list(allowed)
                     : weft_fail(WEFT_NOMEM, "no memory for devices");
    if (status == WEFT_OK)
        status = cut_options(made);
    struct weft_device_kind *host = status == WEFT_OK ? add(made, "host", "built in") : NULL;
    if (host)
        open_kind(made, host, &weft_host_device_ops);
    if (status == WEFT_OK && (!host || host->status != WEFT_OK))
        status = weft_fail(WEFT_NOMEM, "no memory for devices");
    if (status == WEFT_OK)
        *devices = made;
    else
        weft_devices_destroy(made);
    return status;
}

int weft_devices_count(struct weft_devices *devices)
{
    open_all(devices);
    return devices->count;
}

const struct weft_device_kind *weft_devices_kind(struct weft_devices *devices, int index)
{
    open_all(devices);
    return index >= 0 && index < devices->count ? devices->kinds[index] : NULL;
}

const struct weft_device_kind *weft_devices_find(struct weft_devices *devices, const char *name)
{
    open_all(devices);
    const struct weft_device_kind *kind = find(devices, name);
    return kind && kind->status == WEFT_OK ? kind : NULL;
}

/* A kind may have to take the loader's lock to say no, and every call asks. So it is asked once in a tick of the coarse clock, a
 * few milliseconds: less than what a driver takes from being loaded to its first memory. */
void weft_devices_use(struct weft_devices *devices)
{
    atomic_store_explicit(&devices->in_use, 1, memory_order_relaxed);
}

int weft_devices_in_use(struct weft_devices *devices)
{
    struct timespec now;
    if (atomic_load_explicit(&devices->in_use, memory_order_relaxed))
        return 1;
    open_all(devices);
    if (!devices->asked)
        return 0;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    long long now_ns = (long long)now.tv_sec * 1000000000 + now.tv_nsec;
    if (atomic_load_explicit(&devices->not_used_ns, memory_order_relaxed) == now_ns)
        return 0;
    for (int i = 0; i < devices->asked; i++) {
        if (devices->ask[i]->ops.in_use(devices->ask[i]->device)) {
            atomic_store_explicit(&devices->in_use, 1, memory_order_relaxed);
            return 1;
        }
    }
    atomic_store_explicit(&devices->not_used_ns, now_ns, memory_order_relaxed);
    return 0;
}

const struct weft_device_kind *weft_devices_identify(struct weft_devices *devices, const void *pointer,
                                                     struct weft_device_span *span)
{
    open_all(devices);
    for (int i = 0; i < devices->asked; i++) {
        const struct weft_device_kind *kind = devices->ask[i];
        span->size = sizeof *span;
        if (kind->ops.identify(kind->device, pointer, span) == WEFT_OK)
            return kind;
    }
    span->size = sizeof *span;
    weft_host_span(span);
    return devices->kinds[0];
}
