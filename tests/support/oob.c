/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/oob.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct message {
    uint16_t from_size, size;
    uint8_t bytes[WEFT_ADDRESS_MAX + WEFT_OOB_MAX]; /* from, then the out-of-band message */
};

struct test_oob {
    int fd;
    int lossy;
    unsigned sent_count;
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

struct test_oob *test_oob_open(int lossy)
{
    struct test_oob *oob = calloc(1, sizeof *oob);
    if (!oob)
        abort();
    oob->lossy = lossy;
    oob->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (oob->fd < 0)
        abort();
    return oob;
}

void test_oob_close(struct test_oob *oob)
{
    if (!oob)
        return;
    close(oob->fd);
    free(oob);
}

static int oob_send(void *arg, const void *address, size_t address_size, const void *bytes, size_t size)
{
    struct test_oob *oob = arg;
    struct sockaddr_un name;
    struct message message = {.from_size = oob->address_size, .size = (uint16_t)size};
    if (size > WEFT_OOB_MAX || !oob->address_size)
        abort();
    memcpy(message.bytes, oob->address, message.from_size);
    memcpy(message.bytes + message.from_size, bytes, size);
    socklen_t name_size = name_of(address, address_size, &name);
    unsigned number = ++oob->sent_count;
    if (oob->lossy && number % 3 == 0)
        return WEFT_OK;
    size_t length = offsetof(struct message, bytes) + message.from_size + size;
    for (int copies = oob->lossy && number % 5 == 0 ? 2 : 1; copies > 0; copies--) {
        if (sendto(oob->fd, &message, length, 0, (const struct sockaddr *)&name, name_size) < 0)
            return errno == ECONNREFUSED ? WEFT_PEER_FAILED : WEFT_AGAIN;
    }
    return WEFT_OK;
}

void test_oob_params(struct test_oob *oob, struct weft_transport_params *params)
{
    params->oob_arg = oob;
    params->oob_send = oob_send;
}

void test_oob_bind(struct test_oob *oob, const void *address, size_t size)
{
    struct sockaddr_un name;
    socklen_t name_size = name_of(address, size, &name);
    memcpy(oob->address, address, size);
    oob->address_size = (uint16_t)size;
    if (bind(oob->fd, (const struct sockaddr *)&name, name_size))
        abort();
}

int test_oob_deliver(struct test_oob *oob, const struct weft_transport_ops *ops,
                     struct weft_transport *transport)
{
    struct message message;
    for (int count = 0;; count++) {
        ssize_t got = recv(oob->fd, &message, sizeof message, 0);
        if (got < 0)
            return count;
        if ((size_t)got != offsetof(struct message, bytes) + message.from_size + message.size)
            abort();
        ops->oob_receive(transport, message.bytes, message.from_size, message.bytes + message.from_size,
                         message.size);
    }
}

int test_oob_fd(const struct test_oob *oob)
{
    return oob->fd;
}
