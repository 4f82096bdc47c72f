/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/boot/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/crypto.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/boot/file.h"

#define FIRST_WORD     "weft-rendezvous "
#define FIRST_LINE     FIRST_WORD "1"
#define LAST_WORD      "end"
#define LAST_LINE      LAST_WORD "\n"
#define LINE_MAX_BYTES 128

size_t weft_boot_record_format(const struct weft_boot_record *record, char *text, size_t capacity)
{
    size_t used = (size_t)snprintf(text, capacity, "%s\nnonce %016" PRIx64 "\nhost %016" PRIx64 "\n",
                                   FIRST_LINE, record->nonce, record->host);
    for (int i = 0; i < record->addresses.count; i++) {
        char address[WEFT_NET_ADDRESS_TEXT];
        weft_net_address_text(&record->addresses.at[i], 1, address);
        used += (size_t)snprintf(text + used, capacity - used, "address %s\n", address);
    }
    if (record->has_secret) {
        used += (size_t)snprintf(text + used, capacity - used, "secret ");
        for (int i = 0; i < WEFT_BOOT_RECORD_SECRET; i++)
            used += (size_t)snprintf(text + used, capacity - used, "%02x", record->secret[i]);
        used += (size_t)snprintf(text + used, capacity - used, "\n");
    }
    return used + (size_t)snprintf(text + used, capacity - used, LAST_LINE);
}

int weft_boot_record_is_one(const char *text, size_t size)
{
    const size_t word = sizeof FIRST_WORD - 1;
    if (size <= word || memcmp(text, FIRST_WORD, word) != 0 || text[word] < '0' || text[word] > '9')
        return 0;
    for (size_t i = word; i < size; i++)
        if (text[i] != '\n' && (text[i] < ' ' || text[i] > '~'))
            return 0;
    const char *end = memmem(text, size, "\n" LAST_LINE, sizeof LAST_LINE);
    return !end || end + sizeof LAST_LINE == text + size;
}

static int parse_hex(const char *text, uint64_t *value)
{
    if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return weft_fail(WEFT_PROTOCOL, "rendezvous record: '%.32s' is not a number of 16 digits", text);
    *value = strtoull(text, NULL, 16);
    return WEFT_OK;
}

static int parse_secret(const char *text, struct weft_boot_record *record)
{
    static const char digits[] = "0123456789abcdef";
    if (strlen(text) != 2 * WEFT_BOOT_RECORD_SECRET || strspn(text, digits) != strlen(text))
        return weft_fail(WEFT_PROTOCOL, "rendezvous record: the secret has not %d digits",
                         2 * WEFT_BOOT_RECORD_SECRET);
    for (int i = 0; i < WEFT_BOOT_RECORD_SECRET; i++)
        record->secret[i] = (unsigned char)((strchr(digits, text[2 * i]) - digits) * 16 +
                                            (strchr(digits, text[2 * i + 1]) - digits));
    record->has_secret = 1;
    return WEFT_OK;
}

/* One line after the first; *done at the end line. Unknown words are from a later version, and skipped. */
static int parse_line(const char *line, struct weft_boot_record *record, int *done)
{
    if (strcmp(line, LAST_WORD) == 0) {
        *done = 1;
        return WEFT_OK;
    }
    if (strncmp(line, "nonce ", 6) == 0)
        return parse_hex(line + 6, &record->nonce);
    if (strncmp(line, "host ", 5) == 0)
        return parse_hex(line + 5, &record->host);
    if (strncmp(line, "secret ", 7) == 0)
        return parse_secret(line + 7, record);
    if (strncmp(line, "address ", 8) != 0)
        return WEFT_OK;
    if (record->addresses.count == WEFT_NET_ADDRESSES_MAX)
        return weft_fail(WEFT_PROTOCOL, "rendezvous record: more than %d addresses", WEFT_NET_ADDRESSES_MAX);
    int status = weft_net_address_parse(line + 8, &record->addresses.at[record->addresses.count]);
    if (status != WEFT_OK)
        return WEFT_PROTOCOL;
    record->addresses.at[record->addresses.count].scope = 0; /* none of this host's could be meant */
    record->addresses.count++;
    return WEFT_OK;
}

/* All lines, one of which holds the secret. */
static int parse_lines(const char *text, size_t size, char line[LINE_MAX_BYTES],
                       struct weft_boot_record *record)
{
    int done = 0;
    for (int number = 0; size > 0 && !done; number++) {
        const char *newline = memchr(text, '\n', size);
        size_t length = newline ? (size_t)(newline - text) : size;
        if (!newline || length >= LINE_MAX_BYTES || memchr(text, '\0', length))
            return weft_fail(WEFT_PROTOCOL, "rendezvous record: line %d is torn or too long", number + 1);
        memcpy(line, text, length);
        line[length] = '\0';
        text += length + 1;
        size -= length + 1;
        int status = WEFT_OK;
        if (number == 0 && strcmp(line, FIRST_LINE) != 0)
            status = weft_fail(WEFT_PROTOCOL, "rendezvous record: does not begin with '%s'", FIRST_LINE);
        else if (number > 0)
            status = parse_line(line, record, &done);
        if (status != WEFT_OK)
            return status;
    }
    if (!done || record->nonce == 0 || record->addresses.count == 0)
        return weft_fail(WEFT_PROTOCOL, "rendezvous record: nonce, address or end is missing");
    return WEFT_OK;
}

int weft_boot_record_parse(const char *text, size_t size, struct weft_boot_record *record)
{
    struct weft_boot_record read;
    char line[LINE_MAX_BYTES];
    memset(&read, 0, sizeof read);
    int status = parse_lines(text, size, line, &read);
    if (status == WEFT_OK)
        *record = read;
    weft_crypto_wipe(&read, sizeof read);
    weft_crypto_wipe(line, sizeof line);
    return status;
}

static const char *store_owner(const struct weft_bootstrap_options *options)
{
    return options->launcher ? options->launcher : "the caller's store";
}

static void store_key(const struct weft_bootstrap_options *options, char key[256])
{
    snprintf(key, 256, "weft/%s/root", options->name ? options->name : "");
}

int weft_boot_record_publish(const struct weft_bootstrap_options *options, struct weft_boot_record *record)
{
    char text[WEFT_BOOT_RECORD_MAX];
    size_t size = weft_boot_record_format(record, text, sizeof text);
    if (!options->store) {
        int written = weft_boot_file_write(options->file, record, text, size);
        weft_crypto_wipe(text, sizeof text);
        return written;
    }
    char key[256];
    store_key(options, key);
    if (record->has_secret && !options->launcher)
        weft_log_once(
            WEFT_LOG_WARN,
            "the job's secret is in the caller's store: whoever can read '%s' there can join the job "
            "(WEFT_SECRET_FILE, WEFT_SECRET_FD or weft_comm_options.secret keep it out)",
            key);
    int status = options->store->put(options->store->arg, key, text, size);
    weft_crypto_wipe(text, sizeof text);
    if (status != 0)
        return weft_fail(status < 0 && status >= WEFT_INTERNAL ? status : WEFT_SYSTEM,
                         "%s does not take '%s' (its put answered %d)", store_owner(options), key, status);
    return WEFT_OK;
}

void weft_boot_record_withdraw(const struct weft_bootstrap_options *options,
                               const struct weft_boot_record *record)
{
    if (!options->store && options->file && record->file_inode)
        weft_boot_file_remove(options->file, record);
}

int weft_boot_record_fetch(const struct weft_bootstrap_options *options, int wait_ms,
                           struct weft_boot_record *record)
{
    if (!options->store)
        return weft_boot_file_read(options->file, record);
    char key[256], text[WEFT_BOOT_RECORD_MAX];
    size_t size = 0;
    store_key(options, key);
    int status = options->store->get(options->store->arg, key, text, sizeof text, &size, wait_ms);
    if (status != 0)
        weft_fail(WEFT_RANKS_ABSENT, "%s has no '%s' yet (its get answered %d)", store_owner(options), key,
                  status);
    else if (size > sizeof text)
        weft_fail(WEFT_RANKS_ABSENT, "%s says '%s' has %zu bytes, more than it was given",
                  store_owner(options), key, size);
    else
        status = weft_boot_record_parse(text, size, record) == WEFT_OK ? WEFT_OK : WEFT_RANKS_ABSENT;
    weft_crypto_wipe(text, sizeof text); /* whatever came of it */
    return status == WEFT_OK && size <= sizeof text ? WEFT_OK : WEFT_RANKS_ABSENT;
}
