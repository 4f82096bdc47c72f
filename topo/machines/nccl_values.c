/* SPDX-License-Identifier: Apache-2.0 */
/* Names and values of NCCL's XML: which attributes there are, what they may be, and how fast links are. */
#include <string.h>

#include "topo/machines/nccl.h"

static const char *const kind_names[WEFT_NCCL_KIND_COUNT] = {
    [WEFT_NCCL_SYSTEM] = "system",   [WEFT_NCCL_CPU] = "cpu",   [WEFT_NCCL_PCI] = "pci",
    [WEFT_NCCL_GPU] = "gpu",         [WEFT_NCCL_NIC] = "nic",   [WEFT_NCCL_NET] = "net",
    [WEFT_NCCL_NVLINK] = "nvlink",   [WEFT_NCCL_XGMI] = "xgmi", [WEFT_NCCL_C2C] = "c2c",
    [WEFT_NCCL_PCILINK] = "pcilink", [WEFT_NCCL_OTHER] = "",
};

const char *weft_nccl_kind_name(enum weft_nccl_kind kind)
{
    return kind_names[kind];
}

enum weft_nccl_kind weft_nccl_kind_find(const char *name)
{
    int kind = 0;
    while (kind < WEFT_NCCL_OTHER && strcmp(kind_names[kind], name) != 0)
        kind++;
    return (enum weft_nccl_kind)kind;
}

enum value_kind { VALUE_TEXT, VALUE_INTEGER, VALUE_UNSIGNED, VALUE_DECIMAL, VALUE_MASK };

/* NEEDED: without it nothing can be made of the element. NOT_EMPTY: a text that says nothing when it is empty. */
#define NEEDED    1
#define NOT_EMPTY 2

static const struct rule {
    enum weft_nccl_kind kind;
    const char *name;
    enum value_kind value;
    int flags;
    int64_t min;
    uint64_t max;
} rules[] = {
    {WEFT_NCCL_SYSTEM, "version", VALUE_INTEGER, NEEDED, 1, 2},
    {WEFT_NCCL_SYSTEM, "name", VALUE_TEXT, 0, 0, 0},
    {WEFT_NCCL_CPU, "numaid", VALUE_INTEGER, NEEDED, -1, INT32_MAX},
    {WEFT_NCCL_CPU, "host_hash", VALUE_UNSIGNED, 0, 0, UINT64_MAX},
    {WEFT_NCCL_CPU, "affinity", VALUE_MASK, 0, 0, 0},
    {WEFT_NCCL_CPU, "arch", VALUE_TEXT, 0, 0, 0},
    {WEFT_NCCL_CPU, "vendor", VALUE_TEXT, 0, 0, 0},
    {WEFT_NCCL_CPU, "familyid", VALUE_INTEGER, 0, INT32_MIN, INT32_MAX},
    {WEFT_NCCL_CPU, "modelid", VALUE_INTEGER, 0, INT32_MIN, INT32_MAX},
    {WEFT_NCCL_PCI, "busid", VALUE_TEXT, NEEDED, 0, 0},
    {WEFT_NCCL_PCI, "class", VALUE_UNSIGNED, 0, 0, 0xffffff},
    {WEFT_NCCL_PCI, "vendor", VALUE_TEXT, 0, 0, 0},
    {WEFT_NCCL_PCI, "device", VALUE_TEXT, 0, 0, 0},
    {WEFT_NCCL_PCI, "subsystem_vendor", VALUE_TEXT, 0, 0, 0},
    {WEFT_NCCL_PCI, "subsystem_device", VALUE_TEXT, 0, 0, 0},
    {WEFT_NCCL_PCI, "link_speed", VALUE_TEXT, NOT_EMPTY, 0, 0},
    {WEFT_NCCL_PCI, "link_width", VALUE_INTEGER, 0, 0, 255}, /* 255: as Linux says unknown */
    {WEFT_NCCL_GPU, "dev", VALUE_INTEGER, 0, -1, INT32_MAX},
    {WEFT_NCCL_GPU, "sm", VALUE_INTEGER, 0, 0, INT32_MAX},
    {WEFT_NCCL_GPU, "rank", VALUE_INTEGER, 0, -1, INT32_MAX},
    {WEFT_NCCL_GPU, "gdr", VALUE_INTEGER, 0, -1, INT32_MAX},
    {WEFT_NCCL_GPU, "gcn", VALUE_TEXT, 0, 0, 0},
    {WEFT_NCCL_GPU, "arch", VALUE_INTEGER, 0, INT32_MIN, UINT32_MAX},
    {WEFT_NCCL_NET, "name", VALUE_TEXT, 0, 0, 0},
    {WEFT_NCCL_NET, "dev", VALUE_INTEGER, 0, -1, INT32_MAX},
    {WEFT_NCCL_NET, "speed", VALUE_INTEGER, 0, -1, INT32_MAX}, /* -1: a driver that does not know */
    {WEFT_NCCL_NET, "port", VALUE_INTEGER, 0, -1, INT32_MAX},
    {WEFT_NCCL_NET, "guid", VALUE_UNSIGNED, 0, 0, UINT64_MAX},
    {WEFT_NCCL_NET, "maxconn", VALUE_INTEGER, 0, -1, INT32_MAX},
    {WEFT_NCCL_NET, "gdr", VALUE_INTEGER, 0, -1, INT32_MAX},
    {WEFT_NCCL_NET, "coll", VALUE_INTEGER, 0, -1, INT32_MAX},
    {WEFT_NCCL_NET, "keep", VALUE_INTEGER, 0, -1, INT32_MAX},
    {WEFT_NCCL_NET, "latency", VALUE_DECIMAL, 0, 0, 0},
    {WEFT_NCCL_NVLINK, "target", VALUE_TEXT, NEEDED, 0, 0},
    {WEFT_NCCL_NVLINK, "count", VALUE_INTEGER, 0, 1, WEFT_NCCL_COUNT_MAX},
    {WEFT_NCCL_NVLINK, "tclass", VALUE_UNSIGNED, 0, 0, 0xffffff},
    {WEFT_NCCL_XGMI, "target", VALUE_TEXT, NEEDED, 0, 0},
    {WEFT_NCCL_XGMI, "count", VALUE_INTEGER, 0, 1, WEFT_NCCL_COUNT_MAX},
    {WEFT_NCCL_XGMI, "tclass", VALUE_UNSIGNED, 0, 0, 0xffffff},
    {WEFT_NCCL_C2C, "bw", VALUE_INTEGER, 0, 0, INT32_MAX},
    {WEFT_NCCL_C2C, "count", VALUE_INTEGER, 0, 1, WEFT_NCCL_COUNT_MAX},
    {WEFT_NCCL_PCILINK, "target", VALUE_TEXT, NEEDED, 0, 0},
};

int weft_nccl_attribute_is_known(enum weft_nccl_kind kind, const char *name)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (rules[i].kind == kind && strcmp(rules[i].name, name) == 0)
            return 1;
    }
    return 0;
}

int weft_nccl_decimal(const char *text, double *value)
{
    double sum = 0, unit = 1;
    int digits = 0, point = 0;
    for (; *text; text++) {
        if (*text == '.' && !point) {
            point = 1;
            continue;
        }
        if (*text < '0' || *text > '9')
            return -1;
        sum = sum * 10 + (*text - '0');
        unit = point ? unit * 10 : unit;
        digits++;
    }
    if (digits == 0 || digits > 30)
        return -1;
    *value = sum / unit;
    return 0;
}

static int check_rule(const struct weft_xml_element *element, const struct rule *rule, const char *value)
{
    int64_t integer;
    uint64_t magnitude;
    double decimal;
    if (!value)
        return !(rule->flags & NEEDED) ? WEFT_OK
                                       : weft_xml_fail(element, "<%s> has no %s", element->name, rule->name);
    switch (rule->value) {
    case VALUE_INTEGER:
        return weft_xml_integer(element, rule->name, rule->min, (int64_t)rule->max, 0, &integer);
    case VALUE_UNSIGNED:
        return weft_xml_unsigned(element, rule->name, rule->max, 0, &magnitude);
    case VALUE_DECIMAL:
        return weft_nccl_decimal(value, &decimal) == 0
                   ? WEFT_OK
                   : weft_xml_fail(element, "<%s> has %s=\"%.64s\", expected a number such as 1.5",
                                   element->name, rule->name, value);
    case VALUE_MASK:
        return value[strspn(value, "0123456789abcdefABCDEFx,")] == '\0'
                   ? WEFT_OK
                   : weft_xml_fail(
                         element,
                         "<%s> has %s=\"%.64s\", expected hexadecimal words such as 00000000,000000ff",
                         element->name, rule->name, value);
    case VALUE_TEXT:
        break;
    }
    return WEFT_OK;
}

int weft_nccl_check(struct weft_nccl_file *file, uint32_t element)
{
    struct weft_xml_element view = weft_xml_tree_element(&file->tree, element);
    int status = WEFT_OK;
    for (size_t i = 0; i < sizeof rules / sizeof *rules && status == WEFT_OK; i++) {
        const struct rule *rule = &rules[i];
        if (rule->kind != file->marks[element].kind)
            continue;
        const char *value = weft_xml_attribute(&view, rule->name);
        int is_empty = value && !*value && !(rule->flags & NEEDED);
        if (is_empty && (rule->value != VALUE_TEXT || rule->flags & NOT_EMPTY))
            weft_nccl_odd(file, WEFT_NCCL_ODD_EMPTY, (uint32_t)view.line,
                          "<%s> has an empty %s, taken as unknown", view.name, rule->name);
        else
            status = check_rule(&view, rule, value);
    }
    return status;
}

/* NVIDIA's whitepapers of the architectures tell the total of both directions and the number of links: P100 160 GB/s
 * over 4, V100 300 over 6, Turing's TU102 100 over 2, A100 600 over 12, GA102 112.5 over 4, H100 900 over 18, Blackwell
 * 1800 over 18. */
uint64_t weft_nccl_nvlink_bytes_per_s(int64_t sm)
{
    static const struct {
        int sm;
        uint64_t bytes_per_s;
    } rates[] = {
        {60, 20000000000u}, {70, 25000000000u}, {75, 25000000000u},  {80, 25000000000u},
        {86, 14062500000u}, {90, 25000000000u}, {100, 50000000000u}, {103, 50000000000u},
    };
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        if (rates[i].sm == sm)
            return rates[i].bytes_per_s;
    }
    return 0;
}

/* AMD's data sheets tell both directions of one link: MI100 92 GB/s, MI200 100, MI300 128, MI350 153.6. gfx906 is both
 * MI50 and MI60, whose links differ. RCCL calls gfx90a 910 in older files. */
uint64_t weft_nccl_xgmi_bytes_per_s(const char *gcn)
{
    static const struct {
        const char *gcn;
        uint64_t bytes_per_s;
    } rates[] = {
        {"908", 46000000000u}, {"90a", 50000000000u}, {"910", 50000000000u}, {"940", 64000000000u},
        {"941", 64000000000u}, {"942", 64000000000u}, {"950", 76800000000u},
    };
    if (!gcn)
        return 0;
    if (strncmp(gcn, "gfx", 3) == 0)
        gcn += 3;
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        if (strcmp(rates[i].gcn, gcn) == 0)
            return rates[i].bytes_per_s;
    }
    return 0;
}
