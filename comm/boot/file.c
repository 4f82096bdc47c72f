/* SPDX-License-Identifier: Apache-2.0 */
/* No call removes or replaces a file on the condition that it is a certain one. So a file that is to go is moved
 * aside first, to a name that nobody else uses, and looked at there: what is not ours goes back, unless the name
 * has been taken. And a new file gets its name only if nobody has it.
 */
#include "comm/boot/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "comm/boot/record.h"

#define TRIES 3 /* others may write the same path: each look may find something else */

enum found { NOTHING, RECORD, SOMETHING_ELSE, CHANGING, UNKNOWN };

/* What is at a path. */
struct look {
    enum found found;
    struct stat about;
    size_t size; /* of text, for RECORD */
    char text[WEFT_BOOT_RECORD_MAX];
    char what[96]; /* for those behind RECORD, as in "is there: ..." */
};

static const char *kind_of(mode_t mode)
{
    return S_ISFIFO(mode)   ? "a FIFO"
           : S_ISLNK(mode)  ? "a symbolic link"
           : S_ISDIR(mode)  ? "a directory"
           : S_ISCHR(mode)  ? "a character device"
           : S_ISBLK(mode)  ? "a block device"
           : S_ISSOCK(mode) ? "a socket"
                            : "something that is not a file";
}

static int is_same(const struct stat *about, const struct stat *as)
{
    return about->st_dev == as->st_dev && about->st_ino == as->st_ino &&
           about->st_mtim.tv_sec == as->st_mtim.tv_sec && about->st_mtim.tv_nsec == as->st_mtim.tv_nsec;
}

/* Fills found, size and text of a look at a regular file. */
static void look_inside(const char *path, struct look *look)
{
    struct stat opened;
    look->found = UNKNOWN;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) {
        look->found = errno == ENOENT ? NOTHING : UNKNOWN;
        snprintf(look->what, sizeof look->what, "a file that cannot be read (%.60s)", weft_errno_text(errno));
        return;
    }
    ssize_t size = -1;
    if (fstat(fd, &opened) != 0 || (size = weft_file_read_fd(fd, look->text, sizeof look->text, 0)) < 0)
        snprintf(look->what, sizeof look->what, "a file that cannot be read (%.60s)", weft_errno_text(errno));
    else if (!is_same(&opened, &look->about)) {
        look->found = CHANGING;
        snprintf(look->what, sizeof look->what, "a file that is being replaced");
    }
    close(fd);
    if (size < 0 || look->what[0])
        return;
    look->size = (size_t)size;
    look->found = SOMETHING_ELSE;
    if (size == 0)
        snprintf(look->what, sizeof look->what, "an empty file");
    else if (opened.st_size <= WEFT_BOOT_RECORD_MAX && weft_boot_record_is_one(look->text, look->size))
        look->found = RECORD;
    else
        snprintf(look->what, sizeof look->what, "a file of %lld bytes that is no record of weft's",
                 (long long)opened.st_size);
}

/* Nothing but a regular file is opened: opening a device can do something. */
static void look_at(const char *path, struct look *look)
{
    look->what[0] = '\0';
    look->size = 0;
    if (lstat(path, &look->about) != 0) {
        look->found = errno == ENOENT ? NOTHING : UNKNOWN;
        snprintf(look->what, sizeof look->what, "something that cannot be looked at (%.40s)",
                 weft_errno_text(errno));
    } else if (S_ISREG(look->about.st_mode)) {
        look_inside(path, look);
    } else {
        look->found = SOMETHING_ELSE;
        snprintf(look->what, sizeof look->what, "%s", kind_of(look->about.st_mode));
    }
}

static int refuse(const char *path, const struct look *look)
{
    return weft_fail(
        WEFT_INVALID,
        "bootstrap file '%.512s': %s is there: expected no file, or the record of an earlier job", path,
        look->what);
}

/* Gives a file its second name, or takes the first away, but never another file's. Of the two ways one works on every file
 * system: NFS knows no flags, and FAT no second names. */
static int move_to_free_name(const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno == EEXIST || errno == ENOENT)
        return -1;
    if (link(from, to) != 0)
        return -1;
    unlink(from);
    return 0;
}

/* Removes the file at path if it is `expected`. 1: it is gone. 0: something else is there. -1: cannot, with errno. */
static int remove_if(const char *path, const struct stat *expected)
{
    char aside[PATH_MAX];
    struct stat about;
    uint64_t random = weft_net_random();
    int length = snprintf(aside, sizeof aside, "%s.%016" PRIx64, path, random);
    if (length < 0 || (size_t)length >= sizeof aside) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (lstat(path, &about) != 0)
        return errno == ENOENT ? 0 : -1;
    if (!is_same(&about, expected))
        return 0;
    if (rename(path, aside) != 0)
        return errno == ENOENT ? 0 : -1;
    int known = lstat(aside, &about) == 0, error = errno;
    if (known && is_same(&about, expected)) {
        unlink(aside);
        return 1;
    }
    if (move_to_free_name(aside, path) != 0)
        weft_log(WEFT_LOG_ERROR,
                 "'%s' changed while weft looked at it, and its name is taken: what was there is '%s' now",
                 path, aside);
    errno = error;
    return known ? 0 : -1;
}

static int write_all(int fd, const char *text, size_t size)
{
    while (size > 0) {
        ssize_t written = write(fd, text, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return -1;
        text += written;
        size -= (size_t)written;
    }
    return 0;
}

static int write_temporary(const char *temporary, const char *text, size_t size, struct stat *about)
{
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return weft_fail_errno("bootstrap file: cannot create '%s'", temporary);
    int bad = write_all(fd, text, size) != 0 || fstat(fd, about) != 0;
    int saved = errno;
    if (close(fd) != 0 && !bad) {
        bad = 1;
        saved = errno;
    }
    if (!bad)
        return WEFT_OK;
    unlink(temporary);
    errno = saved;
    return weft_fail_errno("bootstrap file: cannot write '%s'", temporary);
}

static int check_name(const char *path)
{
    struct look look;
    look_at(path, &look);
    weft_crypto_wipe(look.text, sizeof look.text);
    return look.found == SOMETHING_ELSE ? refuse(path, &look) : WEFT_OK;
}

/* Gives the finished file its name, in place of a record. */
static int take_name(const char *path, const char *temporary)
{
    struct look look;
    int status = WEFT_OK;
    for (int i = 0; i < TRIES; i++) {
        look_at(path, &look);
        weft_crypto_wipe(look.text, sizeof look.text);
        if (look.found == SOMETHING_ELSE || look.found == UNKNOWN)
            return refuse(path, &look);
        if (look.found == CHANGING) {
            status = refuse(path, &look);
            continue;
        }
        if (look.found == RECORD && remove_if(path, &look.about) < 0)
            return weft_fail_errno("bootstrap file: cannot replace '%s'", path);
        if (move_to_free_name(temporary, path) == 0)
            return WEFT_OK;
        int error = errno;
        status = weft_fail_errno("bootstrap file: cannot write '%s'", path);
        if (error != EEXIST)
            break;
    }
    return status;
}

int weft_boot_file_write(const char *path, struct weft_boot_record *record, const char *text, size_t size)
{
    char temporary[PATH_MAX];
    struct stat about;
    int length = snprintf(temporary, sizeof temporary, "%s.%016" PRIx64, path, record->nonce);
    if (length < 0 || (size_t)length >= sizeof temporary)
        return weft_fail(WEFT_INVALID, "bootstrap file: path of %zu bytes is too long", strlen(path));
    int status = check_name(path); /* before anything is made beside it */
    if (status == WEFT_OK)
        status = write_temporary(temporary, text, size, &about);
    if (status != WEFT_OK)
        return status;
    status = take_name(path, temporary);
    if (status != WEFT_OK) {
        unlink(temporary);
        return status;
    }
    record->file_device = about.st_dev;
    record->file_inode = about.st_ino;
    record->file_time = about.st_mtim;
    return WEFT_OK;
}

int weft_boot_file_read(const char *path, struct weft_boot_record *record)
{
    struct look look;
    look_at(path, &look);
    int status;
    if (look.found == NOTHING)
        status = weft_fail(WEFT_RANKS_ABSENT, "bootstrap file '%.512s': no such file", path);
    else if (look.found == UNKNOWN || look.found == CHANGING)
        status = weft_fail(WEFT_RANKS_ABSENT, "bootstrap file '%.512s': %s is there", path, look.what);
    else if (look.found == SOMETHING_ELSE)
        status = refuse(path, &look);
    else if ((look.about.st_uid != geteuid() && look.about.st_uid != 0) ||
             (look.about.st_mode & (S_IRWXG | S_IRWXO)))
        status =
            weft_fail(WEFT_RANKS_ABSENT,
                      "bootstrap file '%.512s' is not a regular file that only this user can read and write "
                      "(mode 0600)",
                      path);
    else
        status =
            weft_boot_record_parse(look.text, look.size, record) == WEFT_OK ? WEFT_OK : WEFT_RANKS_ABSENT;
    weft_crypto_wipe(look.text, sizeof look.text);
    return status;
}

void weft_boot_file_remove(const char *path, const struct weft_boot_record *record)
{
    struct stat mine;
    memset(&mine, 0, sizeof mine);
    mine.st_dev = record->file_device;
    mine.st_ino = record->file_inode;
    mine.st_mtim = record->file_time;
    for (int i = 0; i < TRIES; i++)
        if (remove_if(path, &mine) >= 0)
            return;
    weft_log(WEFT_LOG_WARN, "cannot remove the bootstrap file '%s': %s", path, weft_errno_text(errno));
}
