/* SPDX-License-Identifier: Apache-2.0 */
/* Sets, and the peer's side: pointers to what others have described. */
#include "devmem/share.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/error.h"
#include "base/log.h"
#include "devmem/command_queue.h"
#include "devmem/share_private.h"

static const struct weft_share_limits usual = {.exports_max = 256, .imports_kept = 64, .imports_max = 1024};

/* Ranks that are threads have sets of their own, and one instance. */
int weft_share_process(uint64_t *found)
{
    int status = weft_crypto_init();
    if (status != WEFT_OK)
        return status;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint64_t instance;
    static pid_t process;
    pthread_mutex_lock(&lock);
    while (!instance || process != getpid()) {
        weft_crypto_random(&instance, sizeof instance);
        process = getpid();
    }
    *found = instance;
    pthread_mutex_unlock(&lock);
    return WEFT_OK;
}

int weft_shares_open(const struct weft_share_limits *limits, struct weft_shares **shares)
{
    uint64_t instance;
    int status = weft_share_process(&instance);
    if (status != WEFT_OK)
        return status;
    struct weft_shares *opened = calloc(1, sizeof *opened);
    if (!opened)
        return weft_fail(WEFT_NOMEM, "no memory to share device memory");
    opened->instance = instance;
    opened->limits = limits ? *limits : usual;
    *shares = opened;
    return WEFT_OK;
}

uint64_t weft_share_instance(const struct weft_shares *shares)
{
    return shares->instance;
}

void weft_shares_get_stats(const struct weft_shares *shares, struct weft_share_stats *stats)
{
    *stats = shares->stats;
}

/* --- mappings */

static void unmap(struct weft_shares *shares, struct weft_share_import **at)
{
    struct weft_share_import *import = *at;
    *at = import->next;
    int status = import->kind->ops.unimport(import->kind->device, import->base);
    if (status != WEFT_OK)
        weft_log(WEFT_LOG_WARN, "devices: memory of another process stays mapped at %p: %s",
                 (void *)import->base, weft_error_detail());
    shares->stats.imports--;
    free(import);
}

void weft_shares_trim(struct weft_shares *shares)
{
    uint32_t unused = 0;
    for (struct weft_share_import **at = &shares->imports; *at;) {
        const struct weft_share_import *import = *at;
        if (!import->users && (import->is_dead || ++unused > shares->limits.imports_kept))
            unmap(shares, at);
        else
            at = &(*at)->next;
    }
}

void weft_share_forget(struct weft_shares *shares, uint64_t peer)
{
    for (struct weft_share_import *import = shares->imports; import; import = import->next)
        import->is_dead |= import->peer == peer;
}

void weft_shares_close(struct weft_shares *shares)
{
    if (!shares)
        return;
    while (shares->imports)
        unmap(shares, &shares->imports);
    weft_share_exports_free(shares);
    free(shares);
}

/* The mapping of what is described, in front from now on; NULL when there is none. What the peer had at the same place
 * before is gone: all that is not of this identity, or by another handle. */
static struct weft_share_import *find(struct weft_shares *shares, const struct weft_share_import *wanted)
{
    struct weft_share_import *found = NULL;
    for (struct weft_share_import **at = &shares->imports, *import; (import = *at);) {
        int is_same = 0;
        if (import->kind == wanted->kind && import->peer == wanted->peer &&
            import->base_there == wanted->base_there) {
            is_same = !import->is_dead && import->identity == wanted->identity &&
                      memcmp(&import->handle, &wanted->handle, sizeof import->handle) == 0;
            import->is_dead = !is_same;
        }
        if (is_same && import->ordinal == wanted->ordinal) {
            *at = import->next;
            found = import;
        } else {
            at = &import->next;
        }
    }
    if (found) {
        found->next = shares->imports;
        shares->imports = found;
    }
    return found;
}

/* How much of a span lies behind its base; 0 when the kind does not know it. */
static uint64_t mapped_length(const struct weft_device_kind *kind, const void *base)
{
    struct weft_device_span span = {.size = sizeof span};
    if (kind->ops.identify(kind->device, base, &span) != WEFT_OK || (uintptr_t)base < span.base ||
        (uintptr_t)base - span.base > span.length)
        return 0;
    return span.length - ((uintptr_t)base - span.base);
}

static int map(struct weft_shares *shares, const struct weft_share_import *wanted,
               struct weft_share_import **mapped)
{
    void *base = NULL;
    if (shares->stats.imports >= shares->limits.imports_max)
        return weft_fail(WEFT_UNSUPPORTED,
                         "%u spans of device memory of other processes are mapped, which is all there may be",
                         shares->stats.imports);
    struct weft_share_import *import = malloc(sizeof *import);
    if (!import)
        return weft_fail(WEFT_NOMEM, "no memory to remember mapped device memory");
    int status = wanted->kind->ops.import_ipc(wanted->kind->device, wanted->ordinal, &wanted->handle, &base);
    if (status != WEFT_OK) {
        char why[WEFT_DETAIL_MAX];
        snprintf(why, sizeof why, "%s", weft_error_detail());
        free(import);
        return weft_fail(WEFT_UNSUPPORTED, "%s", why);
    }
    *import = *wanted;
    import->base = base;
    import->length = mapped_length(wanted->kind, base);
    import->next = shares->imports;
    shares->imports = import;
    shares->stats.imports++;
    shares->stats.imports_made++;
    *mapped = import;
    return WEFT_OK;
}

static int reach_other(struct weft_shares *shares, const struct weft_device_kind *kind, int ordinal,
                       const struct weft_share_content *content, void **pointer,
                       struct weft_share_import **used)
{
    const struct weft_share_import wanted = {.kind = kind,
                                             .ordinal = ordinal,
                                             .peer = content->instance,
                                             .base_there = content->address - content->offset,
                                             .identity = content->identity,
                                             .handle = content->handle};
    if (!content->handle.bytes_used)
        return weft_fail(WEFT_UNSUPPORTED, "device memory of another process is described without a handle");
    struct weft_share_import *import = find(shares, &wanted);
    int is_hit = import != NULL;
    int status = is_hit ? WEFT_OK : map(shares, &wanted, &import);
    if (status != WEFT_OK)
        return status;
    if (content->offset + content->length > import->length)
        return weft_fail(WEFT_PROTOCOL,
                         "a description names %llu bytes at offset %llu of device memory of another process, "
                         "of which there are %llu",
                         (unsigned long long)content->length, (unsigned long long)content->offset,
                         (unsigned long long)import->length);
    shares->stats.import_hits += is_hit;
    import->users++;
    *pointer = import->base + content->offset;
    *used = import;
    return WEFT_OK;
}

/* --- the same process */

static int reach_own(const struct weft_device_kind *kind, int ordinal,
                     const struct weft_share_content *content, void **pointer,
                     struct weft_share_import **used)
{
    struct weft_device_span span = {.size = sizeof span};
    void *memory = (void *)(uintptr_t)content->address;
    if (kind->ops.identify(kind->device, memory, &span) != WEFT_OK || span.identity != content->identity ||
        content->length > span.base + span.length - content->address)
        return weft_fail(WEFT_PROTOCOL,
                         "a description names %llu bytes at %p of this process: memory of the kind '%s' that "
                         "is freed, or never was there",
                         (unsigned long long)content->length, memory, kind->name);
    if (!weft_command_queues_reach(kind, ordinal, memory))
        return weft_fail(WEFT_UNSUPPORTED, "%s device %d does not reach memory on device %d", kind->name,
                         ordinal, span.ordinal);
    *pointer = memory;
    *used = NULL;
    return WEFT_OK;
}

/* --- both */

int weft_share_reach(struct weft_shares *shares, const struct weft_device_kind *kind, int ordinal,
                     uint64_t peer, const struct weft_share *share, size_t size, void **pointer,
                     struct weft_share_import **import)
{
    struct weft_share_content content;
    int status = weft_share_read(share, &content);
    if (status != WEFT_OK)
        return status;
    if (content.instance != peer)
        return weft_fail(WEFT_PROTOCOL, "a description of device memory is of another process than its peer");
    if (content.length < size)
        return weft_fail(WEFT_PROTOCOL, "a description names %llu bytes of device memory: expected %zu",
                         (unsigned long long)content.length, size);
    if (strcmp(content.kind, kind->name) != 0)
        return weft_fail(WEFT_UNSUPPORTED,
                         "memory of the kind '%s' is out of reach of devices of the kind '%s'", content.kind,
                         kind->name);
    return peer == shares->instance ? reach_own(kind, ordinal, &content, pointer, import)
                                    : reach_other(shares, kind, ordinal, &content, pointer, import);
}

void weft_share_release(struct weft_shares *shares, struct weft_share_import *import)
{
    (void)shares;
    if (import)
        import->users--;
}

void weft_share_release_kept(void *shares, uint32_t index, void *import, size_t size)
{
    (void)index, (void)size;
    weft_share_release(shares, import);
}
