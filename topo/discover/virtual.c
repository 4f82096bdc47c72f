/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/discover/virtual.h"

#include <stddef.h>
#include <string.h>

/* Vendor and product as the firmware of virtual machines tells them; "" matches any. Amazon's and Google's bare metal
 * has their name as vendor too, so for those the product decides. */
static const struct {
    const char *vendor, *product;
} machines[] = {
    {"QEMU", ""},
    {"", "KVM"},
    {"", "VirtualBox"},
    {"VMware, Inc.", ""},
    {"Xen", ""},
    {"", "HVM domU"},
    {"Microsoft Corporation", "Virtual Machine"},
    {"", "Google Compute Engine"},
    {"", "OpenStack"},
    {"Parallels", ""},
    {"", "BHYVE"},
    {"Apple Inc.", "Apple Virtualization"},
};

static int begins(const char *text, const char *with)
{
    return text && strncmp(text, with, strlen(with)) == 0;
}

int weft_product_is_virtual(const char *vendor, const char *product)
{
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        int vendor_fits = !*machines[i].vendor || begins(vendor, machines[i].vendor);
        int product_fits = !*machines[i].product || begins(product, machines[i].product);
        if (vendor_fits && product_fits)
            return 1;
    }
    return begins(vendor, "Amazon EC2") && product && *product && !strstr(product, ".metal");
}
