/* SPDX-License-Identifier: Apache-2.0 */
/* Point-to-point messages in words: for deadlines and weft_comm_dump(). Nothing here moves anything. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "comm/p2p/internal.h"

#define LINES_MAX 16 /* of each kind */

void weft_p2p_print_whom(int32_t rank, int64_t tag, int space, char *text, size_t capacity)
{
    const char *own = space == WEFT_SPACE_INTERNAL ? ", weft's own" : "";
    int used = rank == WEFT_MATCH_ANY ? snprintf(text, capacity, "any rank, ")
                                      : snprintf(text, capacity, "rank %d, ", rank);
    size_t room = (size_t)used < capacity ? capacity - (size_t)used : 0;
    if (tag == WEFT_MATCH_ANY)
        snprintf(room ? text + used : NULL, room, "any tag%s", own);
    else
        snprintf(room ? text + used : NULL, room, "tag %" PRId64 "%s", tag, own);
}

int weft_request_print(const struct weft_request *request, char *text, size_t capacity)
{
    char whom[96], label[WEFT_LABEL_BYTES + 4] = "";
    weft_p2p_print_whom(request->peer, request->tag, request->space, whom, sizeof whom);
    if (request->label)
        snprintf(label, sizeof label, " '%s'", request->label);
    if (request->sends)
        return snprintf(text, capacity, "send%s of %zu bytes to %s", label, request->bytes, whom);
    if (request->found < 0)
        return snprintf(text, capacity, "receive%s of at most %zu bytes from %s", label, request->bytes,
                        whom);
    weft_p2p_print_whom(request->found, request->found_tag, request->space, whom, sizeof whom);
    return snprintf(text, capacity, "receive%s of %" PRIu64 " bytes from %s", label, request->found_bytes,
                    whom);
}

static const char *state_of(const struct weft_request *request)
{
    switch (request->state) {
    case WEFT_REQUEST_QUEUED:
        return weft_request_is_held(request) ? "waits for the stream that the call was made on"
                                             : "waits for room in the link";
    case WEFT_REQUEST_HELD:
        return "matched, waits for the stream that the call was made on";
    case WEFT_REQUEST_ANNOUNCED:
    case WEFT_REQUEST_LOCAL:
        return "waits for a receive";
    case WEFT_REQUEST_POSTED:
        return "waits for a message";
    case WEFT_REQUEST_TURN:
        return request->is_taken ? "received, waits for room in the link to say so"
                                 : "matched, waits for its turn";
    default:
        return "on its way";
    }
}

/* Appends like snprintf() at *used. */
static void add(char *text, size_t capacity, size_t *used, const char *line)
{
    size_t room = *used < capacity ? capacity - *used : 0;
    *used += (size_t)snprintf(room ? text + *used : NULL, room, "%s\n", line);
}

size_t weft_p2p_bytes(const struct weft_p2p *p2p)
{
    size_t bytes = sizeof *p2p;
    bytes += p2p->peers ? p2p->options.ranks * sizeof(struct weft_p2p_peer *) : 0;
    for (uint32_t r = 0; r < p2p->options.ranks && p2p->peers; r++)
        if (p2p->peers[r])
            bytes += sizeof *p2p->peers[r];
    for (int space = WEFT_SPACE_USER; space <= WEFT_SPACE_INTERNAL; space++) {
        const struct weft_arrived *arrived = NULL;
        while ((arrived = weft_match_next(&p2p->match, space, arrived))) {
            const struct weft_p2p_arrived *message = (const struct weft_p2p_arrived *)arrived;
            size_t kept = message->is_offered ? sizeof(struct weft_token) : 0;
            bytes += sizeof *message + (message->id || message->sender ? kept : message->bytes);
        }
    }
    return bytes;
}

/* Those of a space, after number others. Returns how many there are then. */
static size_t dump_unexpected(const struct weft_p2p *p2p, int space, size_t number, char *text,
                              size_t capacity, size_t *used)
{
    char line[256], whom[96];
    const struct weft_arrived *arrived = NULL;
    while ((arrived = weft_match_next(&p2p->match, space, arrived))) {
        const struct weft_p2p_arrived *message = (const struct weft_p2p_arrived *)arrived;
        if (number++ >= LINES_MAX)
            continue;
        weft_p2p_print_whom(arrived->source, arrived->tag, space, whom, sizeof whom);
        snprintf(line, sizeof line, "  unexpected: %" PRIu64 " bytes from %s%s", message->bytes, whom,
                 message->id ? ", announced" : "");
        add(text, capacity, used, line);
    }
    return number;
}

size_t weft_p2p_dump(struct weft_p2p *p2p, char *text, size_t capacity)
{
    size_t used = 0, requests = 0, messages = 0;
    char line[256], what[160];
    int64_t now_ns = weft_clock_ns();
    for (struct weft_request *request = p2p->head; request; request = request->next) {
        if (!request->since_ns)
            request->since_ns = now_ns;
        if (requests++ >= LINES_MAX)
            continue;
        weft_request_print(request, what, sizeof what);
        snprintf(line, sizeof line, "  %s: %s", what, state_of(request));
        add(text, capacity, &used, line);
    }
    if (requests > LINES_MAX) {
        snprintf(line, sizeof line, "  and %zu more sends and receives", requests - LINES_MAX);
        add(text, capacity, &used, line);
    }
    for (int space = WEFT_SPACE_USER; space <= WEFT_SPACE_INTERNAL; space++)
        messages = dump_unexpected(p2p, space, messages, text, capacity, &used);
    if (messages > LINES_MAX) {
        snprintf(line, sizeof line, "  and %zu more unexpected messages", messages - LINES_MAX);
        add(text, capacity, &used, line);
    }
    return used;
}

int weft_p2p_look(const struct weft_p2p *p2p, int32_t source, int64_t tag, int space, int32_t *found,
                  int64_t *found_tag, uint64_t *bytes)
{
    const struct weft_arrived *arrived = weft_match_find(&p2p->match, space, source, tag);
    if (!arrived)
        return WEFT_AGAIN;
    *found = arrived->source;
    *found_tag = arrived->tag;
    *bytes = ((const struct weft_p2p_arrived *)arrived)->bytes;
    return WEFT_OK;
}
