#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The source tarball, of the files that git tracks, as they are in the working tree: mk/dist.sh VERSION TARBALL
# The same commit gives the same bytes. A list of the files goes with them, so that an unpacked tarball can make itself again.
set -euo pipefail
version=$1 tarball=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [[ $(git rev-parse --show-toplevel 2>/dev/null) == "$(pwd -P)" ]]; then
    git ls-files >"$scratch/MANIFEST"
    when=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
    [[ -z $(git status --porcelain --untracked-files=no) ]] || echo "weft: $tarball has changes that are not committed" >&2
elif [[ -f MANIFEST ]]; then
    cp MANIFEST "$scratch/"
    when=${SOURCE_DATE_EPOCH:-$(stat -c %Y MANIFEST)}
else
    echo "weft: this is neither a git checkout nor an unpacked tarball, which has a file MANIFEST: what belongs to weft is not known" >&2
    exit 1
fi
mkdir -p "$(dirname "$tarball")"
# Beside its final name until it is whole.
{ cat "$scratch/MANIFEST" && echo MANIFEST; } | LC_ALL=C sort -u >"$scratch/files"
tar --create --format=gnu --no-recursion --mtime="@$when" --owner=0 --group=0 --numeric-owner --mode='u=rwX,go=rX' \
    --transform="flags=rH;s,^,weft-$version/," -C "$scratch" MANIFEST -C "$PWD" --files-from=<(grep -vx MANIFEST "$scratch/files") |
    gzip -9n >"$tarball.part"
mv "$tarball.part" "$tarball"
echo "$tarball"
