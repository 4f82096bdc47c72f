/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/letters.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct letter {
    uint16_t from_size, size;
    uint8_t bytes[WEFT_ADDRESS_MAX + WEFT_LETTER_MAX]; /* from, then the letter */
};

struct test_letters {
    int fd;
    int lossy;
    unsigned told;
    uint16_t address_size;
    uint8_t address[WEFT_ADDRESS_MAX];
};

/* Two hashes (FNV-1a) make a name that no other address has. Returns the length of the socket's address. */
static socklen_t name_of(const void *address, size_t size, struct sockaddr_un *name)
{
    uint64_t a = 0xcbf29ce484222325u, b = 0x84222325cbf29ce4u;
    for (size_t i = 0; i < size; i++) {
        a = (a ^ ((const uint8_t *)address)[i]) * 0x100000001b3u;
        b = (b ^ ((const uint8_t *)address)[size - 1 - i]) * 0x100000001b3u;
    }
    memset(name, 0, sizeof *name);
    name->sun_family = AF_UNIX;
    int length = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "weft-test-letters-%016llx%016llx",
                          (unsigned long long)a, (unsigned long long)b);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

struct test_letters *test_letters_open(int lossy)
{
    struct test_letters *letters = calloc(1, sizeof *letters);
    if (!letters)
        abort();
    letters->lossy = lossy;
    letters->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (letters->fd < 0)
        abort();
    return letters;
}

void test_letters_close(struct test_letters *letters)
{
    if (!letters)
        return;
    close(letters->fd);
    free(letters);
}

static int tell(void *arg, const void *address, size_t address_size, const void *bytes, size_t size)
{
    struct test_letters *letters = arg;
    struct sockaddr_un name;
    struct letter letter = {.from_size = letters->address_size, .size = (uint16_t)size};
    if (size > WEFT_LETTER_MAX || !letters->address_size)
        abort();
    memcpy(letter.bytes, letters->address, letter.from_size);
    memcpy(letter.bytes + letter.from_size, bytes, size);
    socklen_t name_size = name_of(address, address_size, &name);
    unsigned number = ++letters->told;
    if (letters->lossy && number % 3 == 0)
        return WEFT_OK;
    size_t length = offsetof(struct letter, bytes) + letter.from_size + size;
    for (int copies = letters->lossy && number % 5 == 0 ? 2 : 1; copies > 0; copies--) {
        if (sendto(letters->fd, &letter, length, 0, (const struct sockaddr *)&name, name_size) < 0)
            return errno == ECONNREFUSED ? WEFT_PEER_FAILED : WEFT_AGAIN;
    }
    return WEFT_OK;
}

void test_letters_params(struct test_letters *letters, struct weft_transport_params *params)
{
    params->tell_arg = letters;
    params->tell = tell;
}

void test_letters_bind(struct test_letters *letters, const void *address, size_t size)
{
    struct sockaddr_un name;
    socklen_t name_size = name_of(address, size, &name);
    memcpy(letters->address, address, size);
    letters->address_size = (uint16_t)size;
    if (bind(letters->fd, (const struct sockaddr *)&name, name_size))
        abort();
}

int test_letters_deliver(struct test_letters *letters, const struct weft_transport_ops *ops,
                         struct weft_transport *transport)
{
    struct letter letter;
    for (int count = 0;; count++) {
        ssize_t got = recv(letters->fd, &letter, sizeof letter, 0);
        if (got < 0)
            return count;
        if ((size_t)got != offsetof(struct letter, bytes) + letter.from_size + letter.size)
            abort();
        ops->told(transport, letter.bytes, letter.from_size, letter.bytes + letter.from_size, letter.size);
    }
}

int test_letters_fd(const struct test_letters *letters)
{
    return letters->fd;
}
