#include "devmem/lane.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "devmem/lane_surplus.h"

#define IDLE_MAX    16                  /* lanes kept for the next operation; devices that are remembered */
#define MEMORY_MAX  ((size_t)256 << 20) /* device memory that they keep together */
#define DESTROY_MS  1000
#define NOTES_BEGIN 32

/* A mark of the queue's and the notes before it. */
struct mark {
    struct weft_device_event *event;
    uint32_t end; /* number of the first note that is not its */
};

/* Memory to give back when the work is done. */
struct kept {
    struct kept *next;
    weft_lane_release *release;
    void *arg;
    uint32_t index;
    void *memory;
    size_t size;
};

struct weft_lane {
    struct weft_lanes *lanes;
    struct weft_lane *next; /* idle or set aside */
    const struct weft_device_kind *kind;
    int ordinal, status;
    struct weft_device_queue *queue;
    struct weft_device_gate *gate; /* closed; NULL: none */
    int has_work;                  /* queued since the last mark */
    int is_blind; /* no mark can be made: only closing the queue tells when its work has ended */
    /* Rings: numbers count up, their places are number % capacity. */
    struct weft_lane_note *notes;
    uint32_t notes_capacity, first_note, due_note, next_note; /* [first, due) is due */
    struct mark *marks;
    uint32_t marks_capacity, first_mark, next_mark;
    uint32_t noted; /* notes that have a mark behind them */
    struct {
        void *memory;
        size_t bytes;
    } memory[WEFT_LANE_USES];
    struct kept *kept;
    char why[WEFT_DETAIL_MAX]; /* of status */
};

struct weft_lanes {
    struct weft_lane *idle, *aside;
    const struct weft_device_kind *known_kinds[IDLE_MAX]; /* devices that lanes have been opened on */
    int known_ordinals[IDLE_MAX];
    struct weft_lane_surplus *surplus, *retired;
    uint32_t idle_count, known_count;
    size_t idle_bytes; /* memory of the idle ones */
};

int weft_lanes_create(struct weft_lanes **lanes)
{
    *lanes = calloc(1, sizeof **lanes);
    return *lanes ? WEFT_OK : weft_fail(WEFT_NOMEM, "no memory for lanes");
}

static void release_kept(struct weft_lane *lane)
{
    while (lane->kept) {
        struct kept *kept = lane->kept;
        lane->kept = kept->next;
        kept->release(kept->arg, kept->index, kept->memory, kept->size);
        free(kept);
    }
}

static size_t memory_of(const struct weft_lane *lane)
{
    size_t bytes = 0;
    for (int use = 0; use < WEFT_LANE_USES; use++)
        bytes += lane->memory[use].bytes;
    return bytes;
}

static void release_use(struct weft_lane *lane, int use)
{
    if (lane->memory[use].bytes)
        weft_lane_surplus_add(&lane->lanes->surplus, lane->kind, lane->ordinal, lane->memory[use].memory,
                              lane->memory[use].bytes);
    lane->memory[use].bytes = 0;
}

static void release_memory(struct weft_lane *lane)
{
    for (int use = 0; use < WEFT_LANE_USES; use++)
        release_use(lane, use);
}

/* Of a lane that has failed nobody knows what is done; when its queue is closed, all is. */
static void close_lane(struct weft_lane *lane)
{
    for (uint32_t m = lane->first_mark; m != lane->next_mark; m++)
        lane->kind->ops.event_free(lane->marks[m % lane->marks_capacity].event);
    lane->kind->ops.queue_close(lane->queue);
    release_kept(lane);
    release_memory(lane);
    free(lane->notes);
    free(lane->marks);
    free(lane);
}

/* Remembers why; the text is weft_error_detail(). What failed first is why the rest does. */
static int fail(struct weft_lane *lane, int status)
{
    if (lane->status == WEFT_OK) {
        lane->status = status;
        memcpy(lane->why, weft_error_detail(), strlen(weft_error_detail()) + 1);
    }
    return status;
}

static int failed(const struct weft_lane *lane)
{
    return weft_fail(lane->status, "%s", lane->why);
}

/* The driver says what has happened; marks that have are let go. What was noted before work that has failed is not due. */
static int look(struct weft_lane *lane)
{
    while (lane->status == WEFT_OK && lane->first_mark != lane->next_mark) {
        struct mark *mark = &lane->marks[lane->first_mark % lane->marks_capacity];
        int happened = lane->kind->ops.test(mark->event);
        if (happened == 0)
            break;
        if (happened < 0)
            fail(lane, happened);
        else
            lane->due_note = mark->end;
        lane->kind->ops.event_free(mark->event);
        lane->first_mark++;
    }
    return lane->status;
}

static int has_ended(const struct weft_lane *lane)
{
    return lane->first_mark == lane->next_mark && (!lane->has_work || lane->is_blind);
}

int weft_lane_is_idle(const struct weft_lane *lane)
{
    return lane->first_mark == lane->next_mark && !lane->has_work && lane->first_note == lane->next_note;
}

/* A queue that has failed may still hold marks: all of them fail soon. */
static int look_to_the_end(struct weft_lane *lane)
{
    look(lane);
    while (lane->status != WEFT_OK && lane->first_mark != lane->next_mark) {
        struct mark *mark = &lane->marks[lane->first_mark % lane->marks_capacity];
        if (lane->kind->ops.test(mark->event) == 0)
            break;
        lane->kind->ops.event_free(mark->event);
        lane->first_mark++;
    }
    return has_ended(lane);
}

static void make_idle(struct weft_lane *lane)
{
    struct weft_lanes *lanes = lane->lanes;
    lane->first_note = lane->due_note = lane->next_note = lane->noted = 0;
    if (lane->status != WEFT_OK || lanes->idle_count >= IDLE_MAX) {
        close_lane(lane);
        return;
    }
    release_kept(lane);
    if (lanes->idle_bytes + memory_of(lane) > MEMORY_MAX)
        release_memory(lane);
    lanes->idle_bytes += memory_of(lane);
    lane->next = lanes->idle;
    lanes->idle = lane;
    lanes->idle_count++;
}

/* What was set aside and has ended meanwhile. */
static void reap(struct weft_lanes *lanes)
{
    char detail[WEFT_DETAIL_MAX];
    if (!lanes->aside)
        return;
    memcpy(detail, weft_error_detail(), strlen(weft_error_detail()) + 1);
    for (struct weft_lane **at = &lanes->aside, *lane; (lane = *at);) {
        if (!look_to_the_end(lane)) {
            at = &lane->next;
            continue;
        }
        *at = lane->next;
        make_idle(lane);
    }
    weft_error_set_detail(detail);
}

void weft_lanes_destroy(struct weft_lanes *lanes)
{
    if (!lanes)
        return;
    int64_t until_ns = weft_clock_ns() + (int64_t)DESTROY_MS * 1000000;
    for (reap(lanes); lanes->aside && weft_clock_ns() < until_ns; reap(lanes))
        sched_yield();
    while (lanes->idle) {
        struct weft_lane *lane = lanes->idle;
        lanes->idle = lane->next;
        close_lane(lane);
    }
    while (lanes->aside) {
        struct weft_lane *lane = lanes->aside;
        lanes->aside = lane->next;
        weft_log(WEFT_LOG_WARN, "work on %s device %d has not ended: its queue is left to the driver",
                 lane->kind->name, lane->ordinal);
        while (lane->kept) { /* what the work uses is not given back */
            struct kept *kept = lane->kept;
            lane->kept = kept->next;
            free(kept);
        }
        memset(lane->memory, 0, sizeof lane->memory);
        close_lane(lane);
    }
    weft_lane_surplus_end(&lanes->surplus);
    weft_lane_surplus_end(&lanes->retired);
    free(lanes);
}

/* Doubles a ring whose entries [first, next) stay. NULL: no memory, which has been said. */
static void *grow(void *ring, uint32_t *capacity, uint32_t first, uint32_t next, size_t entry_bytes)
{
    uint32_t old = *capacity, grown = old ? 2 * old : NOTES_BEGIN;
    char *made = malloc(grown * entry_bytes);
    if (!made) {
        weft_fail(WEFT_NOMEM, "no memory for %u notes of a device's work", grown);
        return NULL;
    }
    for (uint32_t n = first; n != next; n++)
        memcpy(made + n % grown * entry_bytes, (const char *)ring + n % old * entry_bytes, entry_bytes);
    free(ring);
    *capacity = grown;
    return made;
}

static int grow_notes(struct weft_lane *lane)
{
    void *ring =
        grow(lane->notes, &lane->notes_capacity, lane->first_note, lane->next_note, sizeof *lane->notes);
    lane->notes = ring ? ring : lane->notes;
    return ring ? WEFT_OK : WEFT_NOMEM;
}

static int grow_marks(struct weft_lane *lane)
{
    void *ring =
        grow(lane->marks, &lane->marks_capacity, lane->first_mark, lane->next_mark, sizeof *lane->marks);
    lane->marks = ring ? ring : lane->marks;
    return ring ? WEFT_OK : WEFT_NOMEM;
}

/* A mark behind all that is queued, also when the lane has failed. */
static int put_mark(struct weft_lane *lane)
{
    if (lane->next_mark - lane->first_mark == lane->marks_capacity) {
        int status = grow_marks(lane);
        if (status != WEFT_OK)
            return status;
    }
    struct mark *mark = &lane->marks[lane->next_mark % lane->marks_capacity];
    int status = lane->kind->ops.mark(lane->queue, &mark->event);
    if (status != WEFT_OK)
        return status;
    mark->end = lane->noted = lane->next_note;
    lane->next_mark++;
    lane->has_work = 0;
    return WEFT_OK;
}

/* The last mark of the lane. What was queued before something could not be queued still runs. */
static void mark_the_end(struct weft_lane *lane)
{
    int status = lane->has_work && !lane->is_blind ? put_mark(lane) : WEFT_OK;
    if (status == WEFT_OK)
        return;
    weft_log(WEFT_LOG_ERROR, "%s device %d may still work on an operation that has ended, untold: %s",
             lane->kind->name, lane->ordinal, weft_error_detail());
    fail(lane, status);
    lane->is_blind = 1;
}

int weft_lanes_know(const struct weft_lanes *lanes, const struct weft_device_kind *kind, int ordinal)
{
    uint32_t k = lanes->known_count;
    while (k && (lanes->known_kinds[k - 1] != kind || lanes->known_ordinals[k - 1] != ordinal))
        k--;
    return k > 0;
}

int weft_lane_open(const struct weft_device_kind *kind, int ordinal, struct weft_lane **opened)
{
    struct weft_lane *lane = calloc(1, sizeof *lane);
    if (!lane)
        return weft_fail(WEFT_NOMEM, "no memory for a lane");
    lane->kind = kind;
    lane->ordinal = ordinal;
    int status = grow_notes(lane) == WEFT_OK ? grow_marks(lane) : WEFT_NOMEM;
    if (status == WEFT_OK)
        status = kind->ops.queue_open(kind->device, ordinal, &lane->queue);
    if (status == WEFT_OK) {
        *opened = lane;
        return WEFT_OK;
    }
    free(lane->notes);
    free(lane->marks);
    free(lane);
    return status;
}

void weft_lanes_join(struct weft_lanes *lanes, struct weft_lane *lane)
{
    lane->lanes = lanes;
    if (lanes->known_count == IDLE_MAX || weft_lanes_know(lanes, lane->kind, lane->ordinal))
        return;
    lanes->known_kinds[lanes->known_count] = lane->kind;
    lanes->known_ordinals[lanes->known_count++] = lane->ordinal;
}

int weft_lane_get(struct weft_lanes *lanes, const struct weft_device_kind *kind, int ordinal,
                  struct weft_lane **got)
{
    reap(lanes);
    for (struct weft_lane **at = &lanes->idle, *lane; (lane = *at); at = &lane->next) {
        if (lane->kind != kind || lane->ordinal != ordinal)
            continue;
        *at = lane->next;
        lanes->idle_count--;
        lanes->idle_bytes -= memory_of(lane);
        *got = lane;
        return WEFT_OK;
    }
    int status = weft_lane_open(kind, ordinal, got);
    if (status == WEFT_OK)
        weft_lanes_join(lanes, *got);
    return status;
}

void weft_lane_put(struct weft_lane *lane)
{
    if (!lane)
        return;
    char detail[WEFT_DETAIL_MAX];
    memcpy(detail, weft_error_detail(), strlen(weft_error_detail()) + 1);
    weft_lane_open_gate(lane);
    mark_the_end(lane);
    if (look_to_the_end(lane)) {
        make_idle(lane);
    } else {
        lane->next = lane->lanes->aside;
        lane->lanes->aside = lane;
    }
    weft_error_set_detail(detail);
}

const struct weft_device_kind *weft_lane_kind(const struct weft_lane *lane)
{
    return lane->kind;
}

int weft_lane_flush_writes(struct weft_lane *lane)
{
    return lane->kind->ops.flush_writes(lane->kind->device, lane->ordinal);
}

int weft_lane_ordinal(const struct weft_lane *lane)
{
    return lane->ordinal;
}

/* Notes what queueing has come to. A lane that could not queue something has failed: what follows would lack it. */
static int queued(struct weft_lane *lane, int status)
{
    lane->has_work = 1; /* also where a part of it could not be queued */
    return status != WEFT_OK ? fail(lane, status) : WEFT_OK;
}

/* What is refused is not queued, and nothing that follows would lack it: the caller does without, or fails by itself. */
static int queued_or_refused(struct weft_lane *lane, int status)
{
    return status == WEFT_UNSUPPORTED ? status : queued(lane, status);
}

int weft_lane_copy(struct weft_lane *lane, void *destination, const void *source, size_t size)
{
    return lane->status
               ? failed(lane)
               : queued_or_refused(lane, lane->kind->ops.copy(lane->queue, destination, source, size));
}

int weft_lane_reduce(struct weft_lane *lane, const struct weft_device_reduction *reduction)
{
    return lane->status ? failed(lane)
                        : queued_or_refused(lane, lane->kind->ops.reduce(lane->queue, reduction));
}

int weft_lane_run(struct weft_lane *lane, const struct weft_device_program *program)
{
    return lane->status ? failed(lane) : queued(lane, lane->kind->ops.run(lane->queue, program));
}

int weft_lane_hold(struct weft_lane *lane, void *stream)
{
    return weft_gate_close(lane->kind, lane->ordinal, stream, &lane->gate);
}

void weft_lane_take_gate(struct weft_lane *lane, struct weft_device_gate *gate)
{
    lane->gate = gate;
}

/* A stream that waits for ever is worse than one that goes on too early, which the lane's failure tells. */
int weft_lane_open_gate(struct weft_lane *lane)
{
    struct weft_device_gate *gate = lane->gate;
    if (!gate)
        return WEFT_OK;
    lane->gate = NULL;
    int is_behind = lane->status == WEFT_OK && !has_ended(lane);
    int status = is_behind ? queued(lane, lane->kind->ops.open_gate(gate, lane->queue)) : WEFT_OK;
    if (!is_behind || status != WEFT_OK) {
        int opened = weft_gate_open_now(lane->kind, lane->ordinal, gate);
        status = status == WEFT_OK ? opened : failed(lane);
    }
    weft_gate_forget(lane->kind, gate);
    return status;
}

int weft_lane_note(struct weft_lane *lane, const struct weft_lane_note *note)
{
    if (lane->next_note - lane->first_note == lane->notes_capacity) {
        int status = grow_notes(lane);
        if (status != WEFT_OK)
            return status;
    }
    lane->notes[lane->next_note++ % lane->notes_capacity] = *note;
    return WEFT_OK;
}

int weft_lane_flush(struct weft_lane *lane)
{
    if (lane->status)
        return failed(lane);
    if (!lane->has_work && lane->noted == lane->next_note)
        return WEFT_OK;
    int status = put_mark(lane);
    return status == WEFT_OK ? WEFT_OK : fail(lane, status);
}

int weft_lane_poll(struct weft_lane *lane, struct weft_lane_note *note)
{
    if (lane->status || (lane->first_note == lane->due_note && look(lane) != WEFT_OK))
        return failed(lane);
    if (lane->first_note == lane->due_note)
        return 0;
    *note = lane->notes[lane->first_note++ % lane->notes_capacity];
    return 1;
}

int weft_lane_drain(struct weft_lane *lane, int64_t timeout_ms)
{
    int64_t until_ns = weft_deadline_ns(timeout_ms);
    mark_the_end(lane);
    while (!look_to_the_end(lane)) {
        if (weft_clock_ns() >= until_ns)
            return WEFT_TIMEOUT;
        sched_yield();
    }
    lane->first_note = lane->due_note = lane->noted = lane->next_note;
    return lane->status ? failed(lane) : WEFT_OK;
}

struct weft_lane_surplus **weft_lanes_surplus(struct weft_lanes *lanes, int is_retired)
{
    return is_retired ? &lanes->retired : &lanes->surplus;
}

struct weft_lanes *weft_lane_pool(const struct weft_lane *lane)
{
    return lane->lanes;
}

static int allocate(struct weft_lane *lane, int use, size_t size)
{
    const struct weft_device_kind *kind = lane->kind;
    void **made = &lane->memory[use].memory;
    int status = kind->ops.allocate(kind->device, lane->ordinal, WEFT_MEMORY_DEVICE, size, made);
    lane->memory[use].bytes = status == WEFT_OK ? size : 0;
    return status;
}

int weft_lane_memory(struct weft_lane *lane, enum weft_lane_use use, size_t size, void **memory)
{
    if (lane->memory[use].bytes < size) {
        release_use(lane, (int)use);
        lane->memory[use].bytes = weft_lane_surplus_find(&lane->lanes->surplus, lane->kind, lane->ordinal,
                                                         size, &lane->memory[use].memory);
        int status = lane->memory[use].bytes ? WEFT_OK : allocate(lane, (int)use, size);
        if (status == WEFT_NOMEM && lane->lanes->surplus) {
            weft_lane_surplus_release(&lane->lanes->surplus);
            status = allocate(lane, (int)use, size);
        }
        if (status != WEFT_OK)
            return status;
    }
    *memory = lane->memory[use].memory;
    return WEFT_OK;
}

int weft_lane_reduces(struct weft_lane *lane, weft_dtype dtype, weft_op op)
{
    char detail[WEFT_DETAIL_MAX];
    _Alignas(16) uint8_t nothing[16] = {0};
    const void *const sources[2] = {nothing, nothing};
    void *const destinations[1] = {nothing};
    const struct weft_device_reduction reduction = {.size = sizeof reduction,
                                                    .dtype = dtype,
                                                    .op = op,
                                                    .source_count = 2,
                                                    .destination_count = 1,
                                                    .sources = sources,
                                                    .destinations = destinations};
    memcpy(detail, weft_error_detail(), strlen(weft_error_detail()) + 1);
    int status = lane->kind->ops.reduce(lane->queue, &reduction);
    weft_error_set_detail(detail);
    return status != WEFT_UNSUPPORTED && status != WEFT_MISSING;
}

void weft_lane_keep(struct weft_lane *lane, weft_lane_release *release, void *arg, uint32_t index,
                    void *memory, size_t size)
{
    int is_free = lane->status == WEFT_OK && has_ended(lane);
    struct kept *kept = is_free ? NULL : malloc(sizeof *kept);
    if (!kept) {
        if (is_free)
            release(arg, index, memory, size);
        return; /* without memory for the note it is never given back */
    }
    *kept = (struct kept){lane->kept, release, arg, index, memory, size};
    lane->kept = kept;
}
