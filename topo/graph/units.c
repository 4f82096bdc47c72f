/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses and speeds as files and systems spell them.
 *
 * Bandwidth of PCI is transfers per second times lanes times the share that the line code leaves: 8b/10b up to
 * 5 GT/s, 128b/130b from 8 GT/s, and 242 of 256 bytes of a FLIT from 64 GT/s (PCI Express Base Specification 6.0,
 * sections 4.2 and 4.2.3). Packet headers are not taken off: how many there are depends on the traffic.
 *
 * InfiniBand's speeds are per lane (InfiniBand Architecture Specification, volume 2, section 6.4): SDR, DDR and QDR
 * with 8b/10b, FDR10, FDR and EDR with 64b/66b; from HDR on the names already count data.
 */
#include "topo/graph/graph.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

static int hex_digit(char letter)
{
    if (letter >= '0' && letter <= '9')
        return letter - '0';
    letter |= 0x20;
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

/* Reads 1 to digits_max hexadecimal digits; the text behind them, or NULL. */
static const char *hex_number(const char *text, int digits_max, uint32_t *value)
{
    int digits = 0;
    *value = 0;
    for (; hex_digit(*text) >= 0; text++, digits++) {
        if (digits == digits_max)
            return NULL;
        *value = *value << 4 | (uint32_t)hex_digit(*text);
    }
    return digits ? text : NULL;
}

int weft_pci_parse(const char *text, char address[32])
{
    uint32_t domain = 0, bus, device, function;
    int colons = 0;
    for (const char *at = text; *at; at++)
        colons += *at == ':';
    const char *at = text;
    if (colons == 2) {
        at = hex_number(at, 8, &domain);
        at = at && *at == ':' ? at + 1 : NULL;
    }
    at = at ? hex_number(at, 2, &bus) : NULL;
    at = at && *at == ':' ? hex_number(at + 1, 2, &device) : NULL;
    at = at && *at == '.' ? hex_number(at + 1, 1, &function) : NULL;
    if (!at || *at || device > 0x1f || function > 7)
        return weft_fail(WEFT_INVALID, "\"%.60s\" is no PCI address, expected one like 0000:0c:00.0", text);
    snprintf(address, 32, "%04x:%02x:%02x.%x", domain, bus, device, function);
    return 0;
}

uint64_t weft_pci_bytes_per_s(double gigatransfers, unsigned width)
{
    if (!(gigatransfers > 0 && gigatransfers <= 1024) || width < 1 || width > 32)
        return 0;
    double share = gigatransfers < 8 ? 8.0 / 10 : gigatransfers < 64 ? 128.0 / 130 : 242.0 / 256;
    return (uint64_t)(gigatransfers * 1e9 * width * share / 8 + 0.5);
}

/* Not strtod(): a program's locale must not change what a file says. */
int weft_pci_speed_parse(const char *text, double *gigatransfers)
{
    const char *at = text;
    while (*at == ' ')
        at++;
    double value = 0, digit_of = 1;
    int digits = 0, point = 0;
    for (; (*at >= '0' && *at <= '9') || (*at == '.' && !point); at++) {
        if (*at == '.') {
            point = 1;
            continue;
        }
        digits++;
        value = value * 10 + (*at - '0');
        digit_of *= point ? 10 : 1;
        if (digits > 9)
            break;
    }
    value /= digit_of;
    while (*at == ' ')
        at++;
    int unit = !*at || strncmp(at, "GT/s", 4) == 0;
    if (!digits || !unit || value <= 0 || value > 1024)
        return weft_fail(WEFT_INVALID, "\"%.60s\" is no speed of PCI, expected one like 16 GT/s", text);
    *gigatransfers = value;
    return 0;
}

static const struct {
    const char *name;
    uint64_t bits_per_s; /* on the wire, per lane */
    unsigned data, coded;
} speeds[] = {
    {"SDR", 2500000000, 8, 10},     {"DDR", 5000000000, 8, 10},   {"QDR", 10000000000, 8, 10},
    {"FDR10", 10312500000, 64, 66}, {"FDR", 14062500000, 64, 66}, {"EDR", 25781250000, 64, 66},
    {"HDR", 50000000000, 1, 1},     {"NDR", 100000000000, 1, 1},  {"XDR", 200000000000, 1, 1},
};

static uint64_t ib_rate(size_t speed, unsigned lanes)
{
    return lanes * speeds[speed].bits_per_s * speeds[speed].data / speeds[speed].coded / 8;
}

uint64_t weft_ib_bytes_per_s(const char *width_and_speed)
{
    const char *at = width_and_speed;
    unsigned lanes = 0;
    for (; *at >= '0' && *at <= '9' && lanes < 100; at++)
        lanes = lanes * 10 + (unsigned)(*at - '0');
    if (*at != 'x' && *at != 'X')
        return 0;
    if (lanes != 1 && lanes != 2 && lanes != 4 && lanes != 8 && lanes != 12)
        return 0;
    for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++) {
        if (strcmp(at + 1, speeds[i].name) == 0)
            return ib_rate(i, lanes);
    }
    return 0;
}

void weft_ib_speed_name(unsigned lanes, uint64_t bytes_per_s, char name[16])
{
    name[0] = '\0';
    for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++) {
        if (lanes && bytes_per_s && ib_rate(i, lanes) == bytes_per_s)
            snprintf(name, 16, "%ux%s", lanes, speeds[i].name);
    }
}
