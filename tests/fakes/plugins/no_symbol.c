/* SPDX-License-Identifier: Apache-2.0 */
/* A shared object that is no kind of device. */
int weft_other_plugin(void);

int weft_other_plugin(void)
{
    return 0;
}
