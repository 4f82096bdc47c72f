/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/child.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

int test_child(int (*child)(void))
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(child());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

int test_children(int (*child)(int number), int count)
{
    int failed = 0, status;
    for (int i = 0; i < count; i++) {
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0)
            exit(child(i));
        failed += pid < 0 || waitpid(pid, &status, 0) != pid || status != 0;
    }
    return failed;
}
