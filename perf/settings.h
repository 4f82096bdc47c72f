/* SPDX-License-Identifier: Apache-2.0 */
/* weft-perf --settings: every variable of the environment that weft reads, for people and for the documents. */
#ifndef WEFT_PERF_SETTINGS_H
#define WEFT_PERF_SETTINGS_H

/* Prints them in a form: "" with the value in force and where it comes from; "md", docs/settings.md; "man", the section
 * ENVIRONMENT of weft(7). Returns an exit status: PERF_EXIT_USAGE for another form, and where a context would refuse a
 * value. */
int perf_settings(const char *form);

#endif
