/* SPDX-License-Identifier: Apache-2.0 */
#include "devmem/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/signals.h"
#include "devmem/elf.h"

/* What stands in WEFT_DEVICE_PLUGIN, and how far it has been looked at, for the reasons. */
struct walk {
    const char *path;
    int length; /* of the part that fd is */
    int fd;
};

static int check_owner(const struct walk *walk, const struct stat *about)
{
    int is_folder = S_ISDIR(about->st_mode);
    const char *what = is_folder ? "folder" : "file";
    if (about->st_uid != 0 && about->st_uid != geteuid())
        return weft_fail(WEFT_ACCESS,
                         "plug-in '%s': the %s '%.*s' belongs to user %u: expected root or user %u, who runs "
                         "this",
                         walk->path, what, walk->length, walk->path, (unsigned)about->st_uid,
                         (unsigned)geteuid());
    if (about->st_mode & (S_IWGRP | S_IWOTH) && !(is_folder && about->st_mode & S_ISVTX))
        return weft_fail(WEFT_ACCESS,
                         "plug-in '%s': the %s '%.*s' has mode %04o: expected nobody but its owner to be "
                         "able to write there (chmod go-w)",
                         walk->path, what, walk->length, walk->path, (unsigned)about->st_mode & 07777);
    return WEFT_OK;
}

/* Steps into the next part of the path, which is opened as a folder or, at the end, as the file. */
static int enter(struct walk *walk, const char *name, int is_last)
{
    struct stat about;
    int flags = is_last ? O_RDONLY | O_NONBLOCK : O_PATH | O_DIRECTORY;
    int fd = openat(walk->fd, name, flags | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        int is_link = errno == ELOOP, is_missing = errno == ENOENT;
        if (errno == ENOTDIR) {
            char target;
            is_link = readlinkat(walk->fd, name, &target, sizeof target) > 0;
            errno = ENOTDIR;
        }
        weft_fail_errno("plug-in '%s': cannot open '%.*s'%s", walk->path, walk->length, walk->path,
                        is_link ? ", a symbolic link: expected a path without any (realpath prints it)" : "");
        return is_missing ? WEFT_NOT_FOUND : WEFT_ACCESS;
    }
    close(walk->fd);
    walk->fd = fd;
    if (fstat(fd, &about) != 0)
        return weft_fail_errno("plug-in '%s': '%.*s'", walk->path, walk->length, walk->path);
    if (is_last && !S_ISREG(about.st_mode))
        return weft_fail(WEFT_INVALID, "plug-in '%s': expected a regular file", walk->path);
    return check_owner(walk, &about);
}

/* Leaves the file's descriptor in the walk; closes what is open when it fails. */
static int walk_down(struct walk *walk)
{
    char name[NAME_MAX + 1];
    struct stat about;
    walk->length = 1;
    walk->fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (walk->fd < 0)
        return weft_fail_errno("plug-in '%s': cannot open '/'", walk->path);
    int status = fstat(walk->fd, &about) == 0 ? check_owner(walk, &about)
                                              : weft_fail_errno("plug-in '%s': '/'", walk->path);
    const char *part = walk->path + strspn(walk->path, "/");
    while (status == WEFT_OK) {
        size_t length = strcspn(part, "/");
        const char *next = part + length + strspn(part + length, "/");
        if (length == 0 || length > NAME_MAX) {
            status = weft_fail(WEFT_INVALID, "plug-in '%s': expected the path of a file", walk->path);
            break;
        }
        snprintf(name, sizeof name, "%.*s", (int)length, part);
        walk->length = (int)(part + length - walk->path);
        status = enter(walk, name, *next == '\0' && part[length] == '\0');
        if (part[length] == '\0')
            break;
        part = next;
    }
    if (status != WEFT_OK)
        close(walk->fd);
    return status;
}

/* The loader takes two names that are equal for the same object without a look at the file, as long as the first is loaded;
 * numbers of descriptors come again. So each name is another one: the bits of a counter are spelled as detours that lead nowhere. */
static void name_descriptor(int fd, char *name, size_t capacity)
{
    static atomic_uint loads;
    unsigned number = atomic_fetch_add(&loads, 1);
    size_t used = (size_t)snprintf(name, capacity, "/proc/self/fd");
    for (; number > 0; number >>= 1)
        used += (size_t)snprintf(name + used, capacity - used, number & 1 ? "/./." : "/.");
    snprintf(name + used, capacity - used, "/%d", fd);
}

static int load(const char *path, int fd, struct weft_plugin *plugin)
{
    char name[192];
    struct weft_signals signals;
    const struct weft_device_ops *ops = NULL;
    name_descriptor(fd, name, sizeof name);
    weft_signals_save(&signals);
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    const char *error = handle ? NULL : dlerror();
    weft_device_plugin_function *function = NULL;
    if (handle)
        *(void **)&function = dlsym(handle, WEFT_DEVICE_PLUGIN_SYMBOL);
    if (function)
        ops = function();
    weft_signals_restore(&signals);
    if (ops) {
        *plugin = (struct weft_plugin){handle, ops};
        return WEFT_OK;
    }
    int status;
    if (!handle)
        status = weft_fail(WEFT_INVALID, "plug-in '%s': cannot load it: %s", path, error ? error : "?");
    else if (!function)
        status = weft_fail(WEFT_INVALID,
                           "plug-in '%s' has no symbol " WEFT_DEVICE_PLUGIN_SYMBOL
                           ": expected a kind of device for weft",
                           path);
    else
        status =
            weft_fail(WEFT_INVALID, "plug-in '%s': " WEFT_DEVICE_PLUGIN_SYMBOL "() gives no table", path);
    if (handle)
        dlclose(handle);
    return status;
}

int weft_plugin_load(const char *path, struct weft_plugin *plugin)
{
    struct walk walk = {.path = path};
    if (path[0] != '/')
        return weft_fail(WEFT_INVALID, "plug-in '%s': expected an absolute path", path);
    int status = walk_down(&walk);
    if (status != WEFT_OK)
        return status;
    status = weft_elf_check(path, walk.fd);
    if (status == WEFT_OK)
        status = load(path, walk.fd, plugin);
    close(walk.fd);
    return status;
}

void weft_plugin_unload(struct weft_plugin *plugin)
{
    struct weft_signals signals;
    weft_signals_save(&signals);
    dlclose(plugin->handle);
    weft_signals_restore(&signals);
    *plugin = (struct weft_plugin){0};
}
