/* SPDX-License-Identifier: Apache-2.0 */
/* The demanding test provider: settings, fabric, domain, memory, address vectors, completion queues. */
#include "tests/fakes/provider/provider.h"

#include <dlfcn.h>
#include <pthread.h>
#include <rdma/providers/fi_prov.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tp_settings tp_settings;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t random_state;

void tp_lock(void)
{
    pthread_mutex_lock(&lock);
}

void tp_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

uint32_t tp_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

void tp_violation(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "test provider: VIOLATION: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    abort();
}

static void read_settings(void)
{
    const struct {
        const char *name;
        int *flag;
        uint32_t *number;
    } words[] = {
        {"context2", &tp_settings.context2, NULL},   {"prefix", &tp_settings.prefix, NULL},
        {"rx_data", &tp_settings.rx_data, NULL},     {"local", &tp_settings.local, NULL},
        {"virt_addr", &tp_settings.virt_addr, NULL}, {"prov_key", &tp_settings.prov_key, NULL},
        {"allocated", &tp_settings.allocated, NULL}, {"endpoint", &tp_settings.endpoint, NULL},
        {"tagged", &tp_settings.tagged, NULL},       {"unordered", &tp_settings.unordered, NULL},
        {"hmem", &tp_settings.hmem, NULL},           {"manual", &tp_settings.manual, NULL},
        {"delay=", NULL, &tp_settings.delay},        {"storm=", NULL, &tp_settings.storm},
        {"depth=", NULL, &tp_settings.depth},        {"inject=", NULL, &tp_settings.inject},
        {"message=", NULL, &tp_settings.message},    {"seed=", NULL, &tp_settings.seed},
        {"memlock=", NULL, &tp_settings.memlock},
    };
    memset(&tp_settings, 0, sizeof tp_settings);
    tp_settings.depth = 64;
    tp_settings.inject = 64;
    tp_settings.message = 1u << 20;
    tp_settings.seed = 1;
    char text[256];
    const char *value = getenv("WEFT_TEST_PROVIDER");
    snprintf(text, sizeof text, "%s", value ? value : "");
    char *rest = NULL;
    for (char *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        size_t i = 0, count = sizeof words / sizeof words[0];
        while (i < count && (words[i].flag ? strcmp(word, words[i].name) != 0
                                           : strncmp(word, words[i].name, strlen(words[i].name)) != 0))
            i++;
        if (i == count)
            tp_violation("unknown setting %s", word);
        if (words[i].flag)
            *words[i].flag = 1;
        else
            *words[i].number = (uint32_t)strtoul(word + strlen(words[i].name), NULL, 10);
    }
    random_state = tp_settings.seed * 2654435761u | 1;
}

/* Whether what we require is among what the caller can do. */
static int demands_met(const struct fi_info *hints, uint64_t mode, int mr_mode)
{
    if (!hints->fabric_attr || !hints->fabric_attr->prov_name ||
        strcmp(hints->fabric_attr->prov_name, TP_NAME) != 0)
        return 0;
    if (mode & ~hints->mode)
        return 0;
    if (mr_mode & ~(hints->domain_attr ? hints->domain_attr->mr_mode : 0))
        return 0;
    if (hints->ep_attr && hints->ep_attr->type != FI_EP_UNSPEC && hints->ep_attr->type != FI_EP_RDM)
        return 0;
    return !(tp_settings.tagged && (hints->caps & FI_RMA));
}

static int get_info(uint32_t version, const char *node, const char *service, uint64_t flags,
                    const struct fi_info *hints, struct fi_info **result)
{
    (void)version, (void)node, (void)service, (void)flags;
    read_settings();
    const struct tp_settings *s = &tp_settings;
    uint64_t mode =
        (s->context2 ? FI_CONTEXT2 : 0) | (s->prefix ? FI_MSG_PREFIX : 0) | (s->rx_data ? FI_RX_CQ_DATA : 0);
    int mr_mode = (s->local ? FI_MR_LOCAL : 0) | (s->virt_addr ? FI_MR_VIRT_ADDR : 0) |
                  (s->prov_key ? FI_MR_PROV_KEY : 0) | (s->allocated ? FI_MR_ALLOCATED : 0) |
                  (s->endpoint ? FI_MR_ENDPOINT : 0);
    if (!hints || !demands_met(hints, mode, mr_mode))
        return -FI_ENODATA;
    struct fi_info *info = fi_dupinfo(NULL);
    if (!info)
        return -FI_ENOMEM;
    uint64_t order = s->unordered ? 0 : FI_ORDER_SAS | FI_ORDER_SAW | FI_ORDER_WAS | FI_ORDER_WAW;
    info->caps = hints->caps | FI_SEND | FI_RECV;
    info->mode = info->tx_attr->mode = info->rx_attr->mode = mode;
    info->addr_format = FI_ADDR_STR;
    info->tx_attr->caps = info->rx_attr->caps = info->caps;
    info->tx_attr->msg_order = info->rx_attr->msg_order = order;
    info->tx_attr->comp_order = info->rx_attr->comp_order = s->unordered ? 0 : FI_ORDER_STRICT;
    info->tx_attr->inject_size = s->inject;
    info->tx_attr->size = info->rx_attr->size = s->depth;
    info->tx_attr->iov_limit = info->rx_attr->iov_limit = 2;
    info->tx_attr->rma_iov_limit = 1;
    info->ep_attr->type = FI_EP_RDM;
    info->ep_attr->protocol = 0x80000001u;
    info->ep_attr->max_msg_size = s->message;
    info->ep_attr->msg_prefix_size = s->prefix ? TP_PREFIX : 0;
    info->domain_attr->name = strdup(TP_NAME);
    info->domain_attr->threading = FI_THREAD_SAFE;
    info->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    info->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    info->domain_attr->resource_mgmt = FI_RM_ENABLED;
    info->domain_attr->av_type = FI_AV_TABLE;
    info->domain_attr->mr_mode = mr_mode;
    info->domain_attr->mr_key_size = 8;
    info->domain_attr->cq_data_size = 4;
    info->domain_attr->caps = FI_LOCAL_COMM;
    info->fabric_attr->name = strdup(TP_NAME);
    *result = info;
    return 0;
}

static int unsupported_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    (void)fid, (void)other, (void)flags;
    return -FI_ENOSYS;
}

static int unsupported_control(struct fid *fid, int command, void *arg)
{
    (void)fid, (void)command, (void)arg;
    return -FI_ENOSYS;
}

static int has_key(const struct tp_domain *domain, uint64_t key)
{
    for (const struct tp_mr *mr = domain->regions; mr; mr = mr->next) {
        if (mr->fid.key == key)
            return 1;
    }
    return 0;
}

static int mr_close(struct fid *fid)
{
    struct tp_mr *mr = (struct tp_mr *)fid;
    tp_lock();
    if (tp_endpoint_uses(mr))
        tp_violation("a registration is closed while an operation uses it");
    struct tp_mr **at = &mr->domain->regions;
    while (*at != mr)
        at = &(*at)->next;
    *at = mr->next;
    mr->domain->registered -= mr->size;
    mr->domain->children--;
    tp_unlock();
    free(mr);
    return 0;
}

static int mr_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    (void)flags;
    ((struct tp_mr *)fid)->ep = (struct tp_ep *)other;
    return 0;
}

static int mr_control(struct fid *fid, int command, void *arg)
{
    struct tp_mr *mr = (struct tp_mr *)fid;
    (void)arg;
    if (command != FI_ENABLE)
        return -FI_ENOSYS;
    if (!mr->ep || !mr->ep->enabled)
        tp_violation("a registration is enabled before it is bound to an enabled endpoint");
    mr->enabled = 1;
    return 0;
}

static struct fi_ops mr_ops = {
    .size = sizeof mr_ops, .close = mr_close, .bind = mr_bind, .control = mr_control};

int tp_mr_open(struct fid *fid, const void *memory, size_t size, uint64_t access, uint64_t offset,
               uint64_t key, uint64_t flags, struct fid_mr **result, void *context)
{
    struct tp_domain *domain = (struct tp_domain *)fid;
    (void)offset, (void)flags;
    if (!memory || !size || !access)
        tp_violation("registering %zu bytes at %p with access %llx", size, memory,
                     (unsigned long long)access);
    struct tp_mr *mr = calloc(1, sizeof *mr);
    if (!mr)
        return -FI_ENOMEM;
    tp_lock();
    if (tp_settings.memlock && domain->registered + size > tp_settings.memlock) {
        tp_unlock();
        free(mr);
        return -FI_ENOMEM;
    }
    if (tp_settings.prov_key) {
        key = domain->next_key += 0x1003;
    } else if (has_key(domain, key)) {
        tp_unlock();
        free(mr);
        return -FI_ENOKEY;
    }
    if (domain->issued_count == domain->issued_capacity) {
        domain->issued_capacity = domain->issued_capacity * 2 + 64;
        domain->issued = realloc(domain->issued, domain->issued_capacity * sizeof *domain->issued);
        if (!domain->issued)
            abort();
    }
    domain->issued[domain->issued_count++] = key;
    mr->fid.fid = (struct fid){FI_CLASS_MR, context, &mr_ops};
    mr->fid.mem_desc = mr;
    mr->fid.key = key;
    mr->domain = domain;
    mr->memory = mr->reached = (uint8_t *)(uintptr_t)memory;
    mr->size = size;
    mr->access = access;
    mr->enabled = !tp_settings.endpoint;
    mr->next = domain->regions;
    domain->regions = mr;
    domain->registered += size;
    domain->children++;
    tp_unlock();
    *result = &mr->fid;
    return 0;
}

/* Where the fake driver of Level Zero has the memory, of the device of that number in the list of its first driver; NULL. */
static uint8_t *reach_device(const void *memory, size_t size, int *number)
{
    const char *path = getenv("ZE_ENABLE_ALT_DRIVERS");
    void *driver = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
    void *found = driver ? dlsym(driver, "ze_fake_nic_reach") : NULL;
    uint8_t *(*reach)(const void *, size_t, int *);
    if (driver)
        dlclose(driver); /* others have it loaded */
    memcpy(&reach, &found, sizeof reach);
    return reach ? reach(memory, size, number) : NULL;
}

static int mr_open_by_attr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                           struct fid_mr **result)
{
    const struct iovec *place = attr->mr_iov;
    uint8_t *reached = place->iov_base;
    int number = 0;
    if (attr->iface != FI_HMEM_SYSTEM && (!tp_settings.hmem || attr->iface != FI_HMEM_ZE))
        return -FI_ENOSYS;
    if (attr->iov_count != 1 || flags)
        tp_violation("registering %zu places with flags %llx", attr->iov_count, (unsigned long long)flags);
    if (attr->iface == FI_HMEM_ZE && !(reached = reach_device(place->iov_base, place->iov_len, &number)))
        tp_violation("%zu bytes at %p belong to no device", place->iov_len, place->iov_base);
    if (attr->iface == FI_HMEM_ZE && attr->device.ze != number)
        tp_violation("what device %d has is registered as what device %d has", number, attr->device.ze);
    int error = tp_mr_open(fid, place->iov_base, place->iov_len, attr->access, attr->offset,
                           attr->requested_key, flags, result, attr->context);
    if (!error)
        ((struct tp_mr *)*result)->reached = reached;
    return error;
}

static struct fi_ops_mr domain_mr_ops = {
    .size = sizeof domain_mr_ops, .reg = tp_mr_open, .regattr = mr_open_by_attr};

static int av_close(struct fid *fid)
{
    struct tp_av *av = (struct tp_av *)fid;
    av->domain->children--;
    free(av->peers);
    free(av);
    return 0;
}

static int av_insert(struct fid_av *fid, const void *address, size_t count, fi_addr_t *numbers,
                     uint64_t flags, void *context)
{
    struct tp_av *av = (struct tp_av *)fid;
    unsigned long long number;
    (void)flags, (void)context;
    if (count != 1 || sscanf(address, TP_NAME "://%llu", &number) != 1)
        return 0;
    tp_lock();
    uint64_t *peers = realloc(av->peers, (av->count + 1) * sizeof *peers);
    if (!peers)
        abort();
    av->peers = peers;
    peers[av->count] = number;
    *numbers = av->count++;
    tp_unlock();
    return 1;
}

static int av_remove(struct fid_av *fid, fi_addr_t *numbers, size_t count, uint64_t flags)
{
    (void)flags;
    if (count != 1 || *numbers >= ((struct tp_av *)fid)->count)
        tp_violation("removing an address that is not there");
    ((struct tp_av *)fid)->peers[*numbers] = 0;
    return 0;
}

static struct fi_ops av_fid_ops = {
    .size = sizeof av_fid_ops, .close = av_close, .bind = unsupported_bind, .control = unsupported_control};
static struct fi_ops_av av_ops = {.size = sizeof av_ops, .insert = av_insert, .remove = av_remove};

static int av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **result, void *context)
{
    struct tp_av *av = calloc(1, sizeof *av);
    (void)attr;
    if (!av)
        return -FI_ENOMEM;
    av->fid.fid = (struct fid){FI_CLASS_AV, context, &av_fid_ops};
    av->fid.ops = &av_ops;
    av->domain = (struct tp_domain *)domain;
    av->domain->children++;
    *result = &av->fid;
    return 0;
}

void tp_complete(struct tp_cq *cq, void *context, uint64_t flags, size_t size, uint64_t data, int error)
{
    struct tp_completion *completion = calloc(1, sizeof *completion);
    if (!completion)
        abort();
    completion->entry.op_context = context;
    completion->entry.flags = flags;
    completion->entry.len = size;
    completion->entry.data = data;
    completion->entry.err = error;
    struct tp_completion **at = error ? &cq->bad : &cq->good;
    while (*at && !(tp_settings.unordered && tp_random() % 4 == 0))
        at = &(*at)->next;
    completion->next = *at;
    *at = completion;
}

static ssize_t cq_read(struct fid_cq *fid, void *entries, size_t count)
{
    struct tp_cq *cq = (struct tp_cq *)fid;
    struct fi_cq_data_entry *out = entries;
    size_t used = 0;
    tp_lock();
    tp_progress(cq->ep);
    if (cq->bad) {
        tp_unlock();
        return -FI_EAVAIL;
    }
    while (used < count && cq->good) {
        struct tp_completion *completion = cq->good;
        cq->good = completion->next;
        out[used++] = (struct fi_cq_data_entry){.op_context = completion->entry.op_context,
                                                .flags = completion->entry.flags,
                                                .len = completion->entry.len,
                                                .data = completion->entry.data};
        free(completion);
    }
    tp_unlock();
    return used ? (ssize_t)used : -FI_EAGAIN;
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *entry, uint64_t flags)
{
    struct tp_cq *cq = (struct tp_cq *)fid;
    (void)flags;
    tp_lock();
    struct tp_completion *completion = cq->bad;
    if (completion) {
        cq->bad = completion->next;
        *entry = completion->entry;
        free(completion);
    }
    tp_unlock();
    return completion ? 1 : -FI_EAGAIN;
}

static const char *cq_strerror(struct fid_cq *fid, int error, const void *data, char *text, size_t size)
{
    (void)fid, (void)error, (void)data;
    snprintf(text, size, "as the test wants it");
    return text;
}

static int cq_close(struct fid *fid)
{
    struct tp_cq *cq = (struct tp_cq *)fid;
    if (cq->ep)
        tp_violation("a completion queue is closed before its endpoint");
    while (cq->good || cq->bad) {
        struct tp_completion **list = cq->good ? &cq->good : &cq->bad;
        struct tp_completion *completion = *list;
        *list = completion->next;
        free(completion);
    }
    cq->domain->children--;
    free(cq);
    return 0;
}

static struct fi_ops cq_fid_ops = {
    .size = sizeof cq_fid_ops, .close = cq_close, .bind = unsupported_bind, .control = unsupported_control};
static struct fi_ops_cq cq_ops = {
    .size = sizeof cq_ops, .read = cq_read, .readerr = cq_readerr, .strerror = cq_strerror};

static int cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **result, void *context)
{
    if (attr->wait_obj != FI_WAIT_NONE)
        return -FI_ENOSYS;
    if (attr->format != FI_CQ_FORMAT_DATA)
        tp_violation("this provider only knows FI_CQ_FORMAT_DATA");
    struct tp_cq *cq = calloc(1, sizeof *cq);
    if (!cq)
        return -FI_ENOMEM;
    cq->fid.fid = (struct fid){FI_CLASS_CQ, context, &cq_fid_ops};
    cq->fid.ops = &cq_ops;
    cq->domain = (struct tp_domain *)domain;
    cq->domain->children++;
    *result = &cq->fid;
    return 0;
}

static int domain_close(struct fid *fid)
{
    struct tp_domain *domain = (struct tp_domain *)fid;
    if (domain->children)
        tp_violation("a domain is closed with %d things open in it", domain->children);
    domain->fabric->children--;
    free(domain->issued);
    free(domain);
    return 0;
}

static struct fi_ops domain_fid_ops = {.size = sizeof domain_fid_ops,
                                       .close = domain_close,
                                       .bind = unsupported_bind,
                                       .control = unsupported_control};
static struct fi_ops_domain domain_ops = {
    .size = sizeof domain_ops, .av_open = av_open, .cq_open = cq_open, .endpoint = tp_endpoint_open};

static int domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **result,
                       void *context)
{
    struct tp_domain *domain = calloc(1, sizeof *domain);
    (void)info;
    if (!domain)
        return -FI_ENOMEM;
    domain->fid.fid = (struct fid){FI_CLASS_DOMAIN, context, &domain_fid_ops};
    domain->fid.ops = &domain_ops;
    domain->fid.mr = &domain_mr_ops;
    domain->fabric = (struct tp_fabric *)fabric;
    domain->fabric->children++;
    *result = &domain->fid;
    return 0;
}

static int fabric_close(struct fid *fid)
{
    if (((struct tp_fabric *)fid)->children)
        tp_violation("a fabric is closed with a domain open in it");
    free(fid);
    return 0;
}

static struct fi_ops fabric_fid_ops = {.size = sizeof fabric_fid_ops,
                                       .close = fabric_close,
                                       .bind = unsupported_bind,
                                       .control = unsupported_control};
static struct fi_ops_fabric fabric_ops = {.size = sizeof fabric_ops, .domain = domain_open};

static int fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **result, void *context)
{
    struct tp_fabric *fabric = calloc(1, sizeof *fabric);
    (void)attr;
    if (!fabric)
        return -FI_ENOMEM;
    fabric->fid.fid = (struct fid){FI_CLASS_FABRIC, context, &fabric_fid_ops};
    fabric->fid.ops = &fabric_ops;
    fabric->fid.api_version = FI_VERSION(1, 17);
    *result = &fabric->fid;
    return 0;
}

static void cleanup(void)
{
}

static struct fi_provider provider = {
    .version = FI_VERSION(1, 0),
    .fi_version = FI_VERSION(1, 17),
    .name = TP_NAME,
    .getinfo = get_info,
    .fabric = fabric_open,
    .cleanup = cleanup,
};

__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void);

struct fi_provider *fi_prov_ini(void)
{
    return &provider;
}
