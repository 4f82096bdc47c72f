/* SPDX-License-Identifier: Apache-2.0 */
/* build: also rdma */
/* The transport contract on RDMA devices, those of WEFT_RDMA_DEVICE. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/conform.h"
#include "tests/support/rdma_device.h"

static char words[8][64]; /* one device each */
static int words_count;
static atomic_uint opened;

static void words_read(const char *list)
{
    for (words_count = 0; list && *list && words_count < 8; words_count++) {
        size_t size = strcspn(list, ",");
        snprintf(words[words_count], sizeof words[0], "%.*s", (int)size, list);
        list += size + (list[size] == ',');
    }
}

static const char *first_device(void)
{
    return words[0];
}

/* Every other instance, so that links lead from each device to itself and to the next. */
static const char *next_device(void)
{
    return words[atomic_fetch_add(&opened, 1) % (unsigned)(words_count < 2 ? 1 : 2)];
}

static const char *all_devices(void)
{
    return getenv("WEFT_RDMA_DEVICE");
}

static const char *absent(void)
{
    words_read(getenv("WEFT_RDMA_DEVICE"));
    return test_rdma_absent(0);
}

static const char *no_second(void)
{
    const char *reason = absent();
    return reason || words_count > 1 ? reason : "WEFT_RDMA_DEVICE names one device only";
}

static void many_qps(struct weft_verbs_settings *settings)
{
    settings->qps = 2;
    settings->stripe_bytes = 5000;
}

static void no_windows(struct weft_verbs_settings *settings)
{
    settings->windows = 0;
}

static const struct conform_backend rows[] = {
    {.label = "verbs on one device",
     .transport = "verbs",
     .offers = WEFT_CAP_PUT,
     .devices = first_device,
     .absent = absent,
     .peers = 6},
    {.label = "verbs between two devices, letters lost",
     .transport = "verbs",
     .offers = WEFT_CAP_PUT,
     .devices = next_device,
     .lossy_oob = 1,
     .absent = no_second,
     .peers = 6},
    {.label = "verbs on all devices at once",
     .transport = "verbs",
     .offers = WEFT_CAP_PUT,
     .devices = all_devices,
     .absent = no_second,
     .peers = 4},
    {.label = "verbs, puts cut over four queue pairs",
     .transport = "verbs",
     .offers = WEFT_CAP_PUT,
     .devices = all_devices,
     .verbs = many_qps,
     .only_puts = 1,
     .absent = no_second},
    {.label = "verbs without memory windows",
     .transport = "verbs",
     .offers = WEFT_CAP_PUT,
     .devices = first_device,
     .verbs = no_windows,
     .only_puts = 1,
     .absent = absent},
};

int main(int argc, char **argv)
{
    if (argc > 1) /* one row, by number */
        return conform_run(&rows[strtoul(argv[1], NULL, 10) % (sizeof rows / sizeof rows[0])], 1);
    return conform_run(rows, sizeof rows / sizeof rows[0]);
}
