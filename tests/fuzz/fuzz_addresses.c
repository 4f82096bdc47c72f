/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: addresses as people and launchers write them. The first line is taken as "host:port" and as a numeric
 * address; those behind it are RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and WEFT_PORT, as torchrun sets them. What
 * was understood must survive being written and read again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/net/socket.h"
#include "comm/boot/bootstrap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int good)
{
    if (!good)
        __builtin_trap();
}

static void read_address(const char *text)
{
    char host[WEFT_NET_HOSTPORT_MAX], again[WEFT_NET_ADDRESS_TEXT];
    uint16_t port;
    struct weft_net_address address, same;
    if (weft_net_hostport_split(text, host, &port) == 0)
        check(strlen(host) < sizeof host);
    weft_net_hostport_is_loopback(text);
    if (weft_net_address_parse(text, &address) != 0)
        return;
    weft_net_address_text(&address, 1, again);
    check(strlen(again) < sizeof again && weft_net_address_parse(again, &same) == 0 &&
          weft_net_address_same(&address, &same));
    weft_net_address_is_loopback(&address);
}

static void resolve(void)
{
    struct weft_bootstrap_options resolved = {0};
    char buffer[WEFT_BOOTSTRAP_BUFFER];
    if (weft_bootstrap_resolve(NULL, &resolved, buffer, sizeof buffer) != 0)
        return;
    check(resolved.ranks >= 1 && resolved.rank >= 0 && resolved.rank < resolved.ranks);
    check(resolved.ranks == 1 || resolved.address || resolved.file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"", "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "WEFT_PORT"};
    const int count = sizeof names / sizeof *names;
    char *text = malloc(size + 1), *line = text;
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    for (int i = 0; i < count && line; i++) {
        char *end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        if (i == 0)
            read_address(line);
        else if (*line)
            setenv(names[i], line, 1);
        line = end;
    }
    resolve();
    for (int i = 1; i < count; i++)
        unsetenv(names[i]);
    free(text);
    return 0;
}
