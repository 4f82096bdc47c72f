/* SPDX-License-Identifier: Apache-2.0 */
/* The record by which rank 0 is found (docs/bootstrap.md, section 2), as text, in a file, and in a store. */
#ifndef WEFT_COMM_BOOT_RECORD_H
#define WEFT_COMM_BOOT_RECORD_H

#include <time.h>

#include "base/net/socket.h"
#include "comm/boot/bootstrap.h"

#define WEFT_BOOT_RECORD_MAX    4096
#define WEFT_BOOT_RECORD_SECRET 32 /* bytes, when rank 0 has made one for this communicator */

struct weft_boot_record {
    uint64_t nonce; /* never 0 */
    uint64_t host;  /* identity, 0 not known */
    struct weft_net_addresses addresses;
    int has_secret;
    unsigned char secret[WEFT_BOOT_RECORD_SECRET];
    /* Set by publish: the file that was written, so that taking it away needs no descriptor. */
    uint64_t file_device, file_inode;
    struct timespec file_time;
};

/* Returns the length, always below capacity (WEFT_BOOT_RECORD_MAX suffices). */
size_t weft_boot_record_format(const struct weft_boot_record *record, char *text, size_t capacity);
/* Whether it is a record of any version, or the beginning of one whose writer was cut off: one line that says so, and nothing
 * behind the end. */
int weft_boot_record_is_one(const char *text, size_t size);
/* text needs no terminator. WEFT_PROTOCOL with the reason. */
int weft_boot_record_parse(const char *text, size_t size, struct weft_boot_record *record);

/* Rank 0: makes the record known in the file or store of options, and takes its own file away again. WEFT_INVALID
 * where the file's name is taken by something that is no record (file.h). */
int weft_boot_record_publish(const struct weft_bootstrap_options *options, struct weft_boot_record *record);
void weft_boot_record_withdraw(const struct weft_bootstrap_options *options,
                               const struct weft_boot_record *record);

/* Others: reads it once. WEFT_RANKS_ABSENT with the reason while there is none to be had; WEFT_INVALID where waiting would
 * not change that. A store may be waited for up to wait_ms; a file is never waited for. */
int weft_boot_record_fetch(const struct weft_bootstrap_options *options, int wait_ms,
                           struct weft_boot_record *record);

#endif
