/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ofi */
/* Which of the entries that libfabric offers is taken: by provider, by address, and what an RDMA device's own
 * interface changes about that. A table of entries plays libfabric. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>

#if __has_include(<rdma/fabric.h>)
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/weft.h>

#include "tests/support/golden.h"
#include "transport/ofi/ofi_private.h"

/* One entry; address NULL for an InfiniBand address. */
struct offer {
    const char *provider, *domain, *address;
};

static const struct offer *offers;
/* Device memory: 0 is not offered; 1 is; 2 but costs messages their order; 3 and less can be injected then. */
static int devices;

/* An entry with all its parts, as one piece of memory. */
struct entry {
    struct fi_info info;
    struct fi_fabric_attr fabric;
    struct fi_domain_attr domain;
    struct fi_ep_attr ep;
    struct fi_tx_attr tx;
    struct fi_rx_attr rx;
    struct sockaddr_in6 address;
    char *provider;
};

static struct fi_info *entry_new(const struct fi_info *info)
{
    struct entry *entry = calloc(1, sizeof *entry);
    assert_non_null(entry);
    if (info)
        memcpy(entry, info, sizeof *entry); /* all are made here */
    entry->info.next = NULL;
    entry->info.fabric_attr = &entry->fabric;
    entry->info.domain_attr = &entry->domain;
    entry->info.ep_attr = &entry->ep;
    entry->info.tx_attr = &entry->tx;
    entry->info.rx_attr = &entry->rx;
    if (entry->fabric.prov_name)
        entry->fabric.prov_name = strdup(entry->fabric.prov_name);
    if (entry->info.src_addr)
        entry->info.src_addr = &entry->address;
    return &entry->info;
}

static void entries_free(struct fi_info *info)
{
    while (info) {
        struct fi_info *next = info->next;
        free(info->fabric_attr->prov_name);
        free(info);
        info = next;
    }
}

static void address_fill(struct entry *entry, const char *text)
{
    struct sockaddr_in *in = (void *)&entry->address;
    entry->info.src_addr = &entry->address;
    if (!text) {
        entry->info.addr_format = FI_SOCKADDR_IB;
        entry->info.src_addrlen = sizeof entry->address;
    } else if (inet_pton(AF_INET, text, &in->sin_addr) == 1) {
        entry->info.addr_format = FI_SOCKADDR_IN;
        entry->info.src_addrlen = sizeof *in;
        in->sin_family = AF_INET;
    } else {
        assert_int_equal(inet_pton(AF_INET6, text, &entry->address.sin6_addr), 1);
        entry->info.addr_format = FI_SOCKADDR_IN6;
        entry->info.src_addrlen = sizeof entry->address;
        entry->address.sin6_family = AF_INET6;
    }
}

/* Offers what suits the hint on the provider, in the order of the table. */
static int offer_all(uint32_t version, const char *node, const char *service, uint64_t flags,
                     const struct fi_info *hints, struct fi_info **list)
{
    const char *wanted = hints->fabric_attr->prov_name;
    struct fi_info **last = list;
    (void)version, (void)node, (void)service, (void)flags;
    *list = NULL;
    for (const struct offer *offer = offers; offer->provider; offer++) {
        if (wanted && strncmp(offer->provider, wanted, strlen(wanted)) != 0)
            continue;
        int with_devices = (hints->caps & FI_HMEM) != 0;
        if (with_devices && !devices)
            continue;
        struct fi_info *info = entry_new(NULL);
        info->domain_attr->mr_mode = FI_MR_LOCAL | (with_devices ? FI_MR_HMEM : 0);
        assert_true(!(info->domain_attr->mr_mode & ~hints->domain_attr->mr_mode));
        info->tx_attr->msg_order = with_devices && devices == 2 ? 0 : FI_ORDER_SAS;
        info->tx_attr->inject_size = with_devices && devices == 3 ? 0 : 64;
        info->caps = hints->caps;
        info->ep_attr->type = FI_EP_RDM;
        info->ep_attr->max_msg_size = 1 << 30;
        info->domain_attr->cq_data_size = 4;
        info->domain_attr->name = (char *)(uintptr_t)offer->domain;
        info->fabric_attr->prov_name = strdup(offer->provider);
        address_fill((struct entry *)(void *)info, offer->address);
        *last = info;
        last = &info->next;
    }
    return *list ? 0 : -FI_ENODATA;
}

static uint32_t version(void)
{
    return FI_VERSION(1, 17);
}

/* The domain that is chosen, or the status when there is none. */
static const char *choice(const char *provider, const char *local, int no_verbs, pid_t loader)
{
    const struct ofi_library library = {.getinfo = offer_all,
                                        .freeinfo = entries_free,
                                        .dupinfo = entry_new,
                                        .version = version,
                                        .loader = loader};
    const struct weft_transport_params params = {
        .size = sizeof params, .provider = provider, .local_address = local};
    struct fi_info *info;
    int status = ofi_info_choose(&library, &params, no_verbs, &info);
    if (status)
        return weft_strerror(status);
    const char *domain = info->domain_attr->name;
    entries_free(info);
    return domain;
}

static const char *const missing = "a library, device or file was not found";

/* libfabric 1.17 on a machine with two RoCE devices. */
static const struct offer roce[] = {
    {"verbs;ofi_rxm", "rxe0", "fe80::1"},  {"verbs;ofi_rxm", "rxe0 by InfiniBand", NULL},
    {"verbs;ofi_rxm", "rxe0", "10.7.0.1"}, {"verbs;ofi_rxm", "rxe1", "10.7.0.2"},
    {"tcp;ofi_rxm", "lo", "127.0.0.1"},    {"tcp;ofi_rxm", "eth0", "192.0.2.1"},
    {"tcp;ofi_rxm", "r0", "10.7.0.1"},     {0},
};

static void nobody_gets_a_device_of_another_interface_unasked(void **state)
{
    (void)state;
    offers = roce;
    assert_string_equal(choice(NULL, NULL, 0, getpid()), "lo");
    assert_string_equal(choice(NULL, "192.0.2.1", 0, getpid()), "eth0");
    assert_string_equal(choice("", "192.0.2.1", 0, getpid()), "eth0");
    assert_string_equal(choice(NULL, "192.0.2.7", 0, getpid()), missing);
}

static void the_interface_in_use_comes_first(void **state)
{
    (void)state;
    offers = roce;
    assert_string_equal(choice(NULL, "10.7.0.2", 0, getpid()), "rxe1");
    assert_string_equal(choice("verbs;ofi_rxm", "10.7.0.2", 0, getpid()), "rxe1");
    assert_string_equal(choice("verbs", "fe80::1", 0, getpid()), "rxe0");
    assert_string_equal(choice("tcp;ofi_rxm", "10.7.0.1", 0, getpid()), "r0");
    assert_string_equal(choice("tcp;ofi_rxm", "10.7.0.2", 0, getpid()), missing);
}

/* Its scope would be taken literally by other hosts. */
static void no_link_local_address_is_used_with_its_scope(void **state)
{
    (void)state;
    static const struct offer scoped[] = {{"tcp;ofi_rxm", "eth0", "fe80::1"}, {0}};
    offers = scoped;
    assert_string_equal(choice(NULL, "fe80::1%lo", 0, getpid()), missing);
    assert_true(golden_matches("ofi-link-local", "1.17", "fe80::1%lo"));
    assert_string_equal(choice("tcp;ofi_rxm", "fe80::1%lo", 0, getpid()), missing);
}

static void whoever_names_verbs_gets_a_device_of_its_own_interface(void **state)
{
    static const struct offer infiniband[] = {
        {"verbs;ofi_rxm", "mlx5_0", NULL}, {"verbs;ofi_rxm", "mlx5_1", "169.254.7.7"}, {0}};
    (void)state;
    offers = roce;
    assert_string_equal(choice("verbs;ofi_rxm", NULL, 0, getpid()), "rxe0");
    assert_string_equal(choice("verbs;ofi_rxm", "192.0.2.1", 0, getpid()), "rxe0");
    assert_string_equal(choice("verbs", "192.0.2.1", 0, getpid()), "rxe0");
    offers = infiniband;
    assert_string_equal(choice("verbs;ofi_rxm", "192.0.2.1", 0, getpid()), "mlx5_0");
    assert_string_equal(choice(NULL, "192.0.2.1", 0, getpid()), missing);
}

static void without_rdma_there_is_the_next_provider(void **state)
{
    (void)state;
    offers = roce;
    assert_string_equal(choice(NULL, "10.7.0.1", 0, getpid()), "rxe0");
    assert_string_equal(choice(NULL, "10.7.0.1", 1, getpid()), "r0");
}

static void a_forked_child_does_not_get_rdma(void **state)
{
    (void)state;
    offers = roce;
    assert_string_equal(choice(NULL, "10.7.0.1", 0, getppid()), "r0");
    assert_string_equal(choice("verbs;ofi_rxm", "10.7.0.1", 0, getppid()), weft_strerror(WEFT_UNSUPPORTED));
    assert_non_null(strstr(weft_error_detail(), "forked"));
    assert_non_null(strstr(weft_error_detail(), "exec"));
    assert_string_equal(choice("tcp;ofi_rxm", "10.7.0.1", 0, getppid()), "r0");
}

/* Whether the entry of this domain is taken with device memory. */
static int gets_devices(const char *domain)
{
    const struct ofi_library library = {.getinfo = offer_all,
                                        .freeinfo = entries_free,
                                        .dupinfo = entry_new,
                                        .version = version,
                                        .loader = getpid()};
    const struct weft_transport_params params = {.size = sizeof params, .local_address = "192.0.2.1"};
    struct fi_info *info;
    assert_int_equal(ofi_info_choose(&library, &params, 0, &info), WEFT_OK);
    assert_int_equal(info->caps & FI_HMEM, 0);
    ofi_info_add_devices(&library, &info);
    assert_string_equal(info->domain_attr->name, domain);
    int takes = (info->caps & FI_HMEM) != 0;
    entries_free(info);
    return takes;
}

/* The choice is the same with and without; nothing is given for it. */
static void memory_of_devices_comes_beside(void **state)
{
    static const struct offer efa[] = {{"efa", "rdmap1", "192.0.2.7"}, {"efa", "rdmap0", "192.0.2.1"}, {0}};
    (void)state;
    offers = roce;
    assert_int_equal(gets_devices("eth0"), 0);
    offers = efa;
    devices = 1;
    assert_int_equal(gets_devices("rdmap0"), 1);
    devices = 2;
    assert_int_equal(gets_devices("rdmap0"), 0);
    devices = 3;
    assert_int_equal(gets_devices("rdmap0"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_of_devices_comes_beside),
        cmocka_unit_test(nobody_gets_a_device_of_another_interface_unasked),
        cmocka_unit_test(the_interface_in_use_comes_first),
        cmocka_unit_test(no_link_local_address_is_used_with_its_scope),
        cmocka_unit_test(whoever_names_verbs_gets_a_device_of_its_own_interface),
        cmocka_unit_test(without_rdma_there_is_the_next_provider),
        cmocka_unit_test(a_forked_child_does_not_get_rdma),
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
