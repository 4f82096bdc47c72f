#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run: early
# Layout of the sources: the rules are those of .clang-format, read by the version that bookworm has; others differ in details.
set -u
cd "$(dirname "$0")/../.." || exit 1
readarray -t sources < <(find include base topo devmem transport algos comm bindings perf tests examples -name '*.[ch]' -o -name '*.[ch]pp' | sort)
version=$(clang-format --version 2>/dev/null | sed -n 's/.*version \([0-9]*\).*/\1/p')
if [[ $version != 14 ]]; then
    echo "SKIP: layout is checked with clang-format 14, here is ${version:-none}"
    exit 77
fi
wrong=$(clang-format --dry-run -Werror "${sources[@]}" 2>&1 | grep 'error:' | cut -d: -f1,2 | awk -F: '!seen[$1]++')
[[ -z $wrong ]] || printf 'clang-format (run clang-format -i):\n%s\n' "$wrong"
[[ -z $wrong ]]
