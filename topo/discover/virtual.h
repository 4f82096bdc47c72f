/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual machines by the names that their makers gave them in the system's DMI tables. */
#ifndef WEFT_TOPO_DISCOVER_VIRTUAL_H
#define WEFT_TOPO_DISCOVER_VIRTUAL_H

/* Whether vendor and product (either may be NULL) are those of a virtual machine. 0 also means not known. */
int weft_product_is_virtual(const char *vendor, const char *product);

#endif
