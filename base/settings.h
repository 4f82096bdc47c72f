/* SPDX-License-Identifier: Apache-2.0 */
/* Settings: WEFT_* environment variables, and what the program gives in their place, read once per context into a plain struct.
 *
 * One table (settings.c) defines name, meaning, type, range, default and whether all ranks must agree. The documents
 * are printed from it (base/tool/settings_print.c). A value out of range or unparsable is WEFT_INVALID naming variable, value and
 * what was expected. Agreement is checked at communicator creation by comparing weft_settings_agreed() texts.
 */
#ifndef WEFT_BASE_SETTINGS_H
#define WEFT_BASE_SETTINGS_H

#include <stddef.h>
#include <stdint.h>
#include <weft/transport.h>

/* How ranks of one host read ordinary memory. */
enum weft_way { WEFT_WAY_AUTO, WEFT_WAY_PULL, WEFT_WAY_FED, WEFT_WAY_PAST };

struct weft_settings {
    int64_t timeout_ms;   /* WEFT_TIMEOUT_MS: default deadline of calls; -1 none */
    int64_t report_ms;    /* WEFT_REPORT_MS: calls that take longer are reported to the log; -1 none */
    int64_t heartbeat_ms; /* WEFT_HEARTBEAT_MS: a rank silent for so long is dead; rank 0's counts */
    int64_t algorithm;    /* WEFT_ALGO: enum weft_algorithm (algos/plan.h), 0 auto */
    int64_t cache_bytes;  /* WEFT_CACHE_BYTES: registrations of ordinary memory kept for later, 0 none */
    int64_t connect; /* WEFT_CONNECT: 0 peers are connected on first use, 1 when a communicator is made */
    int64_t window;  /* WEFT_WINDOW: plan steps in flight */
    int64_t order;   /* WEFT_ORDER: 0 rings and trees follow machine and fabric, 1 the ranks' numbers */
    int64_t slice_bytes_shm;   /* WEFT_SLICE_SHM: bytes per slice between ranks of one host */
    int64_t slice_bytes_tcp;   /* WEFT_SLICE_TCP */
    int64_t slice_bytes_ofi;   /* WEFT_SLICE_OFI: bytes per slice between hosts */
    int64_t eager_bytes_shm;   /* WEFT_EAGER_SHM: largest message sent inside the ring */
    int64_t eager_bytes_tcp;   /* WEFT_EAGER_TCP */
    int64_t eager_bytes_ofi;   /* WEFT_EAGER_OFI: largest message sent without rendezvous */
    int64_t slice_bytes_verbs; /* WEFT_SLICE_VERBS: the same where the verbs transport serves them */
    int64_t eager_bytes_verbs; /* WEFT_EAGER_VERBS */
    int64_t fast_path_bytes;   /* WEFT_FAST_PATH: largest allreduce on the shared cache-line path, 0 off */
    int64_t rd_bytes;          /* WEFT_RD_BYTES: auto uses recursive doubling up to here */
    int64_t rab_bytes;         /* WEFT_RAB_BYTES: auto uses Rabenseifner up to here, ring or tree above */
    int64_t
        device_collective; /* WEFT_DEVICE_COLLECTIVE: enum weft_device_collective_mode (comm/exec/exec.h) */
    int64_t
        device_collective_bytes; /* WEFT_DEVICE_COLLECTIVE_BYTES: the largest call that can be one, 0 none */
    int64_t direct;              /* WEFT_DIRECT: 1 single-copy between ranks of one host, 0 staged */
    int64_t way_shm;             /* WEFT_WAY_SHM: enum weft_way (not agreed) */
    int64_t help_shm;            /* WEFT_HELP_SHM: enum weft_help of include/weft/transport.h (not agreed) */
    int64_t strict;              /* WEFT_STRICT: 1: one association for every algorithm and size */
    int64_t spin_us;             /* WEFT_SPIN_US: polling before a waiting call sleeps (not agreed) */
    struct weft_verbs_settings verbs; /* WEFT_VERBS_*: include/weft/transport.h */
    char devices
        [256]; /* WEFT_VERBS_DEVICE: RDMA devices to use ("mlx5_0:1,mlx5_1") or, behind ^, not to use; "" chooses */
    char transports[64]; /* WEFT_TRANSPORT: subset of "shm,ofi,verbs,tcp", in this order */
    char provider[64];   /* WEFT_OFI_PROVIDER: libfabric provider to use, "" first that fits */
    char topo_file[512]; /* WEFT_TOPO_FILE: the fabric, in a form of topo/read.h; "" none */
    char device_kinds
        [256]; /* WEFT_DEVICE, WEFT_DEVICE_OPTIONS, WEFT_DEVICE_PLUGIN: kinds of devices to use, */
    char device_options[512];  /* their own settings, and shared objects with more kinds: */
    char device_plugins[1024]; /* devmem/devices.h */
};

/* For whom a value counts. */
enum weft_setting_scope {
    WEFT_SCOPE_AGREED,    /* the same at all ranks, or there is no communicator */
    WEFT_SCOPE_SAME,      /* the same at all ranks for them to meet at all */
    WEFT_SCOPE_CONTENT,   /* of a file: what it says is the same at all ranks */
    WEFT_SCOPE_LOCAL,     /* each rank has its own */
    WEFT_SCOPE_PROCESS,   /* likewise, read once per process */
    WEFT_SCOPE_FIRST_RANK /* rank 0's counts for all */
};

/* What a reader looks for together, in the order of the documents. */
enum weft_setting_group {
    WEFT_SETTINGS_JOB,
    WEFT_SETTINGS_TIME,
    WEFT_SETTINGS_CHOICE,
    WEFT_SETTINGS_TRANSPORT,
    WEFT_SETTINGS_RDMA,
    WEFT_SETTINGS_DEVICE,
    WEFT_SETTINGS_LOG,
    WEFT_SETTINGS_GROUPS
};

/* One variable of the environment. */
struct weft_setting {
    const char *name;
    size_t offset; /* of its field in struct weft_settings */
    enum {
        WEFT_SETTING_NUMBER,
        WEFT_SETTING_WORD,
        WEFT_SETTING_LIST,
        WEFT_SETTING_FILES, /* a LIST that names files: not read where the caller must not choose them (base/secure.h) */
        WEFT_SETTING_OTHER /* read elsewhere, has no field */
    } type;
    int64_t low, high, fallback; /* NUMBER and WORD; LIST, FILES: high is the field's size */
    const char *words;           /* WORD: "auto,ring,..." value is the index; LIST: allowed words */
    enum weft_setting_scope scope;
    enum weft_setting_group group;
    const char *unset;  /* what holds when the variable is not set, in words; NULL: the fallback */
    const char *values; /* what may be given, in words; NULL: the range or the words */
    const char *text;   /* what it is for: a sentence, or a few */
};

/* All variables that weft reads, the index-th; NULL behind the last. */
const struct weft_setting *weft_setting_at(size_t index);

/* What documents say of it: default, and what may be given. */
void weft_setting_default(const struct weft_setting *setting, char *text, size_t capacity);
void weft_setting_values(const struct weft_setting *setting, char *text, size_t capacity);

/* The value that a context opened now would have. WEFT_INVALID where it would refuse the variable's, which the text is
 * then. */
int weft_setting_in_force(const struct weft_setting *setting, char *text, size_t capacity);

/* Reads the environment, but for what `given` has: "timeout_ms=1000,algo=ring,transport=shm,verbs" (weft_context_options), NULL none. What
 * is wrong there is named with its place in the text. Also refuses values of the variables that are read once per process, where nobody
 * can. */
int weft_settings_read(struct weft_settings *settings, const char *given);

/* Says in the log, once per process, which variables of the environment look like settings and are none, and whether the
 * log's file cannot be written. base/settings_unknown.c */
void weft_settings_warn(void);

/* Writes the agreed settings as "NAME=value\n" lines, ordered by name. Returns the length that the whole text
 * needs (like snprintf). */
size_t weft_settings_agreed(const struct weft_settings *settings, char *text, size_t capacity);

/* Finds the first variable in which two agreed texts differ and copies its name; 0 when they are equal. */
int weft_settings_differ(const char *mine, const char *theirs, char *name, size_t capacity);

#endif
