/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/verbs/load.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include "base/error.h"
#include "base/log.h"
#include "base/runtime.h"
#include "base/secure.h"

#define VERBS_ADVICE "install the package libibverbs1 (rdma-core 32 or later)"

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER; /* guards library and loaded */
static struct verbs_library library;
static int loaded;

/* One function of the table: the version whose structures are those of the headers. */
struct symbol {
    const char *name;
    const char *version;
    size_t offset;
    int is_optional;
};

#define FUNCTION(field, version)                                                                             \
    {                                                                                                        \
        "ibv_" #field, version, offsetof(struct verbs_library, field), 0                                     \
    }

static const struct symbol symbols[] = {
    FUNCTION(get_device_list, "IBVERBS_1.1"),
    FUNCTION(free_device_list, "IBVERBS_1.1"),
    FUNCTION(open_device, "IBVERBS_1.1"),
    FUNCTION(close_device, "IBVERBS_1.1"),
    FUNCTION(query_device, "IBVERBS_1.1"),
    FUNCTION(query_port, "IBVERBS_1.1"),
    FUNCTION(query_pkey, "IBVERBS_1.1"),
    {"_ibv_query_gid_table", "IBVERBS_1.11", offsetof(struct verbs_library, query_gid_table), 0},
    FUNCTION(get_async_event, "IBVERBS_1.1"),
    FUNCTION(ack_async_event, "IBVERBS_1.1"),
    FUNCTION(alloc_pd, "IBVERBS_1.1"),
    FUNCTION(dealloc_pd, "IBVERBS_1.1"),
    {"ibv_reg_mr_iova2", "IBVERBS_1.8", offsetof(struct verbs_library, reg_mr), 0},
    {"ibv_reg_dmabuf_mr", "IBVERBS_1.12", offsetof(struct verbs_library, reg_dmabuf_mr), 1},
    FUNCTION(dereg_mr, "IBVERBS_1.1"),
    FUNCTION(create_comp_channel, "IBVERBS_1.0"),
    FUNCTION(destroy_comp_channel, "IBVERBS_1.0"),
    FUNCTION(create_cq, "IBVERBS_1.1"),
    FUNCTION(resize_cq, "IBVERBS_1.1"),
    FUNCTION(destroy_cq, "IBVERBS_1.1"),
    FUNCTION(get_cq_event, "IBVERBS_1.1"),
    FUNCTION(ack_cq_events, "IBVERBS_1.1"),
    FUNCTION(create_srq, "IBVERBS_1.1"),
    FUNCTION(destroy_srq, "IBVERBS_1.1"),
    FUNCTION(create_qp, "IBVERBS_1.1"),
    FUNCTION(modify_qp, "IBVERBS_1.1"),
    FUNCTION(destroy_qp, "IBVERBS_1.1"),
    FUNCTION(fork_init, "IBVERBS_1.1"),
    {"ibv_is_fork_initialized", "IBVERBS_1.13", offsetof(struct verbs_library, is_fork_initialized), 1},
};

/* libibverbs and its drivers load and open what their own variables name (IBV_DRIVERS, MLX5_DEBUG_FILE), also for a
 * caller who has fewer rights than the program. Since a library does not edit its program's environment, such a
 * program does without. */
static int check_environment(void)
{
    static const char *const prefixes[] = {"IBV_", "RDMAV_", "MLX4_", "MLX5_", "HNS_", "BNXT_RE_"};
    for (char **variable = environ; weft_secure_mode() && variable && *variable; variable++) {
        for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
            if (strncmp(*variable, prefixes[i], strlen(prefixes[i])) == 0)
                return weft_fail(
                    WEFT_ACCESS,
                    "verbs: this program runs with more rights than its caller, who has set %.*s: "
                    "libibverbs is not loaded",
                    (int)strcspn(*variable, "="), *variable);
        }
    }
    return WEFT_OK;
}

static int fill(void *handle, struct verbs_library *found)
{
    memset(found, 0, sizeof *found);
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *address = dlvsym(handle, symbols[i].name, symbols[i].version);
        if (!address && !symbols[i].is_optional)
            return weft_fail(WEFT_NOT_FOUND,
                             "verbs: " WEFT_RUNTIME_VERBS " lacks %s of version %s; " VERBS_ADVICE,
                             symbols[i].name, symbols[i].version);
        memcpy((char *)found + symbols[i].offset, &address, sizeof address);
    }
    return WEFT_OK;
}

/* Pages that an adapter works on must stay the parent's when the process forks. Since Linux 5.12 the kernel copies them
 * for the child at once, and nothing is to be done. Before, the parent's next write moved *the parent* to a new page
 * while the adapter went on with the old one; libibverbs then hides registered pages from children
 * (MADV_DONTFORK), if it is asked to before the first registration. */
static void prepare_fork(const struct verbs_library *found)
{
    if (found->is_fork_initialized && found->is_fork_initialized() != 0)
        return;
    int error = found->fork_init();
    if (error)
        weft_log(
            WEFT_LOG_WARN,
            "verbs: ibv_fork_init says %s: on this kernel, memory in use by an adapter may go wrong in this "
            "process when it forks",
            strerror(error));
}

static int load(void)
{
    int status = check_environment();
    if (status)
        return status;
    void *handle = dlopen(WEFT_RUNTIME_VERBS, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return weft_fail(WEFT_NOT_FOUND, "verbs: cannot load " WEFT_RUNTIME_VERBS " (%s); " VERBS_ADVICE,
                         dlerror());
    struct verbs_library found;
    status = fill(handle, &found);
    if (status) {
        dlclose(handle);
        return status;
    }
    prepare_fork(&found);
    library = found;
    loaded = 1;
    weft_log(WEFT_LOG_INFO, "verbs: loaded " WEFT_RUNTIME_VERBS);
    return WEFT_OK;
}

int verbs_machine_has_device(void)
{
    DIR *folder = opendir("/sys/class/infiniband");
    if (!folder)
        return 0;
    struct dirent *entry;
    do
        entry = readdir(folder);
    while (entry && entry->d_name[0] == '.');
    closedir(folder);
    return entry != NULL;
}

int verbs_library_get(const struct verbs_library **result)
{
    if (!verbs_machine_has_device())
        return weft_fail(WEFT_NOT_FOUND,
                         "verbs: there is no RDMA device here (/sys/class/infiniband is empty)");
    pthread_mutex_lock(&load_lock);
    int status = loaded ? WEFT_OK : load();
    pthread_mutex_unlock(&load_lock);
    if (!status)
        *result = &library;
    return status;
}

int verbs_query_port(const struct verbs_library *verbs, struct ibv_context *context, int port,
                     struct ibv_port_attr *attributes)
{
    memset(attributes, 0, sizeof *attributes);
    struct verbs_context *extended = verbs_get_ctx_op(context, query_port);
    if (extended)
        return extended->query_port(context, (uint8_t)port, attributes, sizeof *attributes);
    return verbs->query_port(context, (uint8_t)port, (struct _compat_ibv_port_attr *)attributes);
}

int verbs_query_device(const struct verbs_library *verbs, struct ibv_context *context,
                       struct ibv_device_attr_ex *attributes)
{
    memset(attributes, 0, sizeof *attributes);
    struct verbs_context *extended = verbs_get_ctx_op(context, query_device_ex);
    int error =
        extended ? extended->query_device_ex(context, NULL, attributes, sizeof *attributes) : EOPNOTSUPP;
    if (error != EOPNOTSUPP && error != ENOSYS)
        return error;
    memset(attributes, 0, sizeof *attributes);
    return verbs->query_device(context, &attributes->orig_attr);
}
