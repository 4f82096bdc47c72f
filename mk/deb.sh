#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Debian packages from a source tarball: mk/deb.sh VERSION ABI TARBALL FOLDER. FOLDER gets them; it is emptied first.
# Whoever builds is the maintainer: DEBFULLNAME and DEBEMAIL, or git's user.name and user.email.
set -eu
version=$1 abi=$2 tarball=$(realpath "$3") folder=$4
name=${DEBFULLNAME:-$(git config user.name 2>/dev/null || echo "weft packagers")}
email=${DEBEMAIL:-$(git config user.email 2>/dev/null || echo "weft@example.org")}
when=$(tar --list --verbose --full-time --utc --file="$tarball" | awk 'NR == 1 { print $4, $5 " UTC" }')

rm -rf "$folder"
mkdir -p "$folder"
folder=$(realpath "$folder")
cp "$tarball" "$folder/weft_$version.orig.tar.gz"
tar --extract --file="$tarball" --directory="$folder"
cd "$folder/weft-$version"
cp -r mk/debian debian
for file in debian/*@*; do mv "$file" "${file//@ABI@/$abi}"; done
find debian -type f -exec sed -i -e "s/@ABI@/$abi/g" -e "s/@VERSION@/$version/g" -e "s/@YEAR@/$(date -u -d "$when" +%Y)/g" \
    -e "s/@MAINTAINER@/$name <$email>/g" {} +

# The first chapter of CHANGELOG.md is this version's, whatever it is called.
changes() {
    awk '/^## / { chapter++ } chapter == 2 { exit } chapter != 1 || /^#/ { next }
        /^- / { print "  * " substr($0, 3); any = 1 } /^  [^ ]/ { print "    " substr($0, 3) }
        END { if (!any) print "  * No changes are noted." }' CHANGELOG.md | tr -d '`' | fold -s -w 76 | sed 's/^\([^ ]\)/    \1/; s/ *$//'
}
printf 'weft (%s-1) unstable; urgency=medium\n\n%s\n\n -- %s <%s>  %s\n' "$version" "$(changes)" "$name" "$email" \
    "$(LC_ALL=C date -u -R -d "$when")" >debian/changelog
# Variables of the make that called are not the packages' business.
env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u BUILD -u CC dpkg-buildpackage --no-sign --jobs="$(nproc)" >"$folder/build.log" 2>&1 || {
    tail -n 30 "$folder/build.log"
    echo "weft: the packages cannot be built: $folder/build.log"
    exit 1
}
cd "$folder"
rm -rf "weft-$version"
ls ./*.deb
