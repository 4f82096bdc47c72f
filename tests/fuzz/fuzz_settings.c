/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: settings from the environment, and the text of a peer's settings.
 *
 * The input is lines NAME=value, set as they are where the name begins with WEFT_; behind a line "--" comes a
 * peer's text, which is compared with this side's. Settings that were accepted must agree with themselves.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/settings.h"
#include "comm/form/ports.h"
#include "devmem/devices.h"
#include "topo/graph/graph.h"

#define LINES_MAX 32
#define AGREED    2048

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Sets a line, which is cut into name and value in place. Returns the name, NULL when it is no setting. */
static const char *set_line(char *line)
{
    char *equals = strchr(line, '=');
    if (!equals || strncmp(line, "WEFT_", 5) != 0)
        return NULL;
    *equals = '\0';
    setenv(line, equals + 1, 1);
    return line;
}

static void compare(const struct weft_settings *settings, const char *theirs)
{
    char agreed[AGREED], name[64];
    size_t length = weft_settings_agreed(settings, agreed, sizeof agreed);
    if (length >= sizeof agreed || weft_settings_differ(agreed, agreed, name, sizeof name))
        __builtin_trap();
    if (weft_settings_differ(agreed, theirs, name, sizeof name) == (strcmp(agreed, theirs) == 0))
        __builtin_trap();
}

/* The texts are read; nothing is loaded. */
static void make_devices(const struct weft_settings *settings)
{
    struct weft_devices *devices;
    if (weft_devices_create(settings->device_kinds, settings->device_plugins, settings->device_options,
                            &devices) == 0)
        weft_devices_destroy(devices);
}

/* What the list leaves of a machine with one port. */
static void leave_out(const char *list)
{
    struct weft_graph *machine;
    uint32_t node = 0;
    if (weft_graph_new("machine", "fuzz", &machine) != 0)
        return;
    static const struct {
        enum weft_node_kind kind;
        const char *name;
    } nodes[] = {{WEFT_NODE_HOST, "h"}, {WEFT_NODE_NIC, "mlx5_0"}, {WEFT_NODE_PORT, "mlx5_0:1"}};
    int status = 0;
    for (int i = 0; i < 3 && status == 0; i++) {
        struct weft_node_given given =
            WEFT_NODE_GIVEN(nodes[i].kind, i ? node : WEFT_NODE_NONE, nodes[i].name);
        given.index = i == 2;
        given.state = i == 2 ? WEFT_PORT_ACTIVE : 0;
        status = weft_graph_add_node(machine, &given, &node);
    }
    if (status == 0 && !weft_ports_leave_out(machine, list) && machine->nodes[node].state != WEFT_PORT_ACTIVE)
        __builtin_trap(); /* no list, and it has changed something */
    weft_graph_free(machine);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *names[LINES_MAX];
    int count = 0;
    char *text = malloc(size + 1), *line = text;
    const char *theirs = "";
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    while (line && count < LINES_MAX) {
        char *end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        if (strcmp(line, "--") == 0) {
            theirs = end ? end : "";
            break;
        }
        names[count] = set_line(line);
        count += names[count] != NULL;
        line = end;
    }
    struct weft_settings settings;
    if (weft_settings_read(&settings, NULL) == 0) {
        compare(&settings, theirs);
        make_devices(&settings);
        if (*settings.devices == '^')
            leave_out(settings.devices + 1);
    }
    while (count > 0)
        unsetenv(names[--count]);
    free(text);
    return 0;
}
