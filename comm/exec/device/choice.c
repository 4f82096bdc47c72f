/* SPDX-License-Identifier: Apache-2.0 */
/* Which way pays: as a device collective, or the ordinary one.
 *
 * For each collective and power of two of its size every rank measures how long operations take from the decision to their
 * end, in either way, and says it with its vote. A way costs what it costs the slowest rank. How often a size has been decided is the
 * same at all ranks, and so are the figures that a decision is made with: those of the votes. So is the choice.
 *
 *   the first TRIES decisions are for a device collective, the next for the plan; then the better way is taken;
 *   when it has been taken often enough the other one is tried again. While plans are better there is a vote
 *   only every PAUSE operations, as it costs time itself.
 *
 * A figure is the best that was measured; one that is worse counts for an eighth, so that it follows when things change.
 *
 * A vote that is answered with no costs time, too. The numbers of operations are taken in rounds of ROUND. After a round with such a
 * vote for a size there are none before the next round whose number is a multiple of two, after two of them without a decision of four,
 * and so on. From there on they are voted for again: the size may not occur in that round. Ranks that count differently meet at the latest
 * from a multiple of the highest power on. A round is had to its end, whatever comes of its first votes: operations that cannot be device collectives
 * may take turns with others of their size, and be the first ones in every round. Then each round costs some votes in vain.
 */
#include "base/log.h"
#include "comm/exec/device/votes.h"

#define TRIES            3
#define LOOK_COLLECTIVES 64 /* decisions for a device collective until a plan is tried again */
#define LOOK_PLANS       4
#define PAUSE            64
#define ROUND            16
#define REFUSALS_MAX     6

static size_t bytes_of(const struct weft_exec_op *op)
{
    const struct weft_plan *plan = op->request.plan;
    int blocks = weft_collective_blocks((enum weft_collective)plan->collective);
    return op->request.count * op->request.element_bytes * (blocks ? plan->ranks : 1);
}

static uint32_t log_of(size_t bytes)
{
    uint32_t log = bytes ? 63 - (uint32_t)__builtin_clzll(bytes) : 0;
    return log < WEFT_DEVICE_COLLECTIVE_CLASSES ? log : WEFT_DEVICE_COLLECTIVE_CLASSES - 1;
}

struct weft_device_collective_class *weft_device_collective_class_of(const struct weft_exec_op *op)
{
    return &op->exec->collectives->classes[op->request.plan->collective][log_of(bytes_of(op))];
}

/* Rounds end at the 2^32 of operations. */
static int is_before(uint32_t round, uint32_t other)
{
    return (int32_t)(round * ROUND - other * ROUND) < 0;
}

/* The first one in which there are votes again. */
static uint32_t resume_round(const struct weft_device_collective_class *class)
{
    return (class->refused_round | ((1u << class->refusals) - 1)) + 1;
}

int weft_device_collective_class_votes(const struct weft_exec_op *op)
{
    const struct weft_device_collective_class *class = weft_device_collective_class_of(op);
    uint32_t round = op->sequence / ROUND;
    if (op->exec->options.collectives.mode == WEFT_DEVICE_COLLECTIVE_ALWAYS)
        return 1;
    if (class->refusals && round != class->refused_round && is_before(round, resume_round(class)))
        return 0;
    return !class->pauses || (int32_t)(op->sequence - class->resume) >= 0;
}

void weft_device_collective_refused(const struct weft_exec_op *op)
{
    struct weft_device_collective_class *class = weft_device_collective_class_of(op);
    uint32_t round = op->sequence / ROUND;
    if (class->refusals && round == class->refused_round)
        return;
    class->refused_round = round;
    class->refusals += class->refusals < REFUSALS_MAX;
}

/* Of all ranks; 0: one does not know. */
static uint32_t worst(const struct weft_exec_op *op, enum weft_device_collective_way way)
{
    uint32_t most = 0;
    for (uint32_t r = 0; r < op->exec->options.ranks; r++) {
        uint32_t cost_ns = op->ballot->votes[r].cost_ns[way];
        if (!cost_ns)
            return 0;
        most = cost_ns > most ? cost_ns : most;
    }
    return most;
}

static void say(const struct weft_exec_op *op, const struct weft_device_collective_class *class,
                uint32_t plan_ns, uint32_t collective_ns)
{
    const char *name = weft_collective_name((enum weft_collective)op->request.plan->collective);
    weft_log(WEFT_LOG_INFO,
             "%s of %zu to %zu bytes on %s devices: %s (a device collective takes %.1f us, a plan %.1f us)",
             name, (size_t)1 << log_of(bytes_of(op)), ((size_t)2 << log_of(bytes_of(op))) - 1,
             weft_command_queue_kind(op->request.commands)->name,
             class->way == WEFT_WAY_COLLECTIVE ? "as a device collective" : "by its plan",
             (double)collective_ns / 1000, (double)plan_ns / 1000);
}

/* The better way, when both are known. */
static void settle(const struct weft_exec_op *op, struct weft_device_collective_class *class)
{
    uint32_t plan_ns = worst(op, WEFT_WAY_PLAN), collective_ns = worst(op, WEFT_WAY_COLLECTIVE);
    if (!plan_ns || !collective_ns)
        return;
    uint8_t way = collective_ns <= plan_ns ? WEFT_WAY_COLLECTIVE : WEFT_WAY_PLAN;
    int is_new = !class->is_settled || way != class->way;
    class->way = way;
    class->is_settled = 1;
    if (is_new && op->exec->options.rank == 0)
        say(op, class, plan_ns, collective_ns);
}

enum weft_device_collective_way weft_device_collective_choose(struct weft_exec_op *op)
{
    struct weft_device_collective_class *class = weft_device_collective_class_of(op);
    if (op->exec->options.collectives.mode == WEFT_DEVICE_COLLECTIVE_ALWAYS)
        return WEFT_WAY_COLLECTIVE;
    class->refusals = 0;
    if (class->decided < 2 * TRIES)
        return class->decided++ < TRIES ? WEFT_WAY_COLLECTIVE : WEFT_WAY_PLAN;
    settle(op, class);
    class->pauses = class->way == WEFT_WAY_PLAN;
    class->resume = op->sequence + PAUSE;
    if (++class->since_look < (class->pauses ? LOOK_PLANS : LOOK_COLLECTIVES))
        return (enum weft_device_collective_way) class->way;
    class->since_look = 0;
    return class->pauses ? WEFT_WAY_COLLECTIVE : WEFT_WAY_PLAN;
}

void weft_device_collective_learn(struct weft_exec_op *op, int64_t ns)
{
    uint32_t *known = &weft_device_collective_class_of(op)->cost_ns[op->ballot->way];
    uint32_t now = ns < 1 ? 1 : ns > INT32_MAX ? INT32_MAX : (uint32_t)ns;
    *known = !*known || now < *known ? now : *known + (now - *known) / 8;
}
