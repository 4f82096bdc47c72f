/* SPDX-License-Identifier: Apache-2.0 */
/* build: also rdma */
/* The transport contract on libfabric's provider for RDMA devices. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/conform.h"
#include "tests/support/rdma_device.h"
#include "transport/registry.h"
#include <weft/weft.h>

#define PROVIDER "verbs;ofi_rxm"

static char address[64];

static const char *open_once(void)
{
    struct weft_transport_params params = {
        .size = sizeof params, .provider = PROVIDER, .local_address = address};
    struct weft_transport_ops ops;
    struct weft_transport *transport;
    int status = weft_transport_complete(weft_transport_find("ofi"), &ops);
    if (!status)
        status = ops.open(&params, &transport);
    if (status) /* another failure is for the tests to find */
        return status == WEFT_NOT_FOUND ? weft_error_detail() : NULL;
    ops.close(transport);
    return NULL;
}

/* A child looks, as a process that has loaded libfabric has no children that may use RDMA devices. */
static const char *absent(void)
{
    static char why[512];
    const char *reason = test_rdma_address(0, address, sizeof address);
    int pipe_fds[2];
    if (reason)
        return reason;
    if (pipe(pipe_fds))
        return "no pipe";
    pid_t child = fork();
    if (child == 0) {
        reason = open_once();
        _exit(reason && dprintf(pipe_fds[1], "%s", reason) > 0);
    }
    close(pipe_fds[1]);
    ssize_t size = read(pipe_fds[0], why, sizeof why - 1);
    close(pipe_fds[0]);
    waitpid(child, NULL, 0);
    return size > 0 ? why : NULL;
}

static const struct conform_backend rows[] = {
    {.label = "ofi " PROVIDER,
     .transport = "ofi",
     .provider = PROVIDER,
     .local_address = address,
     .offers = WEFT_CAP_PUT,
     .processes = 1,
     .absent = absent,
     .peers = 3},
};

int main(void)
{
    /* Soft-RoCE has fewer completion entries than libfabric asks for otherwise: docs/providers.md. */
    setenv("FI_UNIVERSE_SIZE", "32", 0);
    return conform_run(rows, sizeof rows / sizeof rows[0]);
}
