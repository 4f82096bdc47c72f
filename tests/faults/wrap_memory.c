/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: every block is entered into the books, whether or not a fault is armed. */
#include "tests/faults/wrap.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "tests/faults/inject.h"

void *fault_malloc(size_t size)
{
    if (fault_hit(FAULT_MALLOC))
        return NULL;
    void *block = malloc(size);
    fault_block_add(block, size, __builtin_return_address(0));
    return block;
}

void *fault_calloc(size_t count, size_t size)
{
    if (fault_hit(FAULT_CALLOC))
        return NULL;
    void *block = calloc(count, size);
    fault_block_add(block, count * size, __builtin_return_address(0));
    return block;
}

void *fault_realloc(void *block, size_t size)
{
    if (fault_hit(FAULT_REALLOC))
        return NULL;
    fault_block_remove(block); /* before: another thread may get the same address at once */
    void *grown = realloc(block, size);
    fault_block_add(grown ? grown : block, size, __builtin_return_address(0));
    return grown;
}

void *fault_aligned_alloc(size_t alignment, size_t size)
{
    if (fault_hit(FAULT_ALIGNED_ALLOC))
        return NULL;
    void *block = aligned_alloc(alignment, size);
    fault_block_add(block, size, __builtin_return_address(0));
    return block;
}

/* Not in the books: weft makes copies of text for libfabric only, which frees them. */
char *fault_strdup(const char *text)
{
    return fault_hit(FAULT_STRDUP) ? NULL : strdup(text);
}

void *fault_tsearch(const void *key, void **root, int (*compare)(const void *, const void *))
{
    return fault_hit(FAULT_TSEARCH) ? NULL : tsearch(key, root, compare);
}

void fault_free(void *block)
{
    fault_block_remove(block);
    free(block);
}

/* Mappings go into the same books: their addresses are never those of blocks. */
void *fault_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    if (fault_hit(FAULT_MMAP))
        return MAP_FAILED;
    void *mapping = mmap(address, size, protection, flags, fd, offset);
    if (mapping != MAP_FAILED && !(flags & MAP_FIXED))
        fault_block_add(mapping, size, __builtin_return_address(0));
    return mapping;
}

int fault_munmap(void *address, size_t size)
{
    fault_block_remove(address);
    return munmap(address, size);
}

int fault_madvise(void *address, size_t size, int advice)
{
    return fault_hit(FAULT_MADVISE) ? -1 : madvise(address, size, advice);
}

int fault_memfd_create(const char *name, unsigned flags)
{
    return fault_hit(FAULT_MEMFD_CREATE) ? -1 : fault_fd_add(memfd_create(name, flags));
}

int fault_ftruncate(int fd, off_t size)
{
    return fault_hit(FAULT_FTRUNCATE) ? -1 : ftruncate(fd, size);
}

/* libyaml allocates by itself, and says when it cannot. */
int fault_yaml_parser_initialize(yaml_parser_t *parser)
{
    return fault_hit(FAULT_YAML_PARSER_INITIALIZE) ? 0 : yaml_parser_initialize(parser);
}

int fault_yaml_parser_parse(yaml_parser_t *parser, yaml_event_t *event)
{
    if (!fault_hit(FAULT_YAML_PARSER_PARSE))
        return yaml_parser_parse(parser, event);
    parser->error = YAML_MEMORY_ERROR;
    return 0;
}
