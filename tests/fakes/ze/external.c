/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that leaves the process, and memory of others. A sealed file of memory stands for a dma-buf. Device memory lies in one from the beginning, as
 * kernels may run that use it when it is exported.
 *
 * As Intel's driver does, this one has one descriptor for each allocation, or pool, and closes it when that is freed. Memory that was freed is
 * overwritten, so that whoever has it mapped still sees that. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fakes/ze/fake_memory.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

static size_t pages(size_t size)
{
    return (size + FAKE_PAGE - 1) / FAKE_PAGE * FAKE_PAGE;
}

/* --- exporting */

/* A file with so many bytes, and how many of the allocation's are in it. The allocation lies there then. -1: there is none. */
static int move_into_file(struct allocation *whole, size_t shown)
{
    size_t size = pages(whole->size), shared = shown < size ? shown : size; /* perhaps none */
    int fd = memfd_create("ze-fake-dmabuf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    if (ftruncate(fd, (off_t)shown) != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0 ||
        pwrite(fd, fake_reached(whole), shared, 0) != (ssize_t)shared ||
        (shared && fake_map_file(whole, shared, fd) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

void fake_external_begin(struct allocation *one)
{
    size_t size = pages(one->size);
    int fd = memfd_create("ze-fake-dmabuf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return;
    if (ftruncate(fd, (off_t)size) != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0 ||
        fake_map_file(one, size, fd) != 0)
        close(fd);
    else
        one->file = fd;
}

/* A dma-buf that has another length is another file. */
static int make_file(struct allocation *whole)
{
    whole->fd = whole->file >= 0 && !ze_fake.dmabuf_more
                    ? whole->file
                    : move_into_file(whole, (size_t)((int64_t)pages(whole->size) + ze_fake.dmabuf_more));
    return whole->fd < 0 ? -1 : 0;
}

ze_result_t fake_export(struct allocation *whole, ze_external_memory_export_fd_t *to)
{
    static const char call[] = "zeMemGetAllocProperties";
    if (!fake_expect(to->flags == ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF ||
                         to->flags == ZE_EXTERNAL_MEMORY_TYPE_FLAG_OPAQUE_FD,
                     call, "External Memory Import and Export", "flags name no type of descriptors"))
        return ZE_RESULT_ERROR_INVALID_ENUMERATION;
    if (!fake_expect(!ze_fake.no_dmabuf, call, "ze_device_external_memory_properties_t",
                     "the device exports no memory of this type"))
        return ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION;
    if (to->flags != ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF)
        return ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION;
    /* "The requested memory export type must have been specified when the allocation was made." Who asks need not have made it, and some
     * drivers export all. */
    if (ze_fake.export_result)
        return (ze_result_t)ze_fake.export_result;
    if (whole->type != ZE_MEMORY_TYPE_DEVICE || (ze_fake.exports_asked && !whole->may_export))
        return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
    if (whole->fd < 0 && make_file(whole) != 0)
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    to->fd = whole->fd;
    return ZE_RESULT_SUCCESS;
}

void fake_external_end(struct allocation *one)
{
    if (one->fd < 0 && one->file < 0)
        return;
    fake_map_arena(one);
    if (one->fd >= 0 && one->fd != one->file && (!one->is_imported || ze_fake.closes_imported == 1))
        close(one->fd);
    if (one->file >= 0)
        close(one->file);
    one->fd = one->file = -1;
}

/* --- IPC handles: the descriptor, how far behind the pool's begin, and a mark. */

struct content {
    uint64_t descriptor, offset, mark;
};

#define MARK UINT64_C(0x5a455f49504321)

ze_result_t fake_ipc_get(ze_context_handle_t context, const void *memory, ze_ipc_mem_handle_t *handle)
{
    static const char call[] = "zeMemGetIpcHandle";
    if (!fake_context_find(context, call))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    pthread_mutex_lock(&fake_lock);
    struct allocation *one = fake_find(memory), *whole = fake_find_whole(memory);
    int is_base = one && one->base == memory && one->type == ZE_MEMORY_TYPE_DEVICE;
    int is_made = is_base && (whole->fd >= 0 || make_file(whole) == 0);
    if (is_made) {
        struct content content = {(uint64_t)whole->fd, (uint64_t)(one->base - whole->base), MARK};
        memset(handle, 0, sizeof *handle);
        memcpy(handle->data, &content, sizeof content);
        ze_fake.ipc_handles++;
    }
    pthread_mutex_unlock(&fake_lock);
    if (!fake_expect(is_base, call, "zeMemGetIpcHandle: must be base pointer of the device memory allocation",
                     "this is not where device memory begins"))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    return is_made ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
}

static int is_handle(const ze_ipc_mem_handle_t *handle, struct content *content, const char *call)
{
    memcpy(content, handle->data, sizeof *content);
    return fake_expect(content->mark == MARK, call, "must be a valid handle obtained with zeMemGetIpcHandle",
                       "this is no such handle");
}

__attribute__((visibility("default"))) ze_result_t ze_fake_ipc_put(ze_context_handle_t context,
                                                                   ze_ipc_mem_handle_t handle)
{
    static const char call[] = "zeMemPutIpcHandle";
    struct content content;
    if (!fake_context_find(context, call))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (!is_handle(&handle, &content, call) ||
        !fake_expect(ze_fake.ipc_handles > 0, call, "zeMemPutIpcHandle", "more are put than were got"))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    ze_fake.ipc_handles--;
    return ZE_RESULT_SUCCESS;
}

__attribute__((visibility("default"))) ze_result_t
ze_fake_ipc_descriptor(ze_context_handle_t context, ze_ipc_mem_handle_t handle, uint64_t *descriptor)
{
    static const char call[] = "zeMemGetFileDescriptorFromIpcHandleExp";
    struct content content;
    if (!fake_context_find(context, call))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (!is_handle(&handle, &content, call))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    *descriptor = content.descriptor;
    return ZE_RESULT_SUCCESS;
}

/* --- importing */

static int check_import(const ze_external_memory_import_fd_t *from, struct fake_context **of,
                        ze_context_handle_t context)
{
    static const char call[] = "zeMemAllocDevice";
    *of = fake_context_find(context, call);
    return *of && fake_expect_struct(from, ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMPORT_FD, call) &&
           fake_expect(from->flags == ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF, call,
                       "ze_external_memory_import_fd_t", "flags name no one type of descriptors") &&
           fake_expect(!ze_fake.no_dmabuf && !ze_fake.no_import, call,
                       "ze_device_external_memory_properties_t", "the device imports no memory of this type");
}

ze_result_t fake_import(ze_context_handle_t context, ze_device_handle_t device, size_t size,
                        const ze_external_memory_import_fd_t *from, void **memory)
{
    struct fake_context *of;
    if (!check_import(from, &of, context))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    if (ze_fake.alloc_result)
        return (ze_result_t)ze_fake.alloc_result;
    off_t bytes = lseek(from->fd, 0, SEEK_END);
    if (fcntl(from->fd, F_GET_SEALS) != SEALS || bytes <= 0 || size > (size_t)bytes)
        return ZE_RESULT_ERROR_INVALID_ARGUMENT; /* no dma-buf: any peer may send one */
    struct stat file;
    if (fstat(from->fd, &file) != 0)
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    pthread_mutex_lock(&fake_lock);
    struct allocation *one = ze_fake.shares_imported ? fake_find_imported(device, file.st_ino) : NULL;
    if (one) {
        *memory = one->base;
        ze_fake.imports++;
        if (ze_fake.closes_imported == 2)
            close(from->fd);
        pthread_mutex_unlock(&fake_lock);
        return ZE_RESULT_SUCCESS;
    }
    one = fake_reserve((size_t)bytes, FAKE_PAGE);
    if (one && fake_map_file(one, (size_t)bytes, from->fd) != 0) {
        fake_map_arena(one);
        fake_unreserve(one);
        one = NULL;
    }
    if (one) {
        one->device = device;
        one->context = of;
        one->is_imported = 1;
        one->inode = file.st_ino;
        one->fd = from->fd;
        ze_fake.imports++;
        of->objects++;
        ze_fake.allocations++;
        *memory = one->base;
        if (ze_fake.closes_imported == 2)
            close(from->fd);
    }
    pthread_mutex_unlock(&fake_lock);
    return one ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
}
