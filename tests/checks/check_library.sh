#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What is in the library: its names and versions agree, nothing in it is there for tools or tests alone, and the libraries that it
# loads at run time are those of base/runtime.h.
source "$(dirname "$0")/../support/start.sh"

# Members of an archive that no function of libweft.map leads to, over all that each member needs. Two members may have one name.
unreached() { # ARCHIVE
    sed -n '/global:/,/local:/p' libweft.map | grep -o 'weft_[a-z0-9_]*;' | tr -d ';' | cat - <(nm "$1") | awk '
        NF == 1 && /\.o:$/ { name[++member] = $1; next }
        NF == 1 && !member { queue[++queued] = $1; next }
        $1 == "U" || $1 == "w" { needs[member] = needs[member] " " $2; next }
        NF == 3 && ($2 ~ /[A-Z]/) { defines[$3] = member }
        END {
            for (next_one = 1; next_one <= queued; next_one++) {
                found = defines[queue[next_one]]
                if (!found || reached[found]++) continue
                count = split(needs[found], symbols, " ")
                for (i = 1; i <= count; i++) queue[++queued] = symbols[i]
            }
            for (i = 1; i <= member; i++) if (!reached[i]) { sub(/:$/, "", name[i]); print name[i] }
        }'
}
nothing "objects of libweft.a that no public function leads to; what only tools and tests call belongs into libweft-tools.a (mk/library.mk)" \
    "$(unreached "$BUILD/libweft-parts.a")"
# The check itself: a member that nothing leads to is found.
cp "$BUILD/libweft-parts.a" "$work/planted.a"
printf 'int weft_planted(void);\nint weft_planted(void)\n{\n    return 0;\n}\n' >"$work/planted.c"
${CC:-gcc} -c "$work/planted.c" -o "$work/planted.o" && ar rs "$work/planted.a" "$work/planted.o" 2>/dev/null
nothing "a planted object is not found" "$([[ $(unreached "$work/planted.a") == planted.o ]] || echo "unreached: $(unreached "$work/planted.a")")"

# What the Python package compiles the library from: every kind of file that lies in its folders, by suffix. mk/ has scripts besides.
listed_in() { sed -n "s/^$1 = \(.*\)/\1/p" bindings/torch/weft_build.py | grep -o '"[^"]*"' | tr -d '"'; }
# All files there; where there is no checkout, those of a tarball's list, or whatever there is.
package_files() {
    local folders
    readarray -t folders < <(listed_in FOLDERS | grep -vx mk)
    if [[ $(git rev-parse --show-toplevel 2>/dev/null) == "$(pwd -P)" ]]; then git ls-files "${folders[@]}"; elif [[ -f MANIFEST ]]; then
        printf '%s/\n' "${folders[@]}" | awk 'FNR == NR { folder[++count] = $0; next }
            { for (i = 1; i <= count; i++) if (index($0, folder[i]) == 1) print }' - MANIFEST
    else
        find "${folders[@]}" -type f | sort
    fi
}
left_out_of() { # SUFFIXES
    awk -v suffixes="$1" 'BEGIN { count = split(suffixes, s, " "); for (i = 1; i <= count; i++) taken[s[i]] = 1 }
        { name = $0; sub(/.*\//, "", name); suffix = match(name, /.\.[^.]*$/) ? substr(name, RSTART + 1) : ""; if (!(suffix in taken)) print }'
}
package_files >"$work/package"
suffixes=$(listed_in SUFFIXES | paste -sd ' ')
nothing "files of the library that bindings/torch/weft_build.py leaves out of the package: the suffix is not in its SUFFIXES" \
    "$(left_out_of "$suffixes" <"$work/package")"
# The check itself: files of a suffix that is not taken are found.
nothing "kinds of files that this would not miss" "$(for kind in .c .h .cl; do
    [[ $(left_out_of "$(tr ' ' '\n' <<<"$suffixes" | grep -vxF "$kind" | paste -sd ' ')" <"$work/package") ]] || echo "$kind"
done)"

nothing "global names of libweft.a, and public functions that are none" \
    "$(diff <(nm -g --defined-only "$BUILD/libweft.a" | awk 'NF == 3 { print $3 }' | sort) \
        <(sed -n '/global:/,/local:/p' libweft.map | grep -o 'weft_[a-z0-9_]*;' | tr -d ';' | sort))"

# libweft.so.0.3 while the major version is 0, libweft.so.1 afterwards; the symbols' version is the same number.
version=$(awk '$2 ~ /^WEFT_VERSION_(MAJOR|MINOR)$/ { v = v dot $3; dot = "." } END { print v }' include/weft/weft.h)
[[ $version == 0.* ]] || version=${version%%.*}
soname=$(readelf -d "$BUILD/libweft.so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
nothing "the soname" "$([[ $soname == "libweft.so.$version" ]] || echo "is $soname, libweft.so.$version is expected")"
nothing "the symbols' version in libweft.map" "$(grep -q "^WEFT_${version//./\\.} {" libweft.map || echo "WEFT_$version is expected")"

nothing "libraries that are loaded, but not named by base/runtime.h" \
    "$(grep -rnE '"lib[a-z0-9_-]+\.so' base topo devmem transport algos comm perf --include='*.[ch]' | grep -v '^base/runtime\.h:')"
nothing "libraries of base/runtime.h without a row in base/tool/runtime.c" "$(sed -n 's/^#define \(WEFT_RUNTIME_[A-Z]*\) .*/\1/p' base/runtime.h |
    while read -r name; do grep -qF "{$name," base/tool/runtime.c || echo "$name"; done)"
nothing "libraries of base/runtime.h that no code loads" "$(sed -n 's/^#define \(WEFT_RUNTIME_[A-Z]*\) .*/\1/p' base/runtime.h |
    while read -r name; do grep -rqw "$name" topo devmem transport comm || echo "$name"; done)"
listed=$(sed -n 's/^#define WEFT_RUNTIME_[A-Z]* *"\(.*\)"$/\1/p' base/runtime.h | sort)
nothing "libraries of base/runtime.h that packages neither recommend nor suggest" \
    "$("$BUILD/weft-plan" --version | awk 'NR > 2 && $4 !~ /^(recommends|suggests)$/')"
# C++ has the options on the spot too. A stream of NULL is a stream: no device has the memory, so it is refused.
cat >"$work/calls.cpp" <<'END'
#include <weft/weft.h>
int main()
{
    weft_context *context;
    weft_comm *comm;
    weft_work *work = NULL;
    float x = 1;
    if (weft_context_open(NULL, &context) || weft_comm_create(context, NULL, &comm)) return 1;
    if (weft_allreduce(comm, &x, &x, 1, WEFT_FLOAT32, WEFT_SUM, WEFT_START(&work)) || !work) return 2;
    if (weft_work_wait(work, -1) || weft_work_free(work)) return 3;
    if (weft_allreduce(comm, &x, &x, 1, WEFT_FLOAT32, WEFT_SUM, WEFT_ON(NULL)) != WEFT_INVALID) return 4;
    if (weft_barrier(comm, NULL)) return 5;
    return weft_comm_destroy(comm) || weft_context_close(context);
}
END
if command -v g++ >/dev/null; then
    for standard in c++11 c++20; do
        nothing "a program in $standard" "$(g++ -std=$standard -Wall -Wextra -pedantic -Werror -Iinclude "$work/calls.cpp" -L"$BUILD" -lweft \
            -Wl,-rpath,"$(realpath "$BUILD")" -o "$work/calls" 2>&1 || echo "is not compiled"; RANK=0 WORLD_SIZE=1 WEFT_BOOTSTRAP_FILE=$work/meet \
            "$work/calls" 2>&1 || echo "ends with $?")"
    done
else
    skip "no g++"
fi
for tool in weft-plan weft-perf weft-topo; do
    nothing "what $tool --version lists" "$(diff <(echo "$listed") <("$BUILD/$tool" --version | awk 'NR > 2 { print $1 }' | sort))"
done
sum_up
