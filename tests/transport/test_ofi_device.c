/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ofi */
/* Device memory and the ofi transport: what libfabric hears of it, when it is asked for, and that its receive buffers and puts
 * always go by its region. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>

#if __has_include(<rdma/fabric.h>)
#include <string.h>
#include <weft/device.h>
#include <weft/weft.h>

#include "tests/fakes/ofi/ofi_fake.h"
#include "transport/ofi/ofi.h"

#define BYTES 5000
static uint8_t memory[BYTES];

/* As fi_mr(3) of libfabric 1.20 has it. */
struct dmabuf {
    int fd;
    uint64_t offset;
    size_t len;
    void *base_addr;
};

static uint32_t version_with_dmabufs(void)
{
    return FI_VERSION(1, 20);
}

static struct weft_device_memory cuda_memory(int fd)
{
    return (struct weft_device_memory){.size = sizeof(struct weft_device_memory),
                                       .memory = memory,
                                       .bytes = BYTES,
                                       .kind = "cuda",
                                       .ordinal = 3,
                                       .fd = fd,
                                       .offset = fd < 0 ? 0 : 100};
}

static uint32_t flags_of(struct ofi_fake *fake)
{
    struct weft_transport_caps caps = {.size = sizeof caps};
    weft_ofi_ops.caps(fake->transport, &caps);
    return caps.flags & (WEFT_CAP_DMABUF | WEFT_CAP_DEVICE_POINTER);
}

static void refuse(struct ofi_fake *fake, const struct weft_device_memory *what, const char *text)
{
    struct weft_region *region = NULL;
    assert_int_equal(weft_ofi_ops.reg_device(fake->transport, what, &region), WEFT_UNSUPPORTED);
    assert_null(region);
    if (!strstr(weft_error_detail(), text))
        fail_msg("'%s' is not in '%s'", text, weft_error_detail());
}

static void pointers(void **state)
{
    struct ofi_fake *fake = ofi_fake_open(1, 0);
    struct weft_device_memory what = cuda_memory(-1);
    struct weft_region *region;
    (void)state;
    assert_int_equal(flags_of(fake), 0);
    refuse(fake, &what, "was not opened for device memory");
    fake->transport->takes_devices = 1;
    refuse(fake, &what, "registers ordinary memory only");
    ofi_fake_take_devices(fake);
    assert_int_equal(flags_of(fake), WEFT_CAP_DEVICE_POINTER);
    what.kind = "sim";
    refuse(fake, &what, "libfabric does not know devices of kind sim");
    what.kind = "cuda";
    fake->registration_error = FI_EOPNOTSUPP;
    refuse(fake, &what, "cannot register 5000 bytes of cuda:3 by their pointer: an error");
    fake->registration_error = FI_ENOMEM;
    assert_int_equal(weft_ofi_ops.reg_device(fake->transport, &what, &region), WEFT_NOMEM);
    fake->registration_error = 0;
    assert_int_equal(weft_ofi_ops.reg_device(fake->transport, &what, &region), WEFT_OK);
    struct iovec place;
    memcpy(&place, fake->place, sizeof place);
    assert_int_equal(fake->flags, 0);
    assert_int_equal(fake->attr.iface, FI_HMEM_CUDA);
    assert_int_equal(fake->attr.device.cuda, 3);
    assert_int_equal(fake->attr.iov_count, 1);
    assert_int_equal(fake->attr.access, FI_WRITE | FI_REMOTE_WRITE);
    assert_ptr_equal(place.iov_base, memory);
    assert_int_equal(place.iov_len, BYTES);
    assert_int_equal(fake->registrations, 1);
    weft_ofi_ops.dereg(region);
    assert_int_equal(fake->registrations, 0);
    ofi_fake_close(fake);
}

static void dmabufs(void **state)
{
    struct ofi_fake *fake = ofi_fake_open(1, 0);
    struct weft_device_memory what = cuda_memory(7);
    struct weft_region *region;
    struct dmabuf is_known;
    (void)state;
    ofi_fake_take_devices(fake);
    refuse(fake, &what, "libfabric takes dma-bufs from 1.20 on");
    fake->library.version = version_with_dmabufs;
    assert_int_equal(flags_of(fake), WEFT_CAP_DMABUF | WEFT_CAP_DEVICE_POINTER);
    assert_int_equal(weft_ofi_ops.reg_device(fake->transport, &what, &region), WEFT_OK);
    memcpy(&is_known, fake->place, sizeof is_known);
    assert_true(fake->flags == 1ULL << 40);
    assert_int_equal(fake->attr.iface, FI_HMEM_CUDA);
    assert_int_equal(is_known.fd, 7);
    assert_int_equal(is_known.offset, 100);
    assert_int_equal(is_known.len, BYTES);
    assert_ptr_equal((uint8_t *)is_known.base_addr + is_known.offset, memory);
    weft_ofi_ops.dereg(region);
    ofi_fake_close(fake);
}

/* The number of a device of Level Zero is its place in the list of libfabric's driver. A device that has no place there would be taken
 * for another one. */
static void numbers_of_level_zero(void **state)
{
    struct ofi_fake *fake = ofi_fake_open(1, 0);
    struct weft_device_memory what = cuda_memory(-1);
    struct weft_region *region;
    (void)state;
    ofi_fake_take_devices(fake);
    fake->library.version = version_with_dmabufs;
    what.kind = "ze";
    what.flags = WEFT_SPAN_DMABUF;
    assert_int_equal(weft_ofi_ops.reg_device(fake->transport, &what, &region), WEFT_OK);
    assert_int_equal(fake->attr.iface, FI_HMEM_ZE);
    assert_int_equal(fake->attr.device.ze, 3);
    assert_true(fake->attr.device.reserved == 3);
    weft_ofi_ops.dereg(region);
    what.flags |= WEFT_SPAN_OWN_ORDINAL;
    refuse(fake, &what, "does not have ze:3 by this number");
    what.fd = 7;
    refuse(fake, &what, "does not have ze:3 by this number");
    assert_int_equal(fake->registrations, 0);
    ofi_fake_close(fake);
}

static struct weft_link *link_up(struct ofi_fake *from, const struct ofi_fake *to)
{
    struct weft_link *link;
    assert_int_equal(
        ofi_connect(from->transport, &to->transport->address, to->transport->address_size, from, &link), 0);
    link->state = OFI_LINK_UP;
    return link;
}

/* A provider that leaves keys to weft, and needs no registration of ordinary memory. */
static void move(int tagged)
{
    struct ofi_fake *fake = ofi_fake_open(1, tagged), *peer = ofi_fake_open(2, tagged);
    struct weft_link *there = link_up(fake, peer), *back = link_up(peer, fake);
    struct weft_device_memory what = cuda_memory(-1);
    struct weft_region *source, *target, *host;
    struct weft_token token;
    struct ofi_token is_known;
    ofi_fake_take_devices(fake);
    ofi_fake_take_devices(peer);
    assert_int_equal(ofi_reg_device(fake->transport, &what, &source), WEFT_OK);
    assert_int_equal(ofi_reg_device(peer->transport, &what, &target), WEFT_OK);
    assert_int_equal(peer->registrations, 1);
    assert_int_equal(ofi_advertise(back, target, memory + 1000, 500, 1, &token), WEFT_OK);
    assert_int_equal(peer->registrations, 1); /* none of its own */
    memcpy(&is_known, &token, sizeof is_known);
    if (tagged)
        assert_ptr_equal(peer->desc, target->mr);
    else
        assert_true(is_known.key == fi_mr_key(target->mr) && is_known.address == 1000);
    assert_int_equal(ofi_put(there, &token, source, memory + 2000, 500, 2), WEFT_OK);
    assert_ptr_equal(fake->desc, source->mr);
    assert_int_equal(ofi_put(there, &token, source, memory + BYTES - 499, 500, 2), WEFT_INVALID);
    assert_int_equal(ofi_advertise(back, target, memory + BYTES - 499, 500, 1, &token), WEFT_INVALID);
    /* Ordinary memory beside it goes as it did. */
    assert_int_equal(ofi_reg(fake->transport, memory, BYTES, &host), WEFT_OK);
    assert_int_equal(ofi_put(there, &token, host, memory, 500, 3), WEFT_OK);
    assert_null(fake->desc);
    weft_ofi_ops.dereg(host);
    ofi_fake_turn(fake, NULL, NULL);
    /* What still comes into a receive buffer that was withdrawn goes to the host. */
    ofi_recall(back, &token, 0);
    ofi_recall_wait(peer->transport);
    if (tagged)
        assert_null(peer->desc);
    ofi_dereg(source);
    ofi_dereg(target);
    ofi_fake_close(fake);
    ofi_fake_close(peer);
}

static void writes_go_by_the_region(void **state)
{
    (void)state;
    move(0);
}

static void tagged_messages_go_by_the_region(void **state)
{
    (void)state;
    move(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pointers),
        cmocka_unit_test(dmabufs),
        cmocka_unit_test(numbers_of_level_zero),
        cmocka_unit_test(writes_go_by_the_region),
        cmocka_unit_test(tagged_messages_go_by_the_region),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    printf("SKIP: built without libfabric's headers\n");
    return 77;
}
#endif
