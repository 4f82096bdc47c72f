/* SPDX-License-Identifier: Apache-2.0 */
/* Plug-ins that tests load, put where their rights are known.
 *
 * Those of the build folder may be writable for others, which is refused; so a copy goes into a folder of its own in /tmp. */
#ifndef WEFT_TESTS_PLUGINS_H
#define WEFT_TESTS_PLUGINS_H

struct test_plugin {
    char folder[64];
    char path[128];
};

/* Copies a shared object, named from the build folder ("tests/fakes/plugins/least.so"), as "plugin.so". 0, or -1 after a line on
 * stderr. */
int test_plugin_put(const char *from, struct test_plugin *plugin);

/* Removes file and folder. */
void test_plugin_remove(const struct test_plugin *plugin);

#endif
