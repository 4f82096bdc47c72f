/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the ofi transport can be tested here. */
#ifndef WEFT_TESTS_OFI_ABSENT_H
#define WEFT_TESTS_OFI_ABSENT_H

/* NULL, or why libfabric or its TCP providers are missing. Opens and closes an instance. */
const char *test_ofi_absent(void);

#endif
