/* SPDX-License-Identifier: Apache-2.0 */
/* Wordings of errors, which stand in tests/golden/errors.txt alone. */
#ifndef WEFT_TESTS_GOLDEN_H
#define WEFT_TESTS_GOLDEN_H

/* Whether weft_error_detail() is worded as the line of this name, from its first character to its last. What {} stands for is given
 * by the strings behind the name, in their order: a fact that must stand there, or NULL for any text, which may be empty. {} without a
 * string stands for any text. Where it is 0, both texts are printed. */
#define golden_matches(...)                                                                                  \
    golden_matches_text(weft_error_detail(), (const char *const[]){__VA_ARGS__},                             \
                        sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

/* The same for another text; names: the line's name and the facts. */
int golden_matches_text(const char *text, const char *const *names, unsigned long count);

#endif
