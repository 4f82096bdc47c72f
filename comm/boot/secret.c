/* SPDX-License-Identifier: Apache-2.0 */
/* The key of a job: where its secret comes from (docs/bootstrap.md, section 3). */
#include "base/error.h"
#include "base/secret.h"
#include "comm/boot/boot.h"
#include "comm/boot/record.h"

static int missing(void)
{
    return weft_fail(
        WEFT_INVALID,
        "there is no secret to know this job's ranks from strangers: set WEFT_SECRET_FILE to the absolute "
        "path of a file of 16 random bytes or more, mode 0600, the same on every host (or "
        "WEFT_SECRET_FD, or secret in the options)");
}

int weft_boot_secret_find(struct weft_bootstrap *b, const struct weft_bootstrap_options *options)
{
    struct weft_secret found;
    int status = WEFT_OK;
    if (options->secret) {
        status = weft_auth_job_key(options->secret, options->secret_size, &b->job);
        b->has_job = status == WEFT_OK;
        return status;
    }
    status = weft_secret_from_environment(&found);
    if (status == WEFT_OK && found.size) {
        status = weft_auth_job_key(found.bytes, found.size, &b->job);
        b->has_job = status == WEFT_OK;
    } else if (status == WEFT_OK && !options->store && !options->file) {
        status = missing();
    }
    weft_secret_wipe(&found);
    return status;
}

int weft_boot_secret_make(struct weft_bootstrap *b, struct weft_boot_record *record)
{
    if (b->has_job)
        return WEFT_OK;
    int status = weft_crypto_init();
    if (status != WEFT_OK)
        return status;
    weft_crypto_random(record->secret, sizeof record->secret);
    record->has_secret = 1;
    return weft_auth_job_key(record->secret, sizeof record->secret, &b->job);
}

int weft_boot_secret_take(struct weft_bootstrap *b, const struct weft_boot_record *record)
{
    if (b->has_job)
        return WEFT_OK;
    if (!record->has_secret)
        return weft_fail(WEFT_RANKS_ABSENT,
                         "rank 0's record has no secret, since rank 0 was given one: give this rank the "
                         "same (WEFT_SECRET_FILE, WEFT_SECRET_FD, or secret in the options)");
    return weft_auth_job_key(record->secret, sizeof record->secret, &b->job);
}

void weft_bootstrap_derive(const struct weft_bootstrap *b, const void *purpose, size_t size,
                           unsigned char secret[WEFT_KEY_BYTES])
{
    struct weft_key group;
    weft_auth_group_key(&b->job, b->session, b->name_hash, &group);
    weft_auth_group_secret(&group, purpose, size, secret);
    weft_crypto_wipe(&group, sizeof group);
}
