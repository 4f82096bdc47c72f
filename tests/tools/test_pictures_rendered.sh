#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A program that knows nothing of weft makes images of the pictures of the documents.
source "$(dirname "$0")/../support/start.sh"
command -v rsvg-convert >/dev/null || { echo "SKIP: no rsvg-convert"; exit 77; }
for picture in docs/pictures/*.svg; do
    if rsvg-convert "$picture" -o "$work/picture.png" 2>"$work/err" && [[ -s $work/picture.png ]]; then
        ok "$picture is rendered"
    else
        bad "$picture is not rendered"
    fi
done
sum_up
