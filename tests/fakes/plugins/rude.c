/* SPDX-License-Identifier: Apache-2.0 */
/* A kind that takes a signal while it is loaded, and another while it is opened, as libraries of drivers do. */
#define KIND_NAME "rude"
#include "kind.h"

#include <signal.h>

static void nothing(int number)
{
    (void)number;
}

__attribute__((constructor)) static void take_signal(void)
{
    signal(SIGUSR1, nothing);
}

static int rude_open(const struct weft_device_params *params, struct weft_device **device)
{
    signal(SIGUSR2, nothing);
    return kind_open(params, device);
}

const struct weft_device_ops *weft_device_plugin(void)
{
    static struct weft_device_ops ops;
    ops = kind_ops;
    ops.open = rude_open;
    return &ops;
}
