/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: reports of ranks that do not move, as rank 0 reads them (comm/core/judge.c). The input is cut into records,
 * each behind a byte for the rank and two for the length; a record begins as a good one, over which the input is
 * laid, so that magic numbers need not be guessed.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "comm/core/judge.c"

#define RANKS 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The verdict, as a bootstrap would take it. */
void weft_bootstrap_revoke_as(struct weft_bootstrap *b, int status, const char *reason)
{
    (void)b;
    if (status == WEFT_OK || strlen(reason) >= WEFT_DETAIL_MAX)
        __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct weft_member members[RANKS];
    static struct weft_context context;
    struct weft_comm comm = {.ranks = RANKS, .members = members, .context = &context};
    struct weft_judge *judge;
    if (!context.overlay && weft_service_start("weft-test", &context.overlay) != WEFT_OK)
        return 0;
    if (weft_judge_open(&comm, &judge) != WEFT_OK)
        return 0;
    while (size > 3) {
        int rank = data[0] % RANKS;
        size_t length = (size_t)(data[1] | data[2] << 8) % (sizeof(struct weft_stall_record) + 8);
        size_t given = length < size - 3 ? length : size - 3;
        unsigned char *record = calloc(1, length ? length : 1);
        if (!record)
            break;
        const struct weft_stall_record good = {.magic = WEFT_STALL_MAGIC, .call.sequence = 1};
        memcpy(record, &good, length < sizeof good ? length : sizeof good);
        for (size_t i = 0; i < given; i++)
            record[i] ^= data[3 + i];
        weft_judge_take(judge, rank, record, length);
        free(record);
        data += 3 + given;
        size -= 3 + given;
    }
    if (!judge->decided)
        decide(judge);
    weft_judge_close(judge);
    return 0;
}
