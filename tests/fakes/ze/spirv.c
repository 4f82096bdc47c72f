/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a module. Source: SPIR-V Specification 1.0, "Physical Layout of a SPIR-V Module and Instruction" and "Instructions". */
#include <stdlib.h>
#include <string.h>

#include "tests/fakes/ze/fake_kernel.h"

enum {
    MAGIC = 0x07230203,
    HEADER_WORDS = 5,
    IDS_MAX = 1 << 20,
    OP_ENTRY_POINT = 15,
    OP_EXECUTION_MODE = 16,
    OP_CAPABILITY = 17,
    OP_TYPE_INT = 21,
    OP_TYPE_POINTER = 32,
    OP_FUNCTION = 54,
    OP_FUNCTION_PARAMETER = 55,
    OP_FUNCTION_END = 56,
    KERNEL = 6,
    LOCAL_SIZE = 17,
    CONTRACTION_OFF = 31,
    FLOAT16 = 9,
    FLOAT64 = 10,
    INT64_ATOMICS = 12,
    POINTER = 0x80, /* in the sizes of types */
};

static struct fake_entry *entry_of(struct fake_spirv *read, uint32_t id)
{
    for (uint32_t i = 0; i < read->entry_count; i++) {
        if (read->entries[i].id == id)
            return &read->entries[i];
    }
    return NULL;
}

static int add_entry(struct fake_spirv *read, const uint32_t *words, uint32_t length)
{
    size_t room = (length - 3) * sizeof *words;
    if (words[1] != KERNEL || read->entry_count == FAKE_ENTRIES || !memchr(&words[3], 0, room) ||
        strlen((const char *)&words[3]) >= sizeof read->entries->name)
        return 0;
    struct fake_entry *entry = &read->entries[read->entry_count++];
    strcpy(entry->name, (const char *)&words[3]);
    entry->id = words[2];
    return 1;
}

/* One instruction; bytes has the sizes of types, by their numbers. */
static int read_one(struct fake_spirv *read, const uint32_t *words, uint32_t length, uint8_t *bytes,
                    struct fake_entry **function)
{
    uint32_t op = words[0] & 0xffff;
    struct fake_entry *entry;
    if (op == OP_CAPABILITY && length == 2) {
        read->uses_float64 |= words[1] == FLOAT64;
        read->uses_float16 |= words[1] == FLOAT16;
        read->uses_atomics |= words[1] == INT64_ATOMICS;
    }
    if (op == OP_ENTRY_POINT && length > 3)
        return add_entry(read, words, length);
    if (op == OP_EXECUTION_MODE && length == 6 && words[2] == LOCAL_SIZE &&
        (entry = entry_of(read, words[1])))
        entry->local_size = words[3];
    if (op == OP_EXECUTION_MODE && length == 3 && words[2] == CONTRACTION_OFF &&
        (entry = entry_of(read, words[1])))
        entry->keeps_operations = 1;
    if (op == OP_TYPE_INT && length == 4 && words[1] < IDS_MAX)
        bytes[words[1]] = (uint8_t)(words[2] / 8);
    if (op == OP_TYPE_POINTER && length == 4 && words[1] < IDS_MAX)
        bytes[words[1]] = POINTER | 8;
    if (op == OP_FUNCTION && length == 5)
        *function = entry_of(read, words[2]);
    if (op == OP_FUNCTION_PARAMETER && length == 3 && *function && words[1] < IDS_MAX) {
        if ((*function)->argument_count == FAKE_ARGUMENTS)
            return 0;
        if (bytes[words[1]] & POINTER)
            (*function)->pointers |= 1u << (*function)->argument_count;
        (*function)->argument_bytes[(*function)->argument_count++] = bytes[words[1]] & ~POINTER;
    }
    return 1;
}

int fake_spirv_read(const void *module, size_t size, struct fake_spirv *read)
{
    const uint32_t *words = module;
    size_t count = size / sizeof *words, at = HEADER_WORDS;
    struct fake_entry *function = NULL;
    memset(read, 0, sizeof *read);
    if (size % sizeof *words || count < HEADER_WORDS || words[0] != MAGIC ||
        (uintptr_t)module % sizeof *words)
        return 0;
    uint8_t *bytes = calloc(1, IDS_MAX);
    int is_good = bytes != NULL;
    while (is_good && at < count) {
        uint32_t length = words[at] >> 16;
        is_good = length && length <= count - at && read_one(read, words + at, length, bytes, &function);
        at += length;
    }
    free(bytes);
    return is_good && read->entry_count > 0 && (words[count - 1] & 0xffff) == OP_FUNCTION_END;
}
