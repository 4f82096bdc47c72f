/* SPDX-License-Identifier: Apache-2.0 */
/* Public structs, which begin with their size as the program knows it: that may be another weft.h's than the library's.
 *
 * A struct only ever grows at its end, so that a member is there when it lies within the size. What a smaller one lacks has its default;
 * what a larger one has beyond what this library knows must be 0, or the program asks for something that it would not get.
 */
#ifndef WEFT_BASE_STRUCT_H
#define WEFT_BASE_STRUCT_H

#include <stddef.h>

/* Up to the end of a member. */
#define WEFT_STRUCT_UPTO(type, member) (offsetof(type, member) + sizeof((type){0}.member))

struct weft_struct {
    const char *name; /* "weft_call_options" */
    const char *init; /* "WEFT_CALL_OPTIONS_INIT" */
    size_t least;     /* of the first version */
    size_t known;     /* of this library's */
};

/* init: the macro that a program fills it with; last: the last member of the first version. */
#define WEFT_STRUCT(type, macro, last)                                                                       \
    {                                                                                                        \
#type, #macro, WEFT_STRUCT_UPTO(type, last), sizeof(type)                                            \
    }

/* Copies what a program has given over the defaults in `to`, whose size becomes this library's. given NULL: all defaults. */
int weft_struct_read(const struct weft_struct *about, void *to, const void *given);

/* Copies what a struct that begins with its size has room for, of one of `known` bytes; its size stays. */
void weft_struct_give(void *out, const void *from, size_t known);

/* Whether a program's struct can be filled. */
int weft_struct_check(const struct weft_struct *about, const void *out);
/* Fills it, or the index-th of several that lie out[0].size bytes apart, with as much as it has room for of a whole one. */
void weft_struct_fill(const struct weft_struct *about, void *out, size_t index, const void *whole);

#endif
