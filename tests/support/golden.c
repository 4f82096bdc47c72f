/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/golden.h"

#include <stdio.h>
#include <string.h>

/* A part of the program: ranks run in other folders and other machines. */
__asm__(".pushsection .rodata\n"
        "golden_lines:\n"
        ".incbin \"tests/golden/errors.txt\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char golden_lines[];

/* The pattern of a name, up to the end of its line; NULL where there is none. */
static const char *pattern_find(const char *name, size_t *length)
{
    size_t prefix = strlen(name);
    for (const char *line = golden_lines; *line;) {
        size_t whole = strcspn(line, "\n");
        if (whole > prefix && strncmp(line, name, prefix) == 0 && line[prefix] == ' ') {
            *length = whole - prefix - 1;
            return line + prefix + 1;
        }
        line += whole + (line[whole] == '\n');
    }
    return NULL;
}

static int matches(const char *text, const char *pattern, size_t length, const char *const *facts,
                   unsigned long count)
{
    for (; length; text++, pattern++, length--) {
        if (length >= 2 && pattern[0] == '{' && pattern[1] == '}') {
            const char *fact = count ? facts[0] : NULL;
            unsigned long next = count ? 1 : 0;
            if (fact)
                return strncmp(text, fact, strlen(fact)) == 0 &&
                       matches(text + strlen(fact), pattern + 2, length - 2, facts + next, count - next);
            for (;; text++) {
                if (matches(text, pattern + 2, length - 2, facts + next, count - next))
                    return 1;
                if (!*text)
                    return 0;
            }
        }
        if (*text != *pattern)
            return 0;
    }
    return *text == '\0';
}

int golden_matches_text(const char *text, const char *const *names, unsigned long count)
{
    size_t length = 0;
    const char *pattern = pattern_find(names[0], &length);
    if (pattern && matches(text, pattern, length, names + 1, count - 1))
        return 1;
    fprintf(stderr, "wording of %s: '%s'\n", names[0], text);
    if (pattern)
        fprintf(stderr, "    expected: '%.*s'\n", (int)length, pattern);
    else
        fprintf(stderr, "    tests/golden/errors.txt has no such line\n");
    for (unsigned long i = 1; i < count; i++)
        fprintf(stderr, "    {} number %lu: %s\n", i, names[i] ? names[i] : "any text");
    return 0;
}
