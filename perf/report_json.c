/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON file; its schema is docs/weft-perf-json.md. */
#include "perf/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "perf/file.h"
#include "perf/machine.h"
#include "perf/values.h"

enum { SCHEMA = 1 };

struct perf_json {
    json_t *root;
    json_t *rows; /* borrowed from root */
};

/* A string that need not be UTF-8 (a command line, a host name): bytes that are not are shown as '?'. */
static json_t *text(const char *string)
{
    json_t *made = json_string(string);
    char *copy = made ? NULL : strdup(string);
    for (char *at = copy; at && *at; at++)
        if ((unsigned char)*at >= 0x80)
            *at = '?';
    if (copy)
        made = json_string(copy);
    free(copy);
    return made;
}

static json_t *command_line(const struct perf_options *options)
{
    json_t *list = json_array();
    for (int i = 0; i < options->argc; i++)
        json_array_append_new(list, text(options->argv[i]));
    return list;
}

/* The WEFT_* variables in effect, without those that only connect this job's processes. */
static json_t *settings(void)
{
    json_t *object = json_object();
    for (char **variable = environ; *variable; variable++) {
        size_t length = strcspn(*variable, "=");
        char name[64];
        if (strncmp(*variable, "WEFT_", 5) != 0 || length >= sizeof name || (*variable)[length] != '=')
            continue;
        snprintf(name, sizeof name, "%.*s", (int)length, *variable);
        if (strcmp(name, PERF_CHANNEL_VARIABLE) != 0 && strcmp(name, "WEFT_PORT") != 0 &&
            strcmp(name, "WEFT_BOOTSTRAP_FD") != 0 && strncmp(name, "WEFT_SECRET", 11) != 0)
            json_object_set_new(object, name, text(*variable + length + 1));
    }
    return object;
}

static json_t *members(const struct perf_session *session)
{
    json_t *list = json_array();
    for (int rank = 0; rank < session->ranks; rank++) {
        const struct perf_member *member = &session->members[rank];
        json_t *object = json_object();
        json_object_set_new(object, "rank", json_integer(rank));
        json_object_set_new(object, "host", text(member->host));
        json_object_set_new(object, "host_index", json_integer(member->host_index));
        json_object_set_new(object, "pid", json_integer(member->pid));
        json_object_set_new(object, "processor", member->cpu < 0 ? json_null() : json_integer(member->cpu));
        json_object_set_new(object, "device", *member->device ? text(member->device) : json_null());
        json_object_set_new(object, "node", member->node < 0 ? json_null() : json_integer(member->node));
        json_array_append_new(list, object);
    }
    return list;
}

static json_t *rails(const struct perf_rails *rails)
{
    json_t *list = json_array();
    for (int i = 0; i < rails->count; i++) {
        const weft_rail *rail = &rails->list[i];
        json_t *object = json_object();
        json_object_set_new(object, "device", text(rail->device));
        json_object_set_new(object, "port", json_integer(rail->port));
        json_object_set_new(object, "link_layer", text(rail->link_layer));
        json_object_set_new(object, "gid", text(rail->gid));
        json_object_set_new(object, "gid_index", json_integer(rail->gid_index));
        json_object_set_new(object, "mtu_bytes", json_integer(rail->mtu_bytes));
        json_object_set_new(object, "active", json_boolean(rail->active));
        json_object_set_new(object, "gbs", json_real((double)rail->bytes_per_s / 1e9));
        json_array_append_new(list, object);
    }
    return list;
}

static json_t *environment(const struct perf_session *session)
{
    const struct perf_options *options = session->options;
    struct perf_machine machine;
    json_t *object = json_object();
    perf_machine_describe(&machine);
    json_object_set_new(object, "date", text(machine.date));
    json_object_set_new(object, "weft_version", text(weft_version()));
    json_object_set_new(object, "compiler", text(__VERSION__));
    json_object_set_new(object, "host", text(machine.host));
    json_object_set_new(object, "system", text(machine.system));
    json_object_set_new(object, "cpu", text(machine.cpu));
    json_object_set_new(object, "cores", json_integer(machine.cores));
    json_object_set_new(object, "ranks", json_integer(session->ranks));
    json_object_set_new(object, "members", members(session));
    json_object_set_new(object, "rails", rails(&session->rails));
    json_object_set_new(object, "memory", text(options->memory));
    json_object_set_new(object, "clock", text(options->device_clock ? "device" : "host"));
    json_object_set_new(object, "iterations", json_integer(options->iterations));
    json_object_set_new(object, "warmups", json_integer(options->warmups));
    json_object_set_new(object, "checks", json_integer(options->checks));
    json_object_set_new(object, "settings", settings());
    json_object_set_new(object, "command_line", command_line(options));
    return object;
}

struct perf_json *perf_json_open(const struct perf_session *session, const char *command)
{
    struct perf_json *json = calloc(1, sizeof *json);
    if (!json)
        return NULL;
    json->root = json_object();
    json->rows = json_array();
    json_object_set_new(json->root, "schema", json_integer(SCHEMA));
    json_object_set_new(json->root, "program", text("weft-perf"));
    json_object_set_new(json->root, "command", text(command));
    json_object_set_new(json->root, "environment", environment(session));
    if (json_object_set_new(json->root, "rows", json->rows) != 0) {
        perf_json_free(json);
        return NULL;
    }
    return json;
}

static json_t *value(const struct perf_field *field)
{
    json_t *list;
    switch (field->kind) {
    case PERF_TEXT:
        return field->text ? text(field->text) : json_null();
    case PERF_INTEGER:
        return json_integer((json_int_t)field->integer);
    case PERF_FLAG:
        return json_boolean(field->integer);
    case PERF_REAL:
        return json_real(field->real);
    default:
        list = json_array();
        for (size_t i = 0; i < field->count; i++)
            json_array_append_new(list, json_real(field->reals[i]));
        return list;
    }
}

static void add_fields(json_t *object, const struct perf_field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++)
        json_object_set_new(object, fields[i].name, value(&fields[i]));
}

int perf_json_record(struct perf_json *json, const struct perf_field *fields, size_t count)
{
    json_t *object = json_object();
    add_fields(object, fields, count);
    return json_array_append_new(json->rows, object);
}

int perf_json_row(struct perf_json *json, const struct perf_row *row)
{
    json_t *object = json_object(), *samples = json_array();
    for (size_t i = 0; i < row->sample_count; i++)
        json_array_append_new(samples, json_real(row->samples_us[i]));
    json_object_set_new(object, "size_bytes", json_integer((json_int_t)row->size_bytes));
    json_object_set_new(object, "count", json_integer((json_int_t)row->count));
    json_object_set_new(object, "type", text(weft_dtype_name(row->dtype)));
    json_object_set_new(object, "redop", text(perf_op_name(row->op)));
    json_object_set_new(object, "root", json_integer(row->root));
    json_object_set_new(object, "algorithm", text(row->algorithm));
    json_object_set_new(object, "transport", text(row->transport));
    json_object_set_new(object, "in_place", json_boolean(row->in_place));
    json_object_set_new(object, "time_us", json_real(row->time_us));
    json_object_set_new(object, "p99_us", json_real(row->p99_us));
    json_object_set_new(object, "algbw_gbs", json_real(row->algbw_gbs));
    json_object_set_new(object, "busbw_gbs", json_real(row->busbw_gbs));
    json_object_set_new(object, "line_percent",
                        row->line_percent < 0 ? json_null() : json_real(row->line_percent));
    json_object_set_new(object, "wrong", row->checked ? json_integer((json_int_t)row->wrong) : json_null());
    json_object_set_new(object, "damaged",
                        row->checked ? json_integer((json_int_t)row->damaged) : json_null());
    json_object_set_new(object, "calls_per_sample", json_integer(row->calls_per_sample));
    json_object_set_new(object, "samples_us", samples);
    add_fields(object, row->extra, row->extra_count);
    return json_array_append_new(json->rows, object);
}

static json_t *summary(const struct perf_result *result)
{
    const weft_comm_stats *stats = &result->stats;
    json_t *object = json_object(), *moved = json_object();
    json_object_set_new(moved, "operations", json_integer((json_int_t)stats->operations));
    json_object_set_new(moved, "fast_path", json_integer((json_int_t)stats->fast_path));
    json_object_set_new(moved, "messages", json_integer((json_int_t)stats->messages));
    json_object_set_new(moved, "bytes_eager", json_integer((json_int_t)stats->bytes_eager));
    json_object_set_new(moved, "bytes_direct", json_integer((json_int_t)stats->bytes_direct));
    json_object_set_new(moved, "bytes_staged", json_integer((json_int_t)stats->bytes_staged));
    json_object_set_new(moved, "bytes_mapped", json_integer((json_int_t)stats->bytes_mapped));
    json_object_set_new(moved, "bytes_pulled", json_integer((json_int_t)stats->bytes_pulled));
    json_object_set_new(moved, "bytes_offered", json_integer((json_int_t)stats->bytes_offered));
    json_object_set_new(moved, "bytes_helped", json_integer((json_int_t)stats->bytes_helped));
    json_object_set_new(moved, "bytes_fed", json_integer((json_int_t)stats->bytes_fed));
    json_object_set_new(object, "wrong", json_integer((json_int_t)result->wrong));
    json_object_set_new(object, "damaged", json_integer((json_int_t)result->damaged));
    json_object_set_new(object, "missed", json_integer(result->missed));
    json_object_set_new(object, "busbw_gbs", result->rows ? json_real(result->busbw_gbs) : json_null());
    json_object_set_new(object, "stats", moved);
    return object;
}

int perf_json_write(struct perf_json *json, const struct perf_result *result, const char *path)
{
    json_object_set_new(json->root, "summary", summary(result));
    char *bytes = json_dumps(json->root, JSON_INDENT(1) | JSON_REAL_PRECISION(7));
    char *line = bytes ? realloc(bytes, strlen(bytes) + 2) : NULL;
    if (!line) {
        free(bytes);
        fprintf(stderr, "weft-perf: out of memory: cannot write '%s'\n", path);
        return -1;
    }
    strcat(line, "\n");
    int failed = perf_file_write(path, line, strlen(line));
    free(line);
    return failed;
}

void perf_json_free(struct perf_json *json)
{
    if (json)
        json_decref(json->root);
    free(json);
}
