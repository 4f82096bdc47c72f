/* SPDX-License-Identifier: Apache-2.0 */
/* The table is base/settings.c's. What stands here is how it looks in each form. */
#include "base/tool/settings_print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "base/settings.h"

static const char *const titles[WEFT_SETTINGS_GROUPS] = {
    [WEFT_SETTINGS_JOB] = "The job: who takes part, and where rank 0 is",
    [WEFT_SETTINGS_TIME] = "Deadlines and failures",
    [WEFT_SETTINGS_CHOICE] = "Algorithms and the order of ranks",
    [WEFT_SETTINGS_TRANSPORT] = "Transports",
    [WEFT_SETTINGS_RDMA] = "RDMA devices: the transport verbs",
    [WEFT_SETTINGS_DEVICE] = "Devices: GPUs and plug-ins",
    [WEFT_SETTINGS_LOG] = "The log, and what runs on processors",
};

static const char *const scopes[] = {
    [WEFT_SCOPE_AGREED] = "agreed",
    [WEFT_SCOPE_SAME] = "the same for all",
    [WEFT_SCOPE_CONTENT] = "agreed, by the file's content",
    [WEFT_SCOPE_LOCAL] = "local",
    [WEFT_SCOPE_PROCESS] = "local, read once per process",
    [WEFT_SCOPE_FIRST_RANK] = "rank 0's counts for all",
};

enum { TEXT_MAX = 4096 };

/* What a form prints around the settings and for each. */
struct form {
    const char *name;
    void (*head)(void);
    void (*group)(const char *title);
    int (*setting)(const struct weft_setting *setting, const char *fallback, const char *values);
    void (*group_end)(void);
};

static void print_nothing(void)
{
}

static void text_group(const char *title)
{
    printf("# %s\n\n", title);
}

/* Prints sentences; each begins a line behind an indent. */
static void print_sentences(const char *text, const char *indent, void (*put)(char c, char before))
{
    char before = ' ';
    printf("%s", indent);
    for (; *text; before = *text++) {
        if (*text == ' ' && before == '.')
            printf("\n%s", indent);
        else
            put(*text, before);
    }
    putchar('\n');
}

static void put_plain(char c, char before)
{
    (void)before;
    putchar(c);
}

/* The same sentence in texts and man pages. */
static void describe(const struct weft_setting *setting, const char *fallback, const char *values, char *text,
                     size_t capacity)
{
    snprintf(text, capacity, "Values: %s. Default: %s. Ranks: %s.", values, fallback, scopes[setting->scope]);
}

static int text_setting(const struct weft_setting *setting, const char *fallback, const char *values)
{
    char value[TEXT_MAX];
    const char *given = getenv(setting->name);
    int status = weft_setting_in_force(setting, value, sizeof value);
    printf("%s = %s  (%s)\n", setting->name, value,
           status            ? "environment, refused"
           : given && *given ? "environment"
                             : "default");
    if (status)
        printf("    error: %s\n", weft_error_detail());
    print_sentences(setting->text, "    ", put_plain);
    describe(setting, fallback, values, value, sizeof value);
    printf("    %s\n\n", value);
    return status;
}

static void markdown_head(void)
{
    printf(
        "<!-- SPDX-License-Identifier: Apache-2.0. Printed by `make docs` from base/settings.c: change it "
        "there. -->\n"
        "# Settings\n\n"
        "Settings are variables of the environment. They are read when a context is opened, unless a row "
        "says "
        "otherwise.\n"
        "`weft-perf --settings` prints this list with the values that are in force here, and where they come "
        "from.\n\n"
        "A program can give those that a context reads in code, which comes before the environment "
        "([weft_context_open](man/weft_context_open.3)).\n\n"
        "- **agreed**: all ranks have the same value. A rank that differs gets `WEFT_SETTINGS`, and the "
        "error names "
        "rank and variable.\n"
        "- **local**: each rank may have its own.\n"
        "- A value that is out of range or misspelt is `WEFT_INVALID`. The error names the variable, the "
        "value and "
        "what was expected.\n"
        "- A variable that begins with `WEFT_` and is no setting is named by a warning in the log, once per "
        "process.\n"
        "- An empty value counts as not set.\n");
}

static void markdown_group(const char *title)
{
    printf("\n## %s\n\n"
           "| variable | default | values | ranks | meaning |\n"
           "| --- | --- | --- | --- | --- |\n",
           title);
}

static int markdown_setting(const struct weft_setting *setting, const char *fallback, const char *values)
{
    printf("| `%s` | %s | %s | %s | %s |\n", setting->name, fallback, values, scopes[setting->scope],
           setting->text);
    return 0;
}

static void man_head(void)
{
    printf(".Sh ENVIRONMENT\n"
           "Settings are read when a context is opened, unless something else is said.\n"
           "A program can give those that a context reads in code, which comes before the environment:\n"
           ".Xr weft_context_open 3 .\n"
           "A setting that is agreed has the same value at all ranks; a rank that differs gets\n"
           ".Dv WEFT_SETTINGS ,\n"
           "and the error names rank and variable.\n"
           "A local one may differ.\n"
           "A variable that begins with WEFT_ and is no setting is named by a warning in the log, once per "
           "process.\n"
           "An empty value counts as not set.\n"
           "The list with the values in force is printed by\n"
           ".Ic weft-perf --settings .\n");
}

static void man_group(const char *title)
{
    printf(".Ss %s\n.Bl -tag -width Ds\n", title);
}

static void put_man(char c, char before)
{
    if (c == '^')
        printf("\\(ha");
    else if (c == '-' && (before == ' ' || before == '('))
        printf("\\-");
    else
        putchar(c);
}

static int man_setting(const struct weft_setting *setting, const char *fallback, const char *values)
{
    char end[TEXT_MAX];
    printf(".It Ev %s\n", setting->name);
    print_sentences(setting->text, "", put_man);
    describe(setting, fallback, values, end, sizeof end);
    print_sentences(end, "", put_man);
    return 0;
}

static void man_group_end(void)
{
    printf(".El\n");
}

static const struct form forms[] = {
    {"", print_nothing, text_group, text_setting, print_nothing},
    {"md", markdown_head, markdown_group, markdown_setting, print_nothing},
    {"man", man_head, man_group, man_setting, man_group_end},
};

static int print_group(const struct form *form, enum weft_setting_group group)
{
    const struct weft_setting *setting;
    char fallback[TEXT_MAX], values[TEXT_MAX];
    int refused = 0;
    form->group(titles[group]);
    for (size_t i = 0; (setting = weft_setting_at(i)); i++) {
        if (setting->group != group)
            continue;
        weft_setting_default(setting, fallback, sizeof fallback);
        weft_setting_values(setting, values, sizeof values);
        refused |= form->setting(setting, fallback, values) != 0;
    }
    form->group_end();
    return refused;
}

int weft_tool_settings(const char *name, int *refused)
{
    const struct form *form = NULL;
    for (size_t i = 0; i < sizeof forms / sizeof *forms && !form; i++)
        form = strcmp(forms[i].name, name) == 0 ? &forms[i] : NULL;
    if (!form)
        return WEFT_INVALID;
    *refused = 0;
    form->head();
    for (int group = 0; group < WEFT_SETTINGS_GROUPS; group++)
        *refused |= print_group(form, (enum weft_setting_group)group);
    return WEFT_OK;
}
