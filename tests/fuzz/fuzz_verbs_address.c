/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs verbs */
/* Fuzz target: the address of an instance of the verbs transport. What is accepted has a use without leaving any
 * table, pairs with itself and with others alike from both ends, and is written again as it was read.
 */
#include <stdint.h>
#include <string.h>
#include "transport/verbs/address.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int good)
{
    if (!good)
        __builtin_trap();
}

static void check_pairs(const struct verbs_address *mine, const struct verbs_address *theirs)
{
    struct verbs_pair pairs[VERBS_PAIRS], mirrored[VERBS_PAIRS];
    int count = verbs_pairs(mine, theirs, pairs);
    check(count >= 0 && count <= VERBS_PAIRS);
    if (mine->instance == theirs->instance)
        return; /* an instance has no other end to agree with */
    check(verbs_pairs(theirs, mine, mirrored) == count);
    for (int i = 0; i < count; i++) {
        struct verbs_path path;
        check(pairs[i].mine == mirrored[i].theirs && pairs[i].their_gid == mirrored[i].my_gid);
        check(pairs[i].mine < mine->port_count && pairs[i].theirs < theirs->port_count);
        check(pairs[i].my_gid < mine->ports[pairs[i].mine].gid_count);
        verbs_path(mine, theirs, &pairs[i], i, &path);
        check(verbs_mtu_bytes(path.mtu) >= 256);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* The first byte says where one address ends and the next begins. */
    size_t first = size ? data[0] : 0;
    struct verbs_address mine, theirs;
    if (first >= size || verbs_address_decode(data + 1, first, &mine))
        return 0;
    uint8_t bytes[WEFT_ADDRESS_MAX];
    struct verbs_address again;
    size_t written = verbs_address_encode(&mine, bytes);
    check(verbs_address_decode(bytes, written, &again) == 0 && again.port_count == mine.port_count);
    check_pairs(&mine, &mine);
    if (verbs_address_decode(data + 1 + first, size - 1 - first, &theirs) == 0)
        check_pairs(&mine, &theirs);
    return 0;
}
