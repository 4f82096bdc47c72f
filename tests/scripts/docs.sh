#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Writes what documents take from the code into the folder TO, docs/ unless given: settings.md, and the section
# ENVIRONMENT of man/weft.7, which stands there between two comments. tests/scripts/docs.sh [TO]
set -eu
cd "$(dirname "$0")/../.."
to=${1:-docs}
perf=${BUILD:-build}/weft-perf
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT

# Values in this environment are nobody else's business: both forms have none.
"$perf" --settings=md >"$new/settings.md"
"$perf" --settings=man >"$new/environment"
awk -v environment="$new/environment" '
    /^\.\\" --- end of what make docs writes$/ { inside = 0; ended++ }
    !inside
    /^\.\\" --- make docs writes what follows$/ {
        inside = 1
        began++
        while ((getline line <environment) > 0) print line
    }
    END { exit !(began == 1 && ended == 1) }' docs/man/weft.7 >"$new/weft.7" ||
    { echo "docs.sh: docs/man/weft.7 lacks the two comments around ENVIRONMENT" >&2; exit 1; }
mkdir -p "$to/man"
cp "$new/settings.md" "$to/settings.md"
cp "$new/weft.7" "$to/man/weft.7"
