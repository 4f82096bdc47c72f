#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Everything: the tests in their long form, each sanitizer, the fuzz targets, the packages in a fresh system,
# 10,000 kills (WEFT_KILLS) and the soak (WEFT_SOAK_S, here ten minutes unless set otherwise). Ends with the sum of the counts.
set -u
cd "$(dirname "$0")/../.." || exit 1
export WEFT_SOAK_S=${WEFT_SOAK_S:-600} WEFT_LONG=1 TEST_TIMEOUT=${TEST_TIMEOUT:-1800}
exec tests/scripts/sum.sh "${MAKE:-make} check" "${MAKE:-make} asan" "${MAKE:-make} tsan" \
    "${MAKE:-make} fuzz" "${MAKE:-make} check-torch" "${MAKE:-make} check-parts" "${MAKE:-make} check-deb" \
    "env MAKE=${MAKE:-make} tests/scripts/kills.sh" "env MAKE=${MAKE:-make} tests/scripts/soak.sh"
