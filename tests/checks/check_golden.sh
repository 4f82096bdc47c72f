#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tests/golden/errors.txt: each name stands there once, each name that a test uses is there, and each that is there is used.
source "$(dirname "$0")/../support/start.sh"
there=$(grep -v '^#' tests/golden/errors.txt | cut -d' ' -f1)
# In scripts the names of bad and odd samples are made from those of their files: tests/topo/test_nic_map.sh.
used=$({
    tr '\n' ' ' < <(cat tests/*/*.c tests/*/*/*.c) | grep -oE '(golden_matches\w*|REFUSED)\([^;]*;' | grep -oE '"[a-z0-9]+(-[a-z0-9]+)*"' | tr -d '"' |
        grep -xF "$there"
    tr '\n' ' ' < <(cat tests/*/*.c tests/*/*/*.c) | grep -oE 'golden_matches\( *"[^"]*"' | sed 's/.*( *"//; s/"//'
    for file in tests/topo/samples/{bad,odd}/*; do
        file=${file##*/}
        echo "topo-sample-${file%.*}"
    done
} | sort -u)
nothing "names that are twice in tests/golden/errors.txt" "$(sort <<<"$there" | uniq -d)"
nothing "names that tests use and tests/golden/errors.txt does not have" "$(comm -13 <(sort <<<"$there") <(echo "$used"))"
nothing "names of tests/golden/errors.txt that no test uses" "$(comm -23 <(sort <<<"$there") <(echo "$used"))"
nothing "lines without a text" "$(grep -vE '^#|^[a-z0-9-]+ .' tests/golden/errors.txt)"
sum_up
