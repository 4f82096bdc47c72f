/* SPDX-License-Identifier: Apache-2.0 */
/* Variables of the environment that look like settings and are none: a misspelt setting would otherwise do nothing, and so would one of the
 * library that a program used before. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/settings.h"

#define NAME_MAX_BYTES 64 /* of a name that is compared */
#define NEAR           2  /* letters that differ, lack or are too many */

/* Beginnings of names that weft's tests and weft-perf read: tests/README.md. */
static const char *const others[] = {
    "WEFT_TEST_", "WEFT_PERF_", "WEFT_VM",   "WEFT_KILL",        "WEFT_FAULT_",      "WEFT_SOAK_",
    "WEFT_LONG",  "WEFT_SEED",  "WEFT_SANI", "WEFT_RDMA_DEVICE", "WEFT_SHARED_DATA",
};

/* How many letters must be added, taken away or changed; above NEAR when the names are too long. */
static size_t distance(const char *a, size_t a_length, const char *b)
{
    size_t row[NAME_MAX_BYTES + 1], b_length = strlen(b);
    if (a_length > NAME_MAX_BYTES || b_length > NAME_MAX_BYTES)
        return NEAR + 1;
    for (size_t k = 0; k <= b_length; k++)
        row[k] = k;
    for (size_t i = 0; i < a_length; i++) {
        size_t before = row[0];
        row[0] = i + 1;
        for (size_t k = 0; k < b_length; k++) {
            size_t best = before + (a[i] != b[k]);
            before = row[k + 1];
            best = before + 1 < best ? before + 1 : best;
            row[k + 1] = row[k] + 1 < best ? row[k] + 1 : best;
        }
    }
    return row[b_length];
}

/* What people have set for another library, and what stands for it here, as docs/from-nccl.md and from-gloo.md say. */
static const struct {
    const char *theirs, *ours;
} replaced[] = {
    {"NCCL_DEBUG", "WEFT_LOG"},
    {"NCCL_DEBUG_FILE", "WEFT_LOG_FILE"},
    {"NCCL_COMM_ID", "MASTER_ADDR and WEFT_PORT"},
    {"NCCL_SOCKET_IFNAME", "MASTER_ADDR on that network"},
    {"GLOO_SOCKET_IFNAME", "MASTER_ADDR on that network"},
    {"NCCL_NET", "WEFT_TRANSPORT"},
    {"NCCL_IB_DISABLE", "WEFT_TRANSPORT"},
    {"NCCL_SHM_DISABLE", "WEFT_TRANSPORT"},
    {"NCCL_P2P_DISABLE", "WEFT_DIRECT"},
    {"NCCL_IB_HCA", "WEFT_VERBS_DEVICE"},
    {"NCCL_IB_GID_INDEX", "WEFT_VERBS_GID"},
    {"NCCL_IB_TC", "WEFT_VERBS_TRAFFIC_CLASS"},
    {"NCCL_IB_SL", "WEFT_VERBS_SERVICE_LEVEL"},
    {"NCCL_IB_TIMEOUT", "WEFT_VERBS_TIMEOUT"},
    {"NCCL_IB_RETRY_CNT", "WEFT_VERBS_RETRY"},
    {"NCCL_IB_PKEY", "WEFT_VERBS_PKEY"},
    {"NCCL_IB_QPS_PER_CONNECTION", "WEFT_VERBS_QPS"},
    {"NCCL_IB_PCI_RELAXED_ORDERING", "WEFT_VERBS_RELAXED"},
    {"NCCL_ALGO", "WEFT_ALGO"},
    {"NCCL_TOPO_FILE", "WEFT_TOPO_FILE, for the network"},
};

static const char *counterpart(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof replaced / sizeof *replaced; i++)
        if (strlen(replaced[i].theirs) == length && strncmp(replaced[i].theirs, name, length) == 0)
            return replaced[i].ours;
    return NULL;
}

/* A name that is a setting's beginning, or begins with one: the setting that shares most. */
static const char *relative(const char *name, size_t length)
{
    const struct weft_setting *setting;
    const char *found = NULL;
    size_t most = sizeof "WEFT_";
    for (size_t i = 0; (setting = weft_setting_at(i)); i++) {
        size_t own = strlen(setting->name), shared = own < length ? own : length;
        if (shared >= most && strncmp(setting->name, name, shared) == 0) {
            most = shared;
            found = setting->name;
        }
    }
    return found;
}

/* WEFT_IB_HCA, as NCCL_IB_HCA is called there. */
static const char *renamed(const char *name, size_t length)
{
    char theirs[NAME_MAX_BYTES + 1];
    int used = snprintf(theirs, sizeof theirs, "NCCL_%.*s", (int)length - 5, name + 5);
    return used > 0 && (size_t)used < sizeof theirs ? counterpart(theirs, (size_t)used) : NULL;
}

/* 0: it is one of them, or weft's own otherwise. Else 1, with the setting that it is nearly the name of, or NULL. */
static int is_unknown(const char *name, size_t length, const char **nearest)
{
    const struct weft_setting *setting;
    size_t least = NEAR + 1;
    *nearest = NULL;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strncmp(name, others[i], strlen(others[i])) == 0)
            return 0;
    for (size_t i = 0; (setting = weft_setting_at(i)); i++) {
        size_t apart = distance(name, length, setting->name);
        if (apart == 0)
            return 0;
        if (apart < least) {
            least = apart;
            *nearest = setting->name;
        }
    }
    if (!*nearest)
        *nearest = renamed(name, length);
    if (!*nearest)
        *nearest = relative(name, length);
    return 1;
}

static void warn_of_unknown(void)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    char text[800] = "";
    size_t used = 0;
    for (char **variable = environ; variable && *variable; variable++) {
        const char *name = *variable, *nearest;
        size_t length = strspn(name, letters);
        if (strncmp(name, "WEFT_", 5) != 0 || name[length] != '=' || !is_unknown(name, length, &nearest))
            continue;
        if (used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%.*s", used ? ", " : "", (int)length,
                                     name);
        if (used < sizeof text && nearest)
            used += (size_t)snprintf(text + used, sizeof text - used, " (did you mean %s?)", nearest);
    }
    if (used)
        weft_log(WEFT_LOG_WARN, "set in the environment, but no setting of weft's: %s", text);
}

/* For who asks the log: where weft runs beside the other library they are as they should be. */
static void mention_others(void)
{
    char text[800] = "";
    size_t used = 0;
    for (char **variable = environ; variable && *variable && weft_log_enabled(WEFT_LOG_INFO); variable++) {
        const char *name = *variable;
        size_t length = strcspn(name, "=");
        if (strncmp(name, "NCCL_", 5) != 0 && strncmp(name, "GLOO_", 5) != 0)
            continue;
        const char *ours = counterpart(name, length);
        if (used < sizeof text)
            used +=
                (size_t)snprintf(text + used, sizeof text - used, "%s%.*s%s%s%s", used ? ", " : "",
                                 (int)length, name, ours ? " (here " : "", ours ? ours : "", ours ? ")" : "");
    }
    if (used)
        weft_log(WEFT_LOG_INFO, "set in the environment, but not read by weft: %s", text);
}

void weft_settings_warn(void)
{
    static int done;
    if (__atomic_exchange_n(&done, 1, __ATOMIC_RELAXED))
        return;
    weft_log_check_file();
    warn_of_unknown();
    mention_others();
}
