/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the headers of a plug-in's file, before the dynamic loader sees it. A refusal names the file. */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weft/weft.h>

#include "devmem/elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("plugin", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        __builtin_trap();
    int status = weft_elf_check("plugin.so", fd);
    close(fd);
    if (status != WEFT_OK && (status != WEFT_INVALID || !strstr(weft_error_detail(), "plugin.so")))
        __builtin_trap();
    return 0;
}
