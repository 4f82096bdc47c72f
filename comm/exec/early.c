/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for messages that must be kept. */
#include <stdlib.h>
#include <string.h>

#include "comm/exec/internal.h"

struct weft_early *weft_early_copy(const struct weft_wire_header *header, const void *payload)
{
    struct weft_early *early = malloc(sizeof *early + sizeof *header + header->size);
    if (!early)
        return NULL;
    memcpy(early->data, header, sizeof *header);
    memcpy((uint8_t *)early->data + sizeof *header, payload, header->size);
    early->next = NULL;
    return early;
}

void weft_early_free_list(struct weft_early *list)
{
    while (list) {
        struct weft_early *next = list->next;
        free(list);
        list = next;
    }
}
