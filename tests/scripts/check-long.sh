#!/bin/bash
# Everything: the tests in their long form, each sanitizer, the fuzz targets. Ends with the sum of the counts.
set -u
cd "$(dirname "$0")/../.." || exit 1
export WEFT_LONG=1 TEST_TIMEOUT=${TEST_TIMEOUT:-1800}
exec tests/scripts/sum.sh "${MAKE:-make} check" "${MAKE:-make} asan" "${MAKE:-make} ubsan" "${MAKE:-make} tsan" \
    "${MAKE:-make} fuzz"
