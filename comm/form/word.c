/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/form/word.h"

#include <stdio.h>
#include <string.h>

void weft_word_set(struct weft_word *word, int status)
{
    *word = (struct weft_word){.status = status};
    if (status != WEFT_OK)
        snprintf(word->text, sizeof word->text, "%s", weft_error_detail());
}

static int is_word(const struct weft_word *word)
{
    return memchr(word->text, 0, sizeof word->text) && memchr(word->address, 0, sizeof word->address) &&
           word->status <= WEFT_OK && word->status >= WEFT_INTERNAL;
}

int weft_word_read(const struct weft_blob *blob, struct weft_word *word)
{
    memset(word, 0, sizeof *word);
    if (blob->size == 0)
        return WEFT_OK;
    if (blob->size == sizeof *word)
        memcpy(word, blob->data, sizeof *word);
    if (blob->size != sizeof *word || !is_word(word)) {
        *word = (struct weft_word){.status = WEFT_PROTOCOL, .text = "it sent bytes that cannot be read"};
        return WEFT_PROTOCOL;
    }
    for (char *c = word->text; *c; c++)
        *c = (unsigned char)*c < ' ' || *c == 0x7f ? '?' : *c;
    return WEFT_OK;
}

void weft_word_quote(const struct weft_comm *comm, int rank, const struct weft_word *theirs,
                     struct weft_word *word)
{
    *word = (struct weft_word){.status = theirs->status};
    snprintf(word->text, sizeof word->text, "rank %d on host '%s': %.700s", rank, comm->members[rank].host,
             theirs->text);
}

void weft_ranks_hash(const int *ranks, int count, unsigned char hash[WEFT_MAC_BYTES])
{
    static const char label[] = "weft 1 list of ranks";
    static const struct weft_key key; /* no secret */
    const struct weft_crypto_part parts[] = {{label, sizeof label}, {ranks, (size_t)count * sizeof *ranks}};
    weft_crypto_hmac(&key, parts, 2, hash);
}

const struct weft_word *weft_word_choose(const struct weft_word *mine, const struct weft_word *others)
{
    int is_mine = mine->status != WEFT_OK && !(mine->status == WEFT_CANCELLED && others->status != WEFT_OK);
    return is_mine ? mine : others;
}
