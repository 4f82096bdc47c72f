/* SPDX-License-Identifier: Apache-2.0 */
#include "devmem/elf.h"

#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

#if __ELF_NATIVE_CLASS == 64
#define NATIVE_CLASS ELFCLASS64
#else
#define NATIVE_CLASS ELFCLASS32
#endif

static int is_within(uint64_t offset, uint64_t size, uint64_t end)
{
    return offset <= end && size <= end - offset;
}

static int fail_cut(const char *path, uint64_t size, const char *what)
{
    return weft_fail(WEFT_INVALID,
                     "plug-in '%s': cannot load it: the file is cut off: %s lies beyond its %llu bytes", path,
                     what, (unsigned long long)size);
}

static int check_segments(const char *path, int fd, const ElfW(Ehdr) * header, uint64_t size)
{
    for (unsigned i = 0; i < header->e_phnum; i++) {
        ElfW(Phdr) segment;
        ssize_t got =
            weft_file_read_fd(fd, &segment, sizeof segment, header->e_phoff + (uint64_t)i * sizeof segment);
        if (got < 0)
            return weft_fail_errno("plug-in '%s': cannot read it", path);
        if (got != (ssize_t)sizeof segment)
            return fail_cut(path, size, "the table of its segments");
        if (segment.p_type == PT_LOAD && !is_within(segment.p_offset, segment.p_filesz, size))
            return fail_cut(path, size, "a segment");
    }
    return WEFT_OK;
}

int weft_elf_check(const char *path, int fd)
{
    ElfW(Ehdr) header;
    struct stat about;
    ssize_t got = weft_file_read_fd(fd, &header, sizeof header, 0);
    if (got < 0 || fstat(fd, &about) != 0)
        return weft_fail_errno("plug-in '%s': cannot read it", path);
    uint64_t size = (uint64_t)about.st_size;
    if (got != (ssize_t)sizeof header || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != NATIVE_CLASS || header.e_phentsize != sizeof(ElfW(Phdr)))
        return WEFT_OK; /* the loader says what it thinks of that */
    if (!is_within(header.e_phoff, (uint64_t)header.e_phnum * sizeof(ElfW(Phdr)), size))
        return fail_cut(path, size, "the table of its segments");
    int status = check_segments(path, fd, &header, size);
    /* Nobody maps these, but they come last: without them the copy was not finished. */
    if (status == WEFT_OK && header.e_shoff &&
        !is_within(header.e_shoff, (uint64_t)header.e_shnum * header.e_shentsize, size))
        status = fail_cut(path, size, "the table of its sections");
    return status;
}
