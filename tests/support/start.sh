# SPDX-License-Identifier: Apache-2.0
# How a test script begins: source "$(dirname "$0")/../support/start.sh". It runs in the project's folder, $BUILD is the build's, $work a
# folder of the script's that goes at its end, and tests/support/tally.sh counts.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
BUILD=${BUILD:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source tests/support/tally.sh
