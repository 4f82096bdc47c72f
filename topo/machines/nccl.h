/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's topology XML: what its reader's parts and its writer share. Private to topo/machines/nccl*.c.
 *
 * The format, as NCCL writes it with NCCL_TOPO_DUMP_FILE and reads it with NCCL_TOPO_FILE (NVIDIA's NCCL user guide,
 * "Environment variables"; elements and attributes as NCCL 2.28 and RCCL 2.22 have them):
 *
 *     system version                             the root; version 1, RCCL also 2
 *       cpu numaid affinity arch vendor familyid modelid host_hash
 *         pci busid class vendor device subsystem_vendor subsystem_device link_speed link_width
 *           pci ...                              a PCI switch has its devices and further switches within; one element
 *                                                stands for the whole switch, and root ports have none
 *           gpu dev sm rank gdr (RCCL: gcn arch) several in one pci: several ranks or partitions of it
 *             nvlink target count tclass         target: busid of a GPU, or of something else that tclass tells
 *             xgmi target count tclass           RCCL's
 *             c2c bw count                       to the processor; bw in MB/s
 *           nic
 *             net name dev speed port guid maxconn gdr latency coll keep    speed in Mb/s, latency in microseconds
 *           pcilink target                       a switch that shares its fabric with another one
 *         nic ...                                without a place on PCI
 *
 * cpus of several hosts in one file differ in host_hash. A class (0x030200: base class 03) decides what a childless pci
 * is; with a gpu or nic within it is that. tclass 0x068000 is an NVSwitch, 0x068001 the processor (POWER).
 *
 * In the graph a cpu is a NUMA node, a pci with the one gpu or nic in it is one node, and a net is a port. So that
 * writing gives back what was read, every node keeps under the name "nccl" which elements it stands for ("pci gpu"),
 * and their attributes: those listed above under their own names, others as "ELEMENT.NAME". Elements that are no nodes
 * (links, and childless ones that nobody knows) are kept as "ELEMENT/NUMBER" with their tag as value.
 */
#ifndef WEFT_TOPO_MACHINES_NCCL_H
#define WEFT_TOPO_MACHINES_NCCL_H

#include "topo/machines/xml_tree.h"

#define WEFT_NCCL_LEAVES_MAX                                                                                 \
    128 /* links and unknown elements in one element: a node has room for 256 attributes */
#define WEFT_NCCL_COUNT_MAX 4096 /* parallel links */

enum weft_nccl_kind {
    WEFT_NCCL_SYSTEM,
    WEFT_NCCL_CPU,
    WEFT_NCCL_PCI,
    WEFT_NCCL_GPU,
    WEFT_NCCL_NIC,
    WEFT_NCCL_NET,
    WEFT_NCCL_NVLINK,
    WEFT_NCCL_XGMI,
    WEFT_NCCL_C2C,
    WEFT_NCCL_PCILINK,
    WEFT_NCCL_OTHER,
    WEFT_NCCL_KIND_COUNT
};

weft_reader weft_read_nccl;

/* Its name; "" of OTHER. */
const char *weft_nccl_kind_name(enum weft_nccl_kind kind);
enum weft_nccl_kind weft_nccl_kind_find(const char *name);
/* Whether the format defines this attribute of the element. */
int weft_nccl_attribute_is_known(enum weft_nccl_kind kind, const char *name);

/* A decimal number such as "0.600000"; -1 when it is none. */
int weft_nccl_decimal(const char *text, double *value);

/* Bytes per second of one link in one direction; 0 where the source does not tell the model, or its rate is not sure.
 * sm: NVIDIA's compute capability, 80; gcn: RCCL's name of the architecture, "gfx942" or "942". */
uint64_t weft_nccl_nvlink_bytes_per_s(int64_t sm);
uint64_t weft_nccl_xgmi_bytes_per_s(const char *gcn);

/* --- reading */

/* What vendors' files have that is odd, and is read all the same, as NCCL does. */
enum weft_nccl_odd {
    WEFT_NCCL_ODD_TEXT,      /* between elements: passed over */
    WEFT_NCCL_ODD_EMPTY,     /* an attribute without a value: as if it were not there */
    WEFT_NCCL_ODD_SPEED,     /* a net's that cannot be: unknown */
    WEFT_NCCL_ODD_ADDRESS,   /* of several elements: links lead to the first, or the first GPU */
    WEFT_NCCL_ODD_BARE,      /* a pci of which only the address is told: a device */
    WEFT_NCCL_ODD_SELF_LINK, /* from a GPU to itself: passed over */
    WEFT_NCCL_ODD_COUNT
};

/* What is known of each element of the tree. */
struct weft_nccl_mark {
    uint8_t kind;    /* enum weft_nccl_kind */
    uint8_t becomes; /* PCI: enum weft_node_kind */
    uint32_t host;   /* the first cpu element of its host; of system: NONE */
    uint32_t node;   /* in the graph; NONE for leaves */
    uint32_t device; /* PCI: the one gpu or nic in it that makes one node with it; NONE */
    uint32_t
        number; /* how many of its name came before: names that appear twice get it; leaves: all leaves */
    uint32_t leaves; /* in it */
    int32_t order;   /* GPU, NIC: how many came before it in its host */
    char pci[32];    /* PCI: canonical address */
};

struct weft_nccl_key {
    uint64_t group, number;
    const char *text; /* or NULL */
    uint32_t element;
};

struct weft_nccl_file {
    const struct weft_text *text;
    struct weft_graph *graph;
    struct weft_xml_tree tree;
    struct weft_nccl_mark *marks;
    struct weft_nccl_key *addresses; /* of pci elements, sorted by host (group) and address (number) */
    uint32_t address_count;
    uint32_t host_count; /* so far */
    struct {
        uint32_t count, line; /* of the first */
        char first[160];      /* what is said of it */
    } odd[WEFT_NCCL_ODD_COUNT];
};

/* Notes what is odd; each kind becomes one warning. */
void weft_nccl_odd(struct weft_nccl_file *file, enum weft_nccl_odd odd, uint32_t line, const char *format,
                   ...) __attribute__((format(printf, 4, 5)));
/* Refuses what is missing, and numbers that are none. */
int weft_nccl_check(struct weft_nccl_file *file, uint32_t element);

/* What the elements are, what lies where, addresses and names that appear twice. */
int weft_nccl_survey(struct weft_nccl_file *file);
int weft_nccl_nodes(struct weft_nccl_file *file);
int weft_nccl_links(struct weft_nccl_file *file);

/* The pci element of this address in the host, or WEFT_XML_NONE. */
uint32_t weft_nccl_at(const struct weft_nccl_file *file, uint32_t host, const char *canonical);

/* The number of a gpu (or of a pci that is one): its dev, or its order in the host. */
int64_t weft_nccl_gpu_index(const struct weft_nccl_file *file, uint32_t element);
/* The name of the first net in a nic; NULL without, and of a pci. */
const char *weft_nccl_net_name(const struct weft_nccl_file *file, uint32_t nic);
/* The port's number as text, or the net's name where it is not the nic's; NULL: neither is told. */
const char *weft_nccl_port_name(const struct weft_nccl_file *file, uint32_t net);

/* Gives an error of the graph's the line; passes others on. */
int weft_nccl_failed(const struct weft_nccl_file *file, uint32_t element, int status);

/* The gpu's or nic's or pci's attribute, or NULL. */
const char *weft_nccl_value(const struct weft_nccl_file *file, uint32_t element, const char *name);

#endif
