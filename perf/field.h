/* SPDX-License-Identifier: Apache-2.0 */
/* A named figure, for what a command records beside or instead of the columns of the sweeps. */
#ifndef WEFT_PERF_FIELD_H
#define WEFT_PERF_FIELD_H

#include <stddef.h>

enum perf_field_kind { PERF_TEXT, PERF_INTEGER, PERF_REAL, PERF_FLAG, PERF_REALS };

struct perf_field {
    const char *name;
    enum perf_field_kind kind;
    const char *text;
    long long integer; /* of PERF_FLAG as well */
    double real;
    const double *reals;
    size_t count; /* of reals */
};

#define PERF_FIELD_TEXT(field, value)                                                                        \
    {                                                                                                        \
        .name = (field), .kind = PERF_TEXT, .text = (value)                                                  \
    }
#define PERF_FIELD_INTEGER(field, value)                                                                     \
    {                                                                                                        \
        .name = (field), .kind = PERF_INTEGER, .integer = (value)                                            \
    }
#define PERF_FIELD_FLAG(field, value)                                                                        \
    {                                                                                                        \
        .name = (field), .kind = PERF_FLAG, .integer = (value)                                               \
    }
#define PERF_FIELD_REAL(field, value)                                                                        \
    {                                                                                                        \
        .name = (field), .kind = PERF_REAL, .real = (value)                                                  \
    }
#define PERF_FIELD_REALS(field, values, number)                                                              \
    {                                                                                                        \
        .name = (field), .kind = PERF_REALS, .reals = (values), .count = (number)                            \
    }

#endif
