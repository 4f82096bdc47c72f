/* SPDX-License-Identifier: Apache-2.0 */
/* Rank, number of ranks and the place of rank 0, from options and the environment. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "base/environment.h"
#include "base/error.h"
#include "base/secure.h"
#include "base/net/socket.h"
#include "comm/boot/frame.h"
#include "comm/boot/modex.h"
#include "comm/boot/bootstrap.h"

static int read_number(const char *name, long long least, long long most, const char *expected, int *value)
{
    const char *text = weft_environment_get(name);
    if (!text || !*text)
        return weft_fail(WEFT_INVALID, "%s is not set: expected %s", name, expected);
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno || *end || number < least || number > most)
        return weft_fail(WEFT_INVALID, "%s is '%.64s': expected %s, from %lld to %lld", name, text, expected,
                         least, most);
    *value = (int)number;
    return WEFT_OK;
}

static const char *non_empty(const char *name)
{
    const char *text = weft_environment_get(name);
    return text && *text ? text : NULL;
}

/* MASTER_PORT belongs to torchrun's own store, which listens there: ours is the next one unless set. */
static int port_from_environment(int *port, const char **port_is)
{
    int is_own = non_empty("WEFT_PORT") || !non_empty("MASTER_PORT");
    *port_is = is_own ? "WEFT_PORT" : "MASTER_PORT + 1";
    if (is_own)
        return read_number("WEFT_PORT", 1, 65535, "the TCP port where rank 0 listens", port);
    int theirs;
    int status = read_number("MASTER_PORT", 1, 65534, "torchrun's port (weft takes the next)", &theirs);
    if (status == WEFT_OK)
        *port = theirs + 1;
    return status;
}

static int listener_from_environment(struct weft_bootstrap_options *resolved)
{
    int fd, listening = 0;
    socklen_t size = sizeof listening;
    if (!weft_secure_getenv("WEFT_BOOTSTRAP_FD"))
        return WEFT_OK;
    int status = read_number("WEFT_BOOTSTRAP_FD", 0, 1 << 30, "an inherited listening socket", &fd);
    if (status != WEFT_OK)
        return status;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || !listening)
        return weft_fail(WEFT_INVALID, "WEFT_BOOTSTRAP_FD is %d: expected a listening socket", fd);
    fcntl(fd, F_SETFD, FD_CLOEXEC); /* it was inherited by us on purpose, and is nobody else's */
    resolved->listen_fd = fd;
    return WEFT_OK;
}

static int uses_pmix(const struct weft_bootstrap_options *resolved)
{
    return resolved->pmix && weft_pmix_launched();
}

static int source_from_pmix(struct weft_bootstrap_options *resolved)
{
    const struct weft_pmix_facts *facts;
    int status = weft_pmix_source_open(resolved->pmix, &facts);
    if (status != WEFT_OK)
        return status;
    /* Whoever looks for rank 0 asks for what PMIx's rank 0 has put. */
    if (resolved->rank != facts->rank || resolved->ranks > facts->ranks)
        return weft_fail(WEFT_INVALID,
                         "rank %d of %d was started as rank %d of %d by PMIx: expected the same numbers, or "
                         "WEFT_BOOTSTRAP_FILE, or MASTER_ADDR and WEFT_PORT, or a store, file or address",
                         resolved->rank, resolved->ranks, facts->rank, facts->ranks);
    status = weft_pmix_source_begin(resolved->pmix, resolved->name);
    if (status != WEFT_OK)
        return status;
    resolved->store = &resolved->pmix->store;
    resolved->launcher = "PMIx";
    return WEFT_OK;
}

static int source_from_environment(struct weft_bootstrap_options *resolved, char *buffer, size_t capacity)
{
    const char *file = weft_secure_getenv("WEFT_BOOTSTRAP_FILE");
    if (file) {
        if (file[0] != '/')
            return weft_fail(WEFT_INVALID, "WEFT_BOOTSTRAP_FILE is '%.256s': expected an absolute path",
                             file);
        if (strlen(file) >= capacity)
            return weft_fail(WEFT_INVALID, "WEFT_BOOTSTRAP_FILE has %zu bytes, expected less than %zu",
                             strlen(file), capacity);
        memcpy(buffer, file, strlen(file) + 1);
        resolved->file = buffer;
        return WEFT_OK;
    }
    const char *host = non_empty("MASTER_ADDR");
    /* A host without any port is not torchrun's doing, and says less than PMIx does. */
    if (uses_pmix(resolved) && !(host && (non_empty("WEFT_PORT") || non_empty("MASTER_PORT"))))
        return source_from_pmix(resolved);
    if (!host)
        return weft_fail(WEFT_INVALID, "MASTER_ADDR is not set: expected the host of rank 0 (or "
                                       "WEFT_BOOTSTRAP_FILE, or a store, file or address in the options)");
    int port;
    int status = port_from_environment(&port, &resolved->port_is);
    if (status != WEFT_OK)
        return status;
    int bare6 = strchr(host, ':') && host[0] != '[';
    int length = bare6 ? snprintf(buffer, capacity, "[%s]:%d", host, port)
                       : snprintf(buffer, capacity, "%s:%d", host, port);
    if (length < 0 || (size_t)length >= capacity || length >= WEFT_NET_HOSTPORT_MAX)
        return weft_fail(WEFT_INVALID, "MASTER_ADDR has %zu bytes, which is too long", strlen(host));
    resolved->address = buffer;
    return resolved->rank == 0 ? listener_from_environment(resolved) : WEFT_OK;
}

/* What to do about a launcher that has started this process without giving it anything that weft reads. */
static const char *launcher_hint(void)
{
    if (non_empty("PMIX_NAMESPACE"))
        return non_empty("WORLD_SIZE") ? " (PMIx has started this process, and its numbers are not used as "
                                         "WORLD_SIZE is set: unset it)"
               : non_empty("RANK")
                   ? " (PMIx has started this process, and its numbers are not used as RANK is set: unset it)"
                   : "";
    if (non_empty("SLURM_PROCID"))
        return " (srun started this process without PMIx: srun --mpi=pmix, or MpiDefault=pmix in slurm.conf)";
    if (non_empty("PMI_RANK"))
        return " (the launcher speaks PMI-1 or PMI-2: weft needs PMIx)";
    return "";
}

static int who_by_environment(int *rank, int *ranks)
{
    char expected[160];
    int status = WEFT_OK;
    snprintf(expected, sizeof expected, "the number of ranks%s", launcher_hint());
    if (*ranks == -1)
        status = read_number("WORLD_SIZE", 1, WEFT_BOOT_RANKS_MAX, expected, ranks);
    if (status == WEFT_OK && *rank == -1 && *ranks == 1)
        *rank = 0;
    snprintf(expected, sizeof expected, "this process's rank%s", launcher_hint());
    if (status == WEFT_OK && *rank == -1)
        status = read_number("RANK", 0, WEFT_BOOT_RANKS_MAX - 1, expected, rank);
    return status;
}

/* Rank and number of ranks: options, torchrun's variables, PMIx. One rank needs nobody to know that it is the
 * first. */
static int who(const weft_comm_options *given, struct weft_bootstrap_options *resolved)
{
    int status = WEFT_OK, *rank = &resolved->rank, *ranks = &resolved->ranks;
    *rank = given->rank;
    *ranks = given->ranks;
    if (uses_pmix(resolved) && !non_empty("RANK") && !non_empty("WORLD_SIZE") &&
        (*ranks == -1 || (*rank == -1 && *ranks != 1))) {
        const struct weft_pmix_facts *facts;
        status = weft_pmix_source_open(resolved->pmix, &facts);
        if (status != WEFT_OK)
            return status;
        *rank = *rank == -1 ? facts->rank : *rank;
        *ranks = *ranks == -1 ? facts->ranks : *ranks;
    }
    status = who_by_environment(rank, ranks);
    if (status != WEFT_OK)
        return status;
    if (*ranks < 1 || *ranks > WEFT_BOOT_RANKS_MAX)
        return weft_fail(WEFT_INVALID, "the number of ranks is %d: expected 1 to %d", *ranks,
                         WEFT_BOOT_RANKS_MAX);
    if (*rank < 0 || *rank >= *ranks)
        return weft_fail(WEFT_INVALID, "rank is %d: expected 0 to %d", *rank, *ranks - 1);
    return WEFT_OK;
}

int weft_bootstrap_resolve(const weft_comm_options *options, struct weft_bootstrap_options *resolved,
                           char *buffer, size_t capacity)
{
    weft_comm_options given = WEFT_COMM_OPTIONS_INIT;
    if (options)
        memcpy(&given, options, options->size < sizeof given ? options->size : sizeof given);
    struct weft_bootstrap_options made = *resolved;
    int status = who(&given, &made);
    if (status != WEFT_OK)
        return status;
    made.launcher = NULL;
    made.port_is = NULL;
    made.name = given.name ? given.name : "";
    made.secret = given.secret;
    made.secret_size = given.secret_size;
    made.store = given.store;
    made.file = given.store ? NULL : given.file;
    made.address = given.store || given.file ? NULL : given.address;
    made.listen_fd = made.rank == 0 && !given.store && !given.file ? given.listen_fd : -1;
    if (made.ranks > 1 && !made.store && !made.file && !made.address && made.listen_fd < 0) {
        status = source_from_environment(&made, buffer, capacity);
        if (status != WEFT_OK)
            return status;
    }
    *resolved = made;
    return WEFT_OK;
}
