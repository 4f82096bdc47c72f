/* SPDX-License-Identifier: Apache-2.0 */
#include "base/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/error.h"
#include "base/file.h"
#include "base/secure.h"

/* One byte more than is allowed shows
 * that there are too many. what names the setting, for the reason. */
static int read_all(int fd, const char *what, struct weft_secret *secret)
{
    unsigned char bytes[WEFT_SECRET_MAX + 1];
    ssize_t size = weft_file_read_fd(fd, bytes, sizeof bytes, 0);
    int status = WEFT_OK;
    if (size < 0) {
        weft_fail_errno("%s: cannot read it", what);
        status = WEFT_INVALID;
    } else if (size < WEFT_SECRET_MIN || size > WEFT_SECRET_MAX) {
        status = weft_fail(WEFT_INVALID, "%s has %s%zd bytes: expected a secret of %d to %d", what,
                           size > WEFT_SECRET_MAX ? "at least " : "", size, WEFT_SECRET_MIN, WEFT_SECRET_MAX);
    } else {
        memcpy(secret->bytes, bytes, (size_t)size);
        secret->size = (size_t)size;
    }
    weft_crypto_wipe(bytes, sizeof bytes);
    return status;
}

static int from_descriptor(const char *text, struct weft_secret *secret)
{
    char *end;
    struct stat about;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno || *end || number < 0 || number > 1 << 30)
        return weft_fail(WEFT_INVALID,
                         "WEFT_SECRET_FD is '%.32s': expected the number of an inherited descriptor", text);
    int fd = (int)number;
    if (fstat(fd, &about) != 0) {
        weft_fail_errno("WEFT_SECRET_FD is %d: expected an inherited descriptor", fd);
        return WEFT_INVALID;
    }
    if (!S_ISREG(about.st_mode))
        return weft_fail(
            WEFT_INVALID,
            "WEFT_SECRET_FD is %d, which is not a file: expected one that can be read more than once, "
            "such as a memfd",
            fd);
    fcntl(fd, F_SETFD, FD_CLOEXEC); /* it was inherited by us on purpose, and is nobody else's */
    return read_all(fd, "the file of WEFT_SECRET_FD", secret);
}

static int check_file(const char *path, const struct stat *about)
{
    if (!S_ISREG(about->st_mode))
        return weft_fail(WEFT_INVALID, "WEFT_SECRET_FILE '%.256s': expected a regular file", path);
    if (about->st_uid != geteuid())
        return weft_fail(WEFT_INVALID,
                         "WEFT_SECRET_FILE '%.256s' belongs to user %u: expected user %u, who runs this",
                         path, (unsigned)about->st_uid, (unsigned)geteuid());
    if (about->st_mode & (S_IRWXG | S_IRWXO))
        return weft_fail(
            WEFT_INVALID,
            "WEFT_SECRET_FILE '%.256s' has mode %04o: expected no right for anybody but its owner "
            "(chmod 600)",
            path, (unsigned)about->st_mode & 07777);
    return WEFT_OK;
}

static int from_file(const char *path, struct weft_secret *secret)
{
    struct stat about;
    if (path[0] != '/')
        return weft_fail(WEFT_INVALID, "WEFT_SECRET_FILE is '%.256s': expected an absolute path", path);
    /* Without following a link in the last place, and without waiting for the other end of a pipe. */
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        int is_link = errno == ELOOP;
        weft_fail_errno("WEFT_SECRET_FILE '%.256s': cannot open it%s", path,
                        is_link ? ", expected no symbolic link" : "");
        return WEFT_INVALID;
    }
    int status;
    if (fstat(fd, &about) != 0) {
        weft_fail_errno("WEFT_SECRET_FILE '%.256s'", path);
        status = WEFT_INVALID;
    } else {
        status = check_file(path, &about);
    }
    if (status == WEFT_OK)
        status = read_all(fd, "the file of WEFT_SECRET_FILE", secret);
    close(fd);
    return status;
}

int weft_secret_from_environment(struct weft_secret *secret)
{
    secret->size = 0;
    const char *descriptor = weft_secure_getenv("WEFT_SECRET_FD");
    if (descriptor)
        return from_descriptor(descriptor, secret);
    const char *path = weft_secure_getenv("WEFT_SECRET_FILE");
    return path ? from_file(path, secret) : WEFT_OK;
}

void weft_secret_wipe(struct weft_secret *secret)
{
    weft_crypto_wipe(secret, sizeof *secret);
}
