/* SPDX-License-Identifier: Apache-2.0 */
#include "base/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/secure.h"

#define AT(field)   offsetof(struct weft_settings, field)
#define SIZE(field) sizeof(((struct weft_settings *)0)->field)

#define NUMBER  WEFT_SETTING_NUMBER
#define WORD    WEFT_SETTING_WORD
#define LIST    WEFT_SETTING_LIST
#define FILES   WEFT_SETTING_FILES
#define OTHER   WEFT_SETTING_OTHER
#define AGREED  WEFT_SCOPE_AGREED
#define CONTENT WEFT_SCOPE_CONTENT
#define LOCAL   WEFT_SCOPE_LOCAL
#define SAME    WEFT_SCOPE_SAME
#define PROCESS WEFT_SCOPE_PROCESS
#define FIRST   WEFT_SCOPE_FIRST_RANK

/* Every choice has one way to be written, this order: the texts are compared. */
static const char transport_words[] = "shm,ofi,verbs,tcp";

/* One row per variable, ordered by name: the agreed text relies on it. What each says to its reader is printed by
 * weft-perf --settings, and stands in docs/settings.md and weft(7): make docs. */
static const struct weft_setting rows[] = {
    {"WEFT_ALGO", AT(algorithm), WORD, 0, 14, 0,
     "auto,ring,tree,rd,rab,binomial,chain,sag,bruck,halving,direct,pairwise,dissemination,hier,leader",
     AGREED, WEFT_SETTINGS_CHOICE, NULL, NULL,
     "The algorithm for those collectives that it serves. Other collectives choose for themselves, and so do "
     "calls that it cannot do. auto takes the cheapest by the cost model."},
    {"WEFT_CACHE_BYTES", AT(cache_bytes), NUMBER, 0, INT64_MAX, 1 << 30, NULL, LOCAL, WEFT_SETTINGS_TRANSPORT,
     NULL, NULL,
     "How many bytes of ordinary memory a context keeps registered for later operations. With 0 each "
     "operation registers its own."},
    {"WEFT_CONNECT", AT(connect), WORD, 0, 1, 0, "lazy,eager", AGREED, WEFT_SETTINGS_TRANSPORT, NULL, NULL,
     "When peers are connected: on first use, or when a communicator is made."},
    {"WEFT_DEVICE", AT(device_kinds), LIST, 0, SIZE(device_kinds), 0, NULL, LOCAL, WEFT_SETTINGS_DEVICE,
     "all", "kinds such as cuda, separated by commas; behind ^ those not to use",
     "The kinds of devices that are used. Host memory always is."},
    {"WEFT_DEVICE_OPTIONS", AT(device_options), LIST, 0, SIZE(device_options), 0, NULL, LOCAL,
     WEFT_SETTINGS_DEVICE, "none", "KIND:name=value,...; several kinds are separated by semicolons",
     "Settings of one kind of device each, such as sim:seed=42,delay=100."},
    {"WEFT_DEVICE_PLUGIN", AT(device_plugins), FILES, 0, SIZE(device_plugins), 0, NULL, LOCAL,
     WEFT_SETTINGS_DEVICE, "none", "absolute paths, separated by colons",
     "Shared objects with more kinds of devices. A file, and every folder on its path, must belong to root "
     "or the user and be writable by nobody else. One that cannot be used is left out with a warning."},
    {"WEFT_DEVICE_COLLECTIVE", AT(device_collective), WORD, 0, 2, 0, "auto,always,never", AGREED,
     WEFT_SETTINGS_DEVICE, NULL, NULL,
     "Whether collectives on device memory of one machine run as device collectives: one kernel for each "
     "device, without the host in between. auto does so where measurements say that it pays, always where it "
     "can be done."},
    {"WEFT_DEVICE_COLLECTIVE_BYTES", AT(device_collective_bytes), NUMBER, 0, 1 << 30, 1 << 20, NULL, AGREED,
     WEFT_SETTINGS_DEVICE, NULL, NULL,
     "The largest device collective, in bytes; 0: none. Each rank of a communicator with such calls keeps a "
     "little more than twice as much device memory."},
    {"WEFT_DIRECT", AT(direct), NUMBER, 0, 1, 1, NULL, AGREED, WEFT_SETTINGS_TRANSPORT, NULL, NULL,
     "Whether ranks of one host read each other's memory (1) or pass everything through staging memory (0)."},
    {"WEFT_EAGER_OFI", AT(eager_bytes_ofi), NUMBER, 0, 65536, 16384, NULL, AGREED, WEFT_SETTINGS_TRANSPORT,
     NULL, NULL,
     "The eager limit over ofi: the largest message that is sent without a rendezvous, in bytes."
     " Less than 64 counts as 64, and more than a message of the provider has room for, mostly 16 KiB, as "
     "that."},
    {"WEFT_EAGER_SHM", AT(eager_bytes_shm), NUMBER, 0, 65536, 4096, NULL, AGREED, WEFT_SETTINGS_TRANSPORT,
     NULL, NULL,
     "The eager limit over shm: the largest message that is sent without a rendezvous, in bytes."
     " Less than 64 counts as 64, and more than a message has room for, 8280, as that."
     " A send takes up to twice the limit where that is faster (WEFT_WAY_SHM=auto)."},
    {"WEFT_EAGER_TCP", AT(eager_bytes_tcp), NUMBER, 0, 65536, 65536, NULL, AGREED, WEFT_SETTINGS_TRANSPORT,
     NULL, NULL,
     "The eager limit over tcp: the largest message that is sent without a rendezvous, in bytes."
     " Less than 64 counts as 64, and more than a message has room for, 65496, as that."},
    {"WEFT_EAGER_VERBS", AT(eager_bytes_verbs), NUMBER, 0, 65536, 8192, NULL, AGREED, WEFT_SETTINGS_TRANSPORT,
     NULL, NULL,
     "The eager limit over verbs: the largest message that is sent without a rendezvous, in bytes."
     " Less than 64 counts as 64, and more than a message has room for, 8264, as that."},
    {"WEFT_FAST_PATH", AT(fast_path_bytes), NUMBER, 0, 65536, 16384, NULL, AGREED, WEFT_SETTINGS_CHOICE, NULL,
     NULL,
     "The largest block or tensor for which a collective of up to 16 ranks of one host takes the cache-line "
     "path, in bytes; 0: none. Where ranks share processors the limit is 8 times as high."},
    {"WEFT_HEARTBEAT_MS", AT(heartbeat_ms), NUMBER, 200, 600000, 10000, NULL, FIRST, WEFT_SETTINGS_TIME, NULL,
     NULL, "A rank from which nothing is heard for so many milliseconds is declared dead."},
    {"WEFT_HELP_SHM", AT(help_shm), WORD, 0, 2, 0, "auto,always,never", LOCAL, WEFT_SETTINGS_TRANSPORT, NULL,
     NULL,
     "Whether a rank that reads ordinary memory of a rank of its host has that one write half of it or "
     "feed it, if it waits. With auto a rank that has not done so four times running is asked at every 17th "
     "read only, and in trials. With never this rank does neither for others."},
    {"WEFT_OFI_PROVIDER", AT(provider), LIST, 0, SIZE(provider), 0, NULL, AGREED, WEFT_SETTINGS_TRANSPORT,
     "the first that fits, in libfabric's order", "a provider's name, such as tcp or tcp;ofi_rxm",
     "The libfabric provider that ofi uses."},
    {"WEFT_ORDER", AT(order), WORD, 0, 1, 0, "topology,rank", AGREED, WEFT_SETTINGS_CHOICE, NULL, NULL,
     "What rings, trees and hierarchical plans follow: machine and fabric, or the ranks' numbers. With rank "
     "there is one ring, however many NICs hosts have."},
    {"WEFT_RAB_BYTES", AT(rab_bytes), NUMBER, 0, INT64_MAX, 0, NULL, AGREED, WEFT_SETTINGS_CHOICE, NULL, NULL,
     "The automatic choice takes Rabenseifner's algorithm up to this size, ring or tree above, in bytes; 0: "
     "by cost."},
    {"WEFT_RD_BYTES", AT(rd_bytes), NUMBER, 0, INT64_MAX, 0, NULL, AGREED, WEFT_SETTINGS_CHOICE, NULL, NULL,
     "The automatic choice takes recursive doubling up to this size, in bytes; 0: by cost."},
    {"WEFT_REPORT_MS", AT(report_ms), NUMBER, -1, INT64_MAX / 2000000, 30000, NULL, LOCAL, WEFT_SETTINGS_TIME,
     NULL, NULL,
     "A call that has taken so many milliseconds is reported to the log, once, with who waits for whom; it "
     "goes on. -1: none is."},
    {"WEFT_SLICE_OFI", AT(slice_bytes_ofi), NUMBER, 4096, 1 << 30, 1 << 19, NULL, AGREED,
     WEFT_SETTINGS_TRANSPORT, NULL, NULL,
     "The slice into which long messages over ofi are cut, in bytes; a multiple of 64, rounded down."},
    {"WEFT_SLICE_SHM", AT(slice_bytes_shm), NUMBER, 4096, 1 << 30, 1 << 17, NULL, AGREED,
     WEFT_SETTINGS_TRANSPORT, NULL, NULL,
     "The slice into which long messages over shm are cut, in bytes; a multiple of 64, rounded down."},
    {"WEFT_SLICE_TCP", AT(slice_bytes_tcp), NUMBER, 4096, 1 << 30, 1 << 19, NULL, AGREED,
     WEFT_SETTINGS_TRANSPORT, NULL, NULL,
     "The slice into which long messages over tcp are cut, in bytes; a multiple of 64, rounded down."},
    {"WEFT_SLICE_VERBS", AT(slice_bytes_verbs), NUMBER, 4096, 1 << 30, 1 << 20, NULL, AGREED,
     WEFT_SETTINGS_TRANSPORT, NULL, NULL,
     "The slice into which long messages over verbs are cut, in bytes; a multiple of 64, rounded down."},
    {"WEFT_SPIN_US", AT(spin_us), NUMBER, 0, 1000000, 100, NULL, LOCAL, WEFT_SETTINGS_TRANSPORT, NULL, NULL,
     "How many microseconds a waiting call polls before it sleeps. For so long weft's own thread looks "
     "without a pause for what a device has done."},
    {"WEFT_STRICT", AT(strict), NUMBER, 0, 1, 0, NULL, AGREED, WEFT_SETTINGS_CHOICE, NULL, NULL,
     "With 1 the bits of a reduction depend on the inputs and the number of ranks alone, not on algorithm, "
     "size or slicing."},
    {"WEFT_TIMEOUT_MS", AT(timeout_ms), NUMBER, -1, INT64_MAX / 2000000, 1800000, NULL, LOCAL,
     WEFT_SETTINGS_TIME, NULL, NULL, "The default deadline of calls, in milliseconds; -1: none."},
    {"WEFT_TOPO_FILE", AT(topo_file), FILES, 0, SIZE(topo_file), 0, NULL, CONTENT, WEFT_SETTINGS_CHOICE,
     "none", "a file of a fabric, in any form that weft-topo --input reads; machines' XML is refused",
     "The fabric that ranks are ordered along. Hosts are found in it by their names, whole or up to the "
     "first dot."},
    {"WEFT_TRANSPORT", AT(transports), LIST, 0, SIZE(transports), 0, transport_words, AGREED,
     WEFT_SETTINGS_TRANSPORT, "shm,ofi,verbs,tcp", "words of shm, ofi, verbs, tcp, separated by commas",
     "The transports that may be used, in any order. Ranks that share memory use shm, others verbs where "
     "both have RDMA devices that reach each other, else ofi where there is a fabric or "
     "WEFT_OFI_PROVIDER is set, else tcp."},
    {"WEFT_VERBS_DEVICE", AT(devices), LIST, 0, SIZE(devices), 0, NULL, LOCAL, WEFT_SETTINGS_RDMA,
     "the rank's share of its host's ports",
     "devices or ports, such as mlx5_0:1,mlx5_1; behind ^ those not to use",
     "The RDMA devices and ports of this rank. Behind ^ stand those that the ranks of the host do not "
     "share."},
    {"WEFT_VERBS_FAILOVER", AT(verbs.failover), NUMBER, 0, 1, 0, NULL, AGREED, WEFT_SETTINGS_RDMA, NULL, NULL,
     "With 1 the traffic of a rail that goes down moves to the other rails."},
    {"WEFT_VERBS_GID", AT(verbs.gid_index), NUMBER, -1, 255, -1, NULL, LOCAL, WEFT_SETTINGS_RDMA, NULL, NULL,
     "The index of the GID that every port uses; -1 chooses one for each port and peer."},
    {"WEFT_VERBS_ODP", AT(verbs.odp), NUMBER, 0, 1, 0, NULL, LOCAL, WEFT_SETTINGS_RDMA, NULL, NULL,
     "With 1 memory is registered for on-demand paging where the device can do that, and is not pinned."},
    {"WEFT_VERBS_PKEY", AT(verbs.partition_index), NUMBER, 0, 65535, 0, NULL, LOCAL, WEFT_SETTINGS_RDMA, NULL,
     NULL, "The index of the partition key in the port's table."},
    {"WEFT_VERBS_QPS", AT(verbs.qps), NUMBER, 1, 4, 1, NULL, AGREED, WEFT_SETTINGS_RDMA, NULL, NULL,
     "Queue pairs for each rail and peer."},
    {"WEFT_VERBS_RAILS", AT(verbs.rails), NUMBER, 1, 4, 4, NULL, LOCAL, WEFT_SETTINGS_RDMA, NULL, NULL,
     "How many ports a rank uses at most."},
    {"WEFT_VERBS_RELAXED", AT(verbs.relaxed), NUMBER, 0, 1, 1, NULL, LOCAL, WEFT_SETTINGS_RDMA, NULL, NULL,
     "With 1 writes to memory may pass each other (relaxed ordering) where the device offers it."},
    {"WEFT_VERBS_RETRY", AT(verbs.retry), NUMBER, 0, 7, 7, NULL, LOCAL, WEFT_SETTINGS_RDMA, NULL, NULL,
     "How often the device sends again what is not acknowledged. Soft-RoCE takes 7 as endless."},
    {"WEFT_VERBS_SERVICE_LEVEL", AT(verbs.service_level), NUMBER, 0, 15, 0, NULL, LOCAL, WEFT_SETTINGS_RDMA,
     NULL, NULL, "The InfiniBand service level; on Ethernet the priority."},
    {"WEFT_VERBS_STRIPE", AT(verbs.stripe_bytes), NUMBER, 4096, 1 << 30, 1 << 18, NULL, AGREED,
     WEFT_SETTINGS_RDMA, NULL, NULL,
     "A write of at least this many bytes is cut over all rails and queue pairs. Shorter writes take one "
     "rail each, "
     "in turn."},
    {"WEFT_VERBS_TIMEOUT", AT(verbs.timeout), NUMBER, 0, 31, 18, NULL, LOCAL, WEFT_SETTINGS_RDMA, NULL, NULL,
     "The device awaits an acknowledgement for 4.096 microseconds times two to the power of this; 0: for "
     "ever. 18 "
     "is about a second."},
    {"WEFT_VERBS_TRAFFIC_CLASS", AT(verbs.traffic_class), NUMBER, 0, 255, 0, NULL, LOCAL, WEFT_SETTINGS_RDMA,
     NULL, NULL, "The traffic class in the packets' headers. With RoCE its upper six bits are the DSCP."},
    {"WEFT_VERBS_WINDOWS", AT(verbs.windows), NUMBER, 0, 1, 1, NULL, LOCAL, WEFT_SETTINGS_RDMA, NULL, NULL,
     "With 1 a peer writes through a memory window, which ends with its message, where the device has them."},
    {"WEFT_WAY_SHM", AT(way_shm), WORD, 0, 3, 0, "auto,pull,fed,past", LOCAL, WEFT_SETTINGS_TRANSPORT, NULL,
     NULL,
     "How ranks of one host read ordinary memory of this one. auto measures pull (process_vm_readv), fed "
     "(both copy), past (both, past the caches), and whether collectives stage it. Else none do by choice; "
     "fed and past also say how to stage. While this rank does not wait, the kernel copies."},
    {"WEFT_WINDOW", AT(window), NUMBER, 4, 64, 32, NULL, AGREED, WEFT_SETTINGS_CHOICE, NULL, NULL,
     "How many steps of a plan may be in flight at a time."},
};

enum { ROWS = sizeof rows / sizeof *rows };

static const char absolute_path[] = "an absolute path";
static const char descriptor[] = "a number of a descriptor";

/* What is read elsewhere, each where its value is needed, for the same readers. */
#define ELSEWHERE(name, scope, group, unset, values, text)                                                   \
    {                                                                                                        \
        name, 0, OTHER, 0, 0, 0, NULL, scope, group, unset, values, text                                     \
    }
#define NUMBER_ELSEWHERE(name, low, high, scope, group, unset, values, text)                                 \
    {                                                                                                        \
        name, 0, OTHER, low, high, 0, NULL, scope, group, unset, values, text                                \
    }
#define WORD_ELSEWHERE(name, words, scope, group, unset, text)                                               \
    {                                                                                                        \
        name, 0, OTHER, 0, 0, 0, words, scope, group, unset, NULL, text                                      \
    }

static const struct weft_setting elsewhere[] = {
    NUMBER_ELSEWHERE("RANK", 0, (1 << 20) - 1, LOCAL, WEFT_SETTINGS_JOB, "from PMIx", "a number from 0",
                     "This rank's number. torchrun sets it."),
    NUMBER_ELSEWHERE("WORLD_SIZE", 1, 1 << 20, SAME, WEFT_SETTINGS_JOB, "from PMIx", "a number from 1",
                     "How many ranks there are. torchrun sets it."),
    ELSEWHERE("WEFT_BOOTSTRAP_FILE", SAME, WEFT_SETTINGS_JOB, "not used", absolute_path,
              "A file on a file system that all ranks see. Rank 0 makes it, and removes it when all have "
              "met. A record that an earlier job has left there is replaced; anything else there is an "
              "error, and stays as it is."),
    ELSEWHERE("MASTER_ADDR", SAME, WEFT_SETTINGS_JOB, "from PMIx", "a host name or an address",
              "The host of rank 0, where WEFT_BOOTSTRAP_FILE is not set. torchrun sets it. A link-local one "
              "(fe80::1%eth0) ends with each host's own interface."),
    NUMBER_ELSEWHERE("WEFT_PORT", 1, 65535, SAME, WEFT_SETTINGS_JOB, "MASTER_PORT + 1", NULL,
                     "The TCP port where rank 0 listens."),
    NUMBER_ELSEWHERE("MASTER_PORT", 1, 65534, SAME, WEFT_SETTINGS_JOB, "not used", NULL,
                     "The port of torchrun's own store. weft takes the next one where WEFT_PORT is not set."),
    NUMBER_ELSEWHERE("WEFT_BOOTSTRAP_FD", 0, 1 << 30, LOCAL, WEFT_SETTINGS_JOB, "not used", descriptor,
                     "On rank 0: a socket, inherited from a launcher, that already listens on that port."),
    NUMBER_ELSEWHERE("WEFT_SECRET_FD", 0, 1 << 30, LOCAL, WEFT_SETTINGS_JOB, "not used", descriptor,
                     "A file, inherited from a launcher, that holds the job's secret of 16 to 4096 bytes."),
    ELSEWHERE("WEFT_SECRET_FILE", LOCAL, WEFT_SETTINGS_JOB, "not used", absolute_path,
              "A regular file with the job's secret, where WEFT_SECRET_FD is not set. It belongs to the user "
              "who runs "
              "the job and gives nobody else any rights (mode 0600). Every host has the same content."),
    ELSEWHERE("PMIX_NAMESPACE", LOCAL, WEFT_SETTINGS_JOB, "no PMIx", "set by the launcher",
              "With PMIX_RANK: mpirun of Open MPI or srun --mpi=pmix started this process, and PMIx gives "
              "rank, number "
              "of ranks, place of rank 0 and secret."),
    ELSEWHERE("PMIX_RANK", LOCAL, WEFT_SETTINGS_JOB, "no PMIx", "set by the launcher", "See PMIX_NAMESPACE."),
    ELSEWHERE("SLURM_TOPOLOGY_ADDR", LOCAL, WEFT_SETTINGS_CHOICE, "no switches are known", "set by Slurm",
              "The switches above this host, where WEFT_TOPO_FILE is not set."),
    ELSEWHERE("SLURM_TOPOLOGY_ADDR_PATTERN", LOCAL, WEFT_SETTINGS_CHOICE, "no switches are known",
              "set by Slurm", "What the parts of SLURM_TOPOLOGY_ADDR are."),
    ELSEWHERE("HWLOC_FSROOT", LOCAL, WEFT_SETTINGS_CHOICE, "/", "a folder",
              "Where /sys and /proc of the machine to look at lie, as for hwloc."),
    ELSEWHERE(
        "FI_OFI_RXM_USE_SRX", LOCAL, WEFT_SETTINGS_TRANSPORT, "libfabric's own", "libfabric's",
        "A setting of libfabric. weft refuses to use verbs;ofi_rxm of libfabric 1.17 where it is on, as "
        "notices of writes are lost then."),
    WORD_ELSEWHERE("WEFT_LOG", "none,error,warn,info,debug", PROCESS, WEFT_SETTINGS_LOG, "warn",
                   "What is logged: this level and the more serious ones."),
    ELSEWHERE("WEFT_LOG_FILE", PROCESS, WEFT_SETTINGS_LOG, "standard error", absolute_path,
              "The file where the log goes."),
    WORD_ELSEWHERE("WEFT_ISA", "portable,avx2,avx512", PROCESS, WEFT_SETTINGS_LOG,
                   "the best that the processor has",
                   "The code that reduces on processors. The results have the same bits with each."),
};

enum { ELSEWHERE_ROWS = sizeof elsewhere / sizeof *elsewhere };

const struct weft_setting *weft_setting_at(size_t index)
{
    if (index < ROWS)
        return &rows[index];
    return index - ROWS < ELSEWHERE_ROWS ? &elsewhere[index - ROWS] : NULL;
}

/* Position of the word in a comma-separated list, or -1. */
static int word_index(const char *list, const char *word, size_t length)
{
    for (int index = 0; list; index++) {
        size_t here = strcspn(list, ",");
        if (here == length && strncmp(list, word, length) == 0)
            return index;
        list = list[here] ? list + here + 1 : NULL;
    }
    return -1;
}

static int read_number(const struct weft_setting *row, const char *text, int64_t *value)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || *end || errno || number < row->low || number > row->high)
        return weft_fail(WEFT_INVALID, "%s is '%s': expected a whole number from %lld to %lld", row->name,
                         text, (long long)row->low, (long long)row->high);
    *value = number;
    return WEFT_OK;
}

static int read_list(const struct weft_setting *row, const char *text, char *value, size_t capacity)
{
    if (strlen(text) >= capacity)
        return weft_fail(WEFT_INVALID, "%s is longer than %zu characters", row->name, capacity - 1);
    for (const char *word = text; row->words && *word;) {
        size_t length = strcspn(word, ",");
        if (word_index(row->words, word, length) < 0)
            return weft_fail(WEFT_INVALID, "%s is '%s': expected words from '%s'", row->name, text,
                             row->words);
        word += length + (word[length] == ',');
    }
    snprintf(value, capacity, "%s", text);
    return WEFT_OK;
}

static int is_text(const struct weft_setting *row)
{
    return row->type == LIST || row->type == FILES;
}

static const char *given_value(const struct weft_setting *row)
{
    int names_file = row->type == FILES || row->values == absolute_path || row->values == descriptor;
    return names_file ? weft_secure_getenv(row->name) : getenv(row->name);
}

static int check_word(const struct weft_setting *row, const char *text, int64_t *index)
{
    *index = word_index(row->words, text, strlen(text));
    if (*index < 0)
        return weft_fail(WEFT_INVALID, "%s is '%s': expected one of '%s'", row->name, text, row->words);
    return WEFT_OK;
}

/* One that is read elsewhere. */
static int check_other(const struct weft_setting *row, const char *text)
{
    int64_t value;
    if (row->high)
        return read_number(row, text, &value);
    if (row->words)
        return check_word(row, text, &value);
    if (row->values == absolute_path && text[0] != '/')
        return weft_fail(WEFT_INVALID, "%s is '%s': expected an absolute path", row->name, text);
    return WEFT_OK;
}

/* What has no better place to be refused: whoever reads these has no error to return. */
static int check_process_rows(void)
{
    int status = WEFT_OK;
    for (size_t i = 0; i < ELSEWHERE_ROWS && status == WEFT_OK; i++) {
        const char *text = elsewhere[i].scope == PROCESS ? given_value(&elsewhere[i]) : NULL;
        if (text && *text)
            status = check_other(&elsewhere[i], text);
    }
    return status;
}

static int read_row(const struct weft_setting *row, const char *text, struct weft_settings *settings)
{
    void *field = (char *)settings + row->offset;
    if (is_text(row))
        return text ? read_list(row, text, field, (size_t)row->high) : WEFT_OK;
    int64_t *number = field;
    *number = row->fallback;
    if (!text || !*text)
        return WEFT_OK;
    if (row->type == NUMBER)
        return read_number(row, text, number);
    return check_word(row, text, number);
}

/* Writes the words of transport_words that the list has; an empty list has all. */
static void order_transports(const char *list, char *value, size_t capacity)
{
    size_t used = 0;
    value[0] = '\0';
    for (const char *word = transport_words, *next; word; word = next) {
        size_t length = strcspn(word, ",");
        next = word[length] ? word + length + 1 : NULL;
        if (!*list || word_index(list, word, length) >= 0)
            used +=
                (size_t)snprintf(value + used, capacity - used, "%s%.*s", used ? "," : "", (int)length, word);
    }
}

/* --- settings in code */

/* What a program gives: a copy of its text, cut into pieces. */
struct given {
    char *text;
    const char *values[ROWS]; /* NULL: the environment's */
    const char *pieces[ROWS]; /* where each begins in the program's text, */
    int numbers[ROWS];        /* and which piece it is, from 1 */
};

/* "settings has at byte 16, piece 2, 'algo=rink'" */
static int refuse_part(const char *text, const char *piece, size_t length, int number, const char *why)
{
    return weft_fail(WEFT_INVALID, "settings has at byte %zu, piece %d, '%.*s': %s", (size_t)(piece - text),
                     number, (int)length, piece, why);
}

static int refuse(const char *text, const char *piece, int number, const char *why)
{
    return refuse_part(text, piece, strcspn(piece, ","), number, why);
}

/* Whether a row is called like that, without WEFT_ and in small letters, whatever the locale. */
static int is_called(const struct weft_setting *row, const char *name, size_t length)
{
    const char *own = row->name;
    if (strncmp(own, "WEFT_", 5) != 0 || strlen(own + 5) != length)
        return 0;
    for (size_t i = 0; i < length; i++) {
        char byte = own[5 + i];
        if (byte >= 'A' && byte <= 'Z')
            byte = (char)(byte - 'A' + 'a');
        if (byte != name[i])
            return 0;
    }
    return 1;
}

static int find_row(const char *name, size_t length)
{
    for (int i = 0; i < ROWS; i++) {
        if (is_called(&rows[i], name, length))
            return i;
    }
    return -1;
}

/* Without the value: a program may take weft's settings for the place where a job's secret goes. */
static int refuse_name(const char *text, const char *piece, int number, size_t length)
{
    for (size_t i = 0; i < ELSEWHERE_ROWS; i++) {
        if (!is_called(&elsewhere[i], piece, length))
            continue;
        return refuse_part(
            text, piece, length, number,
            elsewhere[i].scope == PROCESS
                ? "the process has read this one from the environment, once for all contexts: "
                  "expected a setting that a context reads"
                : "this one is read when a communicator is made: expected a setting that a context "
                  "reads; weft_comm_options has the place and the secret of a job");
    }
    return refuse_part(
        text, piece, length, number,
        "no setting has this name: expected one of docs/settings.md in small letters and without "
        "WEFT_, such as timeout_ms");
}

/* A piece that has no name belongs to the value before it; so does, behind device_options, one with a name of no setting. */
static int belongs_to(int row, const char *piece, size_t length)
{
    return row >= 0 &&
           (piece[length] != '=' || (rows[row].offset == AT(device_options) && find_row(piece, length) < 0));
}

static int cut(struct given *given, const char *text)
{
    int row = -1, number = 0;
    for (const char *piece = text, *next; *piece; piece = next) {
        size_t all = strcspn(piece, ","), length = strcspn(piece, "=,");
        next = piece + all + (piece[all] == ',');
        number++;
        if (belongs_to(row, piece, length))
            continue;
        if (piece[length] != '=')
            return refuse(text, piece, number, "expected name=value, such as timeout_ms=1000");
        row = find_row(piece, length);
        if (row < 0)
            return refuse_name(text, piece, number, length);
        if (given->values[row])
            return refuse(text, piece, number, "this setting is given already: expected it once");
        if (piece > text)
            given->text[piece - text - 1] = '\0'; /* ends the value before it */
        given->values[row] = given->text + (piece - text) + length + 1;
        given->pieces[row] = piece;
        given->numbers[row] = number;
    }
    return WEFT_OK;
}

static int read_given(const struct given *given, const char *text, int row, struct weft_settings *settings)
{
    char why[WEFT_DETAIL_MAX];
    int status = read_row(&rows[row], given->values[row], settings);
    if (status == WEFT_OK)
        return status;
    snprintf(why, sizeof why, "%s", weft_error_detail());
    return refuse(text, given->pieces[row], given->numbers[row], why);
}

static int read_rows(const struct given *given, const char *text, struct weft_settings *settings)
{
    int status = WEFT_OK;
    for (int i = 0; i < ROWS && status == WEFT_OK; i++)
        status = given->values[i] ? read_given(given, text, i, settings)
                                  : read_row(&rows[i], given_value(&rows[i]), settings);
    return status == WEFT_OK ? check_process_rows() : status;
}

int weft_settings_read(struct weft_settings *settings, const char *text)
{
    struct weft_settings read;
    struct given given = {.text = text ? strdup(text) : NULL};
    memset(&read, 0, sizeof read);
    read.verbs.size = sizeof read.verbs;
    if (text && !given.text)
        return weft_fail(WEFT_NOMEM, "no memory for settings of %zu bytes", strlen(text));
    int status = text ? cut(&given, text) : WEFT_OK;
    if (status == WEFT_OK)
        status = read_rows(&given, text, &read);
    free(given.text);
    if (status != WEFT_OK)
        return status;
    *settings = read;
    order_transports(read.transports, settings->transports, sizeof settings->transports);
    return WEFT_OK;
}

/* A number as such, or the word that it stands for. */
static int print_number(const struct weft_setting *row, int64_t number, char *text, size_t capacity)
{
    if (row->type == NUMBER)
        return snprintf(text, capacity, "%lld", (long long)number);
    const char *word = row->words;
    for (int64_t i = 0; i < number && strchr(word, ','); i++)
        word = strchr(word, ',') + 1;
    return snprintf(text, capacity, "%.*s", (int)strcspn(word, ","), word);
}

/* One agreed setting as a line, for people who read what differs. */
static int print_row(const struct weft_setting *row, const void *field, char *text, size_t capacity)
{
    char number[64];
    if (is_text(row))
        return snprintf(text, capacity, "%s=%s\n", row->name, (const char *)field);
    print_number(row, *(const int64_t *)field, number, sizeof number);
    return snprintf(text, capacity, "%s=%s\n", row->name, number);
}

void weft_setting_default(const struct weft_setting *setting, char *text, size_t capacity)
{
    if (setting->unset)
        snprintf(text, capacity, "%s", setting->unset);
    else
        print_number(setting, setting->fallback, text, capacity);
}

void weft_setting_values(const struct weft_setting *setting, char *text, size_t capacity)
{
    size_t used = 0;
    if (setting->values)
        snprintf(text, capacity, "%s", setting->values);
    else if (setting->words)
        for (const char *c = setting->words; *c && used + 3 < capacity; c++)
            used += (size_t)snprintf(text + used, capacity - used, *c == ',' ? ", " : "%c", *c);
    else if (setting->high == INT64_MAX)
        snprintf(text, capacity, "%lld or more", (long long)setting->low);
    else
        snprintf(text, capacity, setting->high - setting->low == 1 ? "%lld or %lld" : "%lld to %lld",
                 (long long)setting->low, (long long)setting->high);
}

int weft_setting_in_force(const struct weft_setting *setting, char *text, size_t capacity)
{
    struct weft_settings read;
    const char *given = given_value(setting);
    if (!given || !*given) {
        weft_setting_default(setting, text, capacity);
        return WEFT_OK;
    }
    snprintf(text, capacity, "%s", given);
    if (setting->type == OTHER)
        return check_other(setting, given);
    int status = read_row(setting, given, &read);
    const void *field = (const char *)&read + setting->offset;
    if (status != WEFT_OK)
        return status;
    if (setting->words == transport_words)
        order_transports(field, text, capacity);
    else if (!is_text(setting))
        print_number(setting, *(const int64_t *)field, text, capacity);
    return WEFT_OK;
}

size_t weft_settings_agreed(const struct weft_settings *settings, char *text, size_t capacity)
{
    size_t used = 0;
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].scope != AGREED)
            continue;
        const void *field = (const char *)settings + rows[i].offset;
        char *at = used < capacity ? text + used : NULL;
        size_t room = at ? capacity - used : 0;
        used += (size_t)print_row(&rows[i], field, at, room);
    }
    return used;
}

int weft_settings_differ(const char *mine, const char *theirs, char *name, size_t capacity)
{
    while (*mine || *theirs) {
        size_t a = strcspn(mine, "\n"), b = strcspn(theirs, "\n");
        if (a != b || strncmp(mine, theirs, a) != 0) {
            const char *line = *mine ? mine : theirs;
            snprintf(name, capacity, "%.*s", (int)strcspn(line, "="), line);
            return 1;
        }
        mine += a + (mine[a] == '\n');
        theirs += b + (theirs[b] == '\n');
    }
    return 0;
}
