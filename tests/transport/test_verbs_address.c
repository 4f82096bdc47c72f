/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs verbs */
/* Addresses of the verbs transport: their bytes, which ports they pair, and the paths between. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "transport/verbs/address.h"

#define MANY 20000

static void set_gid(struct verbs_port *port, const char *text, int type, int prefix_bits)
{
    struct verbs_gid *gid = &port->gids[port->gid_count];
    *gid = (struct verbs_gid){
        .type = (uint8_t)type, .prefix_bits = (uint8_t)prefix_bits, .index = port->gid_count};
    assert_int_equal(inet_pton(AF_INET6, text, gid->raw), 1);
    port->gid_count++;
}

/* Ports are added to it. */
static struct verbs_address instance(uint64_t number)
{
    struct verbs_address address = {.instance = number, .version_min = 1, .version_max = 1};
    return address;
}

static struct verbs_port *add_port(struct verbs_address *address, int layer, uint32_t speed_mbps)
{
    struct verbs_port *port = &address->ports[address->port_count++];
    *port = (struct verbs_port){.guid = address->instance * 256 + address->port_count,
                                .speed_mbps = speed_mbps,
                                .partition = 0xffff,
                                .number = 1,
                                .layer = (uint8_t)layer,
                                .mtu = IBV_MTU_4096};
    return port;
}

static void add_roce(struct verbs_address *address, const char *ip, uint32_t speed_mbps)
{
    char text[64];
    struct verbs_port *port = add_port(address, IBV_LINK_LAYER_ETHERNET, speed_mbps);
    snprintf(text, sizeof text, "::ffff:%s", ip);
    set_gid(port, text, VERBS_GID_ROCE2, 120);
    snprintf(text, sizeof text, "fe80::%x", (unsigned)port->guid);
    set_gid(port, text, VERBS_GID_ROCE2, 64);
}

static void add_infiniband(struct verbs_address *address, const char *gid, int lid, uint32_t speed_mbps)
{
    struct verbs_port *port = add_port(address, IBV_LINK_LAYER_INFINIBAND, speed_mbps);
    port->lid = (uint16_t)lid;
    set_gid(port, gid, VERBS_GID_IB, 0);
}

/* "0-1 1-0": the pairs by their ports. Checks that the other end sees the same, mirrored. */
static const char *pair(const struct verbs_address *a, const struct verbs_address *b)
{
    static char text[64];
    struct verbs_pair mine[VERBS_PAIRS], theirs[VERBS_PAIRS];
    int count = verbs_pairs(a, b, mine);
    assert_int_equal(verbs_pairs(b, a, theirs), count);
    text[0] = '\0';
    for (int i = 0; i < count; i++) {
        assert_int_equal(mine[i].mine, theirs[i].theirs);
        assert_int_equal(mine[i].theirs, theirs[i].mine);
        assert_int_equal(mine[i].my_gid, theirs[i].their_gid);
        assert_int_equal(mine[i].their_gid, theirs[i].my_gid);
        sprintf(text + strlen(text), "%s%d-%d", i ? " " : "", mine[i].mine, mine[i].theirs);
    }
    return text;
}

static void test_equal_places_go_together(void **state)
{
    (void)state;
    struct verbs_address a = instance(1), b = instance(2);
    for (int i = 0; i < 4; i++) {
        add_infiniband(&a, "fe80::1", 10 + i, 400000);
        add_infiniband(&b, "fe80::2", 20 + i, 400000);
    }
    assert_string_equal(pair(&a, &b), "0-0 1-1 2-2 3-3");
    assert_string_equal(pair(&b, &a), "0-0 1-1 2-2 3-3");
}

static void test_subnets_go_together(void **state)
{
    (void)state;
    /* Two rails, each a subnet of its own; on one host the ports are the other way round. */
    struct verbs_address a = instance(3), b = instance(9);
    add_roce(&a, "10.1.0.1", 100000);
    add_roce(&a, "10.2.0.1", 100000);
    add_roce(&b, "10.2.0.2", 100000);
    add_roce(&b, "10.1.0.2", 100000);
    assert_string_equal(pair(&a, &b), "0-1 1-0");
}

static void test_ports_left_over_share(void **state)
{
    (void)state;
    struct verbs_address a = instance(1), b = instance(2);
    add_roce(&a, "10.0.0.1", 100000);
    add_roce(&a, "10.0.0.2", 100000);
    add_roce(&a, "10.0.0.3", 100000);
    add_roce(&b, "10.0.0.7", 100000);
    assert_string_equal(pair(&a, &b), "0-0 1-0 2-0");
    add_roce(&b, "10.0.0.8", 100000);
    assert_string_equal(pair(&a, &b), "0-0 1-1 2-1");
}

static void test_slow_ports_stay_out(void **state)
{
    (void)state;
    struct verbs_address a = instance(1), b = instance(2), c = instance(3);
    add_infiniband(&a, "fe80::1", 1, 200000);
    add_roce(&a, "10.0.0.1", 25000);
    add_infiniband(&b, "fe80::2", 2, 200000);
    add_roce(&b, "10.0.0.2", 25000);
    add_roce(&c, "10.0.0.3", 25000); /* this host has no other */
    assert_string_equal(pair(&a, &b), "0-0");
    assert_string_equal(pair(&a, &c), "1-0");
    /* Speeds that cannot be read do not count. */
    a.ports[0].speed_mbps = a.ports[1].speed_mbps = 0;
    assert_string_equal(pair(&a, &b), "1-1 0-0");
}

static void test_what_cannot_talk(void **state)
{
    (void)state;
    struct verbs_address a = instance(1), b = instance(2);
    add_roce(&a, "10.0.0.1", 100000);
    add_infiniband(&b, "fe80::2", 2, 100000);
    assert_string_equal(pair(&a, &b), "");
    b = instance(2);
    add_roce(&b, "10.0.0.2", 100000);
    assert_string_equal(pair(&a, &b), "0-0");
    b.ports[0].partition = 0x8001; /* another partition */
    assert_string_equal(pair(&a, &b), "");
    b.ports[0].partition = 0x7fff; /* a limited member of the same */
    assert_string_equal(pair(&a, &b), "0-0");
    a.ports[0].partition = 0x7fff; /* two of them */
    assert_string_equal(pair(&a, &b), "");
}

static void test_same_address_at_both_ends_is_no_address(void **state)
{
    (void)state;
    struct verbs_address a = instance(1), b = instance(2);
    add_roce(&a, "172.17.0.1", 100000);
    add_roce(&b, "172.17.0.1", 100000);
    struct verbs_pair pairs[VERBS_PAIRS];
    assert_int_equal(verbs_pairs(&a, &b, pairs), 1);
    assert_int_equal(pairs[0].my_gid, 1); /* the link-local ones */
    assert_int_equal(pairs[0].their_gid, 1);
    /* But a port talks to itself. */
    b = a;
    b.instance = 2;
    assert_int_equal(verbs_pairs(&a, &b, pairs), 1);
    assert_int_equal(pairs[0].my_gid, 0);
}

/* --- paths */

static void test_path_on_ethernet(void **state)
{
    (void)state;
    struct verbs_address a = instance(1), b = instance(2);
    struct verbs_pair pairs[VERBS_PAIRS];
    struct verbs_path path;
    add_roce(&a, "10.0.0.1", 100000);
    add_roce(&b, "10.0.0.2", 100000);
    a.ports[0].mtu = IBV_MTU_1024;
    a.ports[0].gids[0].index = 3;
    assert_int_equal(verbs_pairs(&a, &b, pairs), 1);
    verbs_path(&a, &b, &pairs[0], 0, &path);
    struct weft_verbs_settings settings = {.size = sizeof settings, .traffic_class = 106, .service_level = 3};
    struct ibv_qp_attr attributes;
    memset(&attributes, 0xff, sizeof attributes);
    verbs_path_fill(&path, &settings, 2, &attributes);
    assert_int_equal(attributes.path_mtu, IBV_MTU_1024);
    assert_int_equal(attributes.ah_attr.port_num, 2);
    assert_int_equal(attributes.ah_attr.sl, 3);
    assert_int_equal(attributes.ah_attr.is_global, 1);
    assert_int_equal(attributes.ah_attr.grh.sgid_index, 3);
    assert_int_equal(attributes.ah_attr.grh.traffic_class, 106);
    assert_true(attributes.ah_attr.grh.hop_limit > 1);
    assert_memory_equal(attributes.ah_attr.grh.dgid.raw, b.ports[0].gids[0].raw, 16);
    verbs_path(&b, &a, &pairs[0], 0, &path);
    assert_int_equal(path.mtu, IBV_MTU_1024);
}

static void test_path_on_infiniband(void **state)
{
    (void)state;
    struct verbs_address a = instance(1), b = instance(2);
    struct verbs_pair pairs[VERBS_PAIRS];
    struct verbs_path path;
    add_infiniband(&a, "fe80::1", 0x10, 100000);
    add_infiniband(&b, "fe80::2", 0x40, 100000);
    a.ports[0].lmc = 1;
    b.ports[0].lmc = 2;
    assert_int_equal(verbs_pairs(&a, &b, pairs), 1);
    for (int number = 0; number < 4; number++) {
        verbs_path(&a, &b, &pairs[0], number, &path);
        assert_int_equal(path.is_global, 0);
        assert_int_equal(path.lid, 0x40 + number % 2); /* both ends have two LIDs at least */
        assert_int_equal(path.bits, number % 2);
    }
}

/* Ports that share a LID with others are found by GID, whichever end asks for it; the LID is still the way there. */
static void test_path_to_a_shared_lid(void **state)
{
    (void)state;
    for (int asks = 1; asks <= 3; asks++) {
        struct verbs_address a = instance(1), b = instance(2), oob_receive;
        struct verbs_pair pairs[VERBS_PAIRS];
        struct verbs_path path;
        uint8_t bytes[WEFT_ADDRESS_MAX];
        add_infiniband(&a, "fe80::1", 0x10, 100000);
        add_infiniband(&b, "fe80::2", 0x40, 100000);
        a.ports[0].lmc = b.ports[0].lmc = 1;
        a.ports[0].needs_grh = asks & 1;
        b.ports[0].needs_grh = asks >> 1;
        assert_int_equal(verbs_address_decode(bytes, verbs_address_encode(&b, bytes), &oob_receive), WEFT_OK);
        assert_int_equal(verbs_pairs(&a, &oob_receive, pairs), 1);
        verbs_path(&a, &oob_receive, &pairs[0], 1, &path);
        struct ibv_qp_attr attributes;
        struct weft_verbs_settings settings = {.size = sizeof settings};
        verbs_path_fill(&path, &settings, 1, &attributes);
        assert_int_equal(attributes.ah_attr.is_global, 1);
        assert_int_equal(attributes.ah_attr.dlid, 0x41);
        assert_int_equal(attributes.ah_attr.src_path_bits, 1);
        assert_memory_equal(attributes.ah_attr.grh.dgid.raw, b.ports[0].gids[0].raw, 16);
        verbs_path(&oob_receive, &a, &(struct verbs_pair){pairs[0].theirs, pairs[0].mine, 0, 0}, 1, &path);
        assert_int_equal(path.is_global, 1);
    }
}

static void test_path_between_infiniband_subnets(void **state)
{
    (void)state;
    struct verbs_address a = instance(1), b = instance(2);
    struct verbs_pair pairs[VERBS_PAIRS];
    struct verbs_path path;
    add_infiniband(&a, "fec0:0:11:1::1", 0x10, 100000);
    add_infiniband(&b, "fec0:0:22:2::2", 0x40, 100000);
    assert_int_equal(verbs_pairs(&a, &b, pairs), 1);
    verbs_path(&a, &b, &pairs[0], 0, &path);
    assert_int_equal(path.is_global, 1);
    assert_int_equal(path.lid, 0x22); /* as the own subnet knows it, not 0x40 */
    assert_memory_equal(path.gid, b.ports[0].gids[0].raw, 16);
}

/* --- any two addresses */

static struct verbs_address random_address(void)
{
    static const char *const gids[] = {"::ffff:10.0.0.1", "::ffff:10.0.0.2", "::ffff:10.0.1.1",
                                       "2001:db8::1",     "2001:db8::2",     "fe80::1",
                                       "fe80::2",         "fec0:0:7::1"};
    struct verbs_address address = instance((uint64_t)rand() % 4);
    int count = 1 + rand() % VERBS_RAILS;
    for (int i = 0; i < count; i++) {
        int layer = 1 + rand() % 2;
        struct verbs_port *port = add_port(&address, layer, (uint32_t)(25000 << rand() % 4));
        port->guid = (uint64_t)rand() % 3;
        port->lid = (uint16_t)(1 + rand() % 100);
        port->mtu = (uint8_t)(1 + rand() % 5);
        for (int k = 1 + rand() % VERBS_PORT_GIDS; k > 0; k--)
            set_gid(port, gids[rand() % 8],
                    layer == IBV_LINK_LAYER_INFINIBAND ? VERBS_GID_IB : 1 + rand() % 2, rand() % 2 * 120);
    }
    return address;
}

static void test_pairs_mirror_each_other(void **state)
{
    (void)state;
    int some = 0;
    srand(2);
    for (int i = 0; i < MANY; i++) {
        struct verbs_address a = random_address(), b = random_address();
        b.instance += 4; /* no two instances have one number */
        some += *pair(&a, &b) != '\0';
        /* What travels gives the same pairs as what was meant. */
        uint8_t bytes[WEFT_ADDRESS_MAX];
        struct verbs_address read_a, read_b;
        assert_int_equal(verbs_address_decode(bytes, verbs_address_encode(&a, bytes), &read_a), WEFT_OK);
        assert_int_equal(verbs_address_decode(bytes, verbs_address_encode(&b, bytes), &read_b), WEFT_OK);
        pair(&read_a, &read_b);
    }
    assert_true(some > MANY / 4);
}

static void test_every_port_that_can_has_a_partner(void **state)
{
    (void)state;
    srand(3);
    for (int i = 0; i < MANY; i++) {
        struct verbs_address a = instance(1), b = instance(2);
        int a_count = 1 + rand() % 4, b_count = 1 + rand() % 4, seen_a = 0, seen_b = 0;
        for (int k = 0; k < a_count; k++)
            add_infiniband(&a, "fe80::1", k + 1, 100000);
        for (int k = 0; k < b_count; k++)
            add_infiniband(&b, "fe80::2", k + 9, 100000);
        struct verbs_pair pairs[VERBS_PAIRS];
        int count = verbs_pairs(&a, &b, pairs);
        assert_int_equal(count, a_count > b_count ? a_count : b_count);
        for (int k = 0; k < count; k++) {
            seen_a |= 1 << pairs[k].mine;
            seen_b |= 1 << pairs[k].theirs;
        }
        assert_int_equal(seen_a, (1 << a_count) - 1);
        assert_int_equal(seen_b, (1 << b_count) - 1);
    }
}

/* --- bytes */

static void test_bytes_are_read_back(void **state)
{
    (void)state;
    uint8_t bytes[WEFT_ADDRESS_MAX], again[WEFT_ADDRESS_MAX];
    struct verbs_address a = instance(0x1122334455667788), read;
    for (int i = 1; i <= VERBS_RAILS; i++) {
        struct verbs_port *port = add_port(&a, IBV_LINK_LAYER_ETHERNET, 400000);
        for (int k = 0; k < VERBS_PORT_GIDS; k++)
            set_gid(port, k % 2 ? "2001:db8::1" : "::ffff:10.0.0.1", VERBS_GID_ROCE2, 64);
        port->gids[1].foreign = 1;
        size_t size = verbs_address_encode(&a, bytes);
        assert_true(size <= WEFT_ADDRESS_MAX);
        assert_int_equal(verbs_address_decode(bytes, size, &read), WEFT_OK);
        assert_int_equal(read.instance, a.instance);
        assert_int_equal(read.port_count, i);
        assert_true(read.ports[i - 1].gid_count >= 2); /* four ports: two GIDs each */
        assert_int_equal(read.ports[i - 1].guid, a.ports[i - 1].guid);
        assert_int_equal(read.ports[i - 1].speed_mbps, 400000);
        assert_memory_equal(&read.ports[i - 1].gids[1], &a.ports[i - 1].gids[1], sizeof(struct verbs_gid));
        assert_int_equal(verbs_address_encode(&read, again), size);
        assert_memory_equal(again, bytes, size);
    }
}

static void expect_refusal(const uint8_t *bytes, size_t size, const char *text)
{
    struct verbs_address read = {.instance = 5};
    assert_int_equal(verbs_address_decode(bytes, size, &read), WEFT_PROTOCOL);
    if (!strstr(weft_error_detail(), text))
        fail_msg("'%s' does not say '%s'", weft_error_detail(), text);
    assert_int_equal(read.instance, 5);
}

static void test_bytes_that_are_refused(void **state)
{
    (void)state;
    /* Where a byte of an address with one port is, a value that it cannot have, and what is said. */
    static const struct {
        size_t at;
        uint8_t value;
        const char *text;
    } rows[] = {
        {0, 'x', "not an address of this transport"},
        {4, 9, "speaks versions 9 to 1"},
        {5, 0, "speaks versions 1 to 0"},
        {6, 0, "has 0 ports"},
        {6, 5, "has 5 ports"},
        {6, 2, "ends inside a port"},
        {16 + 14, 8, "LMC 8"},
        {16 + 15, 0, "a port 0"},
        {16 + 16, 3, "link layer 3"},
        {16 + 17, 6, "MTU 6"},
        {16 + 20, 0, "0 GIDs"},
        {16 + 20, 5, "5 GIDs"},
        {16 + 20, 1, "19 bytes too many"},
        {16 + 20, 3, "ends inside a GID"},
        {16 + 22 + 16, 3, "a GID of type 3"},
        {16 + 22 + 16, 0, "a GID of type 0"},
        {16 + 22 + 17, 129, "a prefix of 129 bits"},
    };
    uint8_t bytes[WEFT_ADDRESS_MAX + 1] = {0}, broken[WEFT_ADDRESS_MAX];
    struct verbs_address a = instance(7);
    add_roce(&a, "10.0.0.1", 100000);
    size_t size = verbs_address_encode(&a, bytes);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        memcpy(broken, bytes, size);
        broken[rows[i].at] = rows[i].value;
        expect_refusal(broken, size, rows[i].text);
    }
    for (size_t cut = 0; cut < size; cut++) {
        uint8_t *exact = malloc(cut + 1);
        assert_non_null(exact);
        memcpy(exact, bytes, cut);
        expect_refusal(exact, cut, "verbs: ");
        free(exact);
    }
    expect_refusal(bytes, WEFT_ADDRESS_MAX + 1, "not an address");
}

static void test_lids_that_are_refused(void **state)
{
    (void)state;
    static const struct {
        int lid, lmc, is_right;
    } rows[] = {{0, 0, 0}, {1, 0, 1}, {0xbfff, 0, 1}, {0xc000, 0, 0}, {0xbff8, 3, 1}, {0xbff8, 4, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t bytes[WEFT_ADDRESS_MAX];
        struct verbs_address a = instance(7), read;
        add_infiniband(&a, "fe80::1", rows[i].lid, 100000);
        a.ports[0].lmc = (uint8_t)rows[i].lmc;
        int status = verbs_address_decode(bytes, verbs_address_encode(&a, bytes), &read);
        assert_int_equal(status, rows[i].is_right ? WEFT_OK : WEFT_PROTOCOL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_places_go_together),
        cmocka_unit_test(test_subnets_go_together),
        cmocka_unit_test(test_ports_left_over_share),
        cmocka_unit_test(test_slow_ports_stay_out),
        cmocka_unit_test(test_what_cannot_talk),
        cmocka_unit_test(test_same_address_at_both_ends_is_no_address),
        cmocka_unit_test(test_path_on_ethernet),
        cmocka_unit_test(test_path_on_infiniband),
        cmocka_unit_test(test_path_to_a_shared_lid),
        cmocka_unit_test(test_path_between_infiniband_subnets),
        cmocka_unit_test(test_pairs_mirror_each_other),
        cmocka_unit_test(test_every_port_that_can_has_a_partner),
        cmocka_unit_test(test_bytes_are_read_back),
        cmocka_unit_test(test_bytes_that_are_refused),
        cmocka_unit_test(test_lids_that_are_refused),
    };
    return cmocka_run_group_tests_name("verbs address", tests, NULL, NULL);
}
