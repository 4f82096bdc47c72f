#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The pictures of the documents are what weft-topo draws today; `make pictures` draws them again.
source "$(dirname "$0")/../support/start.sh"
[[ -x ${BUILD:-build}/weft-topo ]] || { echo "SKIP: ${BUILD:-build}/weft-topo is not built"; exit 77; }
if tests/scripts/pictures.sh "$work/pictures" >"$work/out" 2>"$work/err"; then ok "drawing"; else bad "drawing"; fi
for picture in "$work"/pictures/*.svg; do
    name=docs/pictures/$(basename "$picture")
    if diff "$name" "$picture" >"$work/out" 2>"$work/err"; then ok "$name is up to date"; else bad "$name: make pictures"; fi
done
sum_up
