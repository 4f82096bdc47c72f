/* SPDX-License-Identifier: Apache-2.0 */
/* Prints every variable of the environment that weft reads, for people and for the documents. */
#ifndef WEFT_BASE_TOOL_SETTINGS_PRINT_H
#define WEFT_BASE_TOOL_SETTINGS_PRINT_H

/* Prints the table of base/settings.c on standard output in a form: "" with the value in force and where it comes from;
 * "md", docs/settings.md; "man", the section ENVIRONMENT of weft(7). *refused is 1 where a context would refuse a value,
 * else 0. Returns WEFT_INVALID, having printed nothing, for another form. */
int weft_tool_settings(const char *form, int *refused);

#endif
