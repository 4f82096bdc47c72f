#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Which room may use which: tests/checks/rooms, by what files include and by what their objects define and need, so that a
# declaration of one's own does not hide a call upward. And which files of a room use each other in a circle: tests/checks/circles.
#
# Headers are named by their path from the root of the tree ("base/log.h").
source "$(dirname "$0")/../support/start.sh"
checks=tests/checks

# Lines "user, used, by what": the includes of the tree $1.
includes() {
    (cd "$1" && find include base topo devmem transport algos comm bindings perf \( -name '*.[ch]' -o -name '*.cpp' \) 2>/dev/null |
        LC_ALL=C sort | xargs -r awk '/^[ \t]*#[ \t]*include[ \t]*"/ { split($0, quoted, "\""); print FILENAME, quoted[2], "#include" }')
}

# The same of the objects below $2 of the sources below $1: who needs which symbol of whom.
symbols() {
    (cd "$1" && find base topo devmem transport algos comm -name '*.c' 2>/dev/null) | sed 's/c$/o/' |
        (cd "$2" && xargs -r ls 2>/dev/null | xargs -r nm -A) | awk '
        { split($1, place, ":"); file = place[1]; sub(/\.o$/, ".c", file) }
        $(NF - 1) == "U" { user[++count] = file; needed[count] = $NF; next }
        $(NF - 1) ~ /^[A-TV-Z]$/ { defines[$NF] = file }
        END { for (i = 1; i <= count; i++)
                if (needed[i] in defines && defines[needed[i]] != user[i]) print user[i], defines[needed[i]], needed[i] }'
}

# Violations among such lines, by the table of rooms.
violations() {
    awk '
        FNR == NR { if (/^[a-z].*:/) { name = $1; sub(/:.*/, "", name); sub(/^[^:]*:/, ""); allowed[name] = " " $0 " " } next }
        function room(file,    r) {
            for (r = file; sub(/\/[^\/]*$/, "", r);) if (r in allowed) return r
            return ""
        }
        {
            from = room($1); to = room($2)
            if ($3 == "#include" && ($2 !~ /\// || $2 ~ /\.\./)) print $0 ": name the header by its path from the root"
            else if ($3 == "#include" && $2 ~ /^(weft|include)\//) print $0 ": public headers are included as <weft/...>"
            else if (from == "") print $0 ": " $1 " is in no room"
            else if (allowed[from] ~ /\*/) next
            else if (to == "") print $0 ": " $2 " is in no room"
            else if (from != to && index(single(allowed[from]), " " to " ") == 0)
                print $1 " uses " $2 " (" $3 "): " from " may not use " to
        }
        function single(text) { gsub(/[ \t]+/, " ", text); return text }' "$checks/rooms" -
}

# Files of one room that reach each other: a line for each circle, its files sorted.
circles() {
    awk '
        function room(file) { sub(/\/[^\/]*$/, "", file); return file }
        room($1) == room($2) && $3 != "#include" && !(($1, $2) in edge) {
            edge[$1, $2] = 1; uses[$1] = uses[$1] " " $2; files[$1]; files[$2]
        }
        function walk(file, top,    list, i, n) {
            n = split(uses[file], list, " ")
            for (i = 1; i <= n; i++) if (!((top, list[i]) in reach)) { reach[top, list[i]] = 1; walk(list[i], top) }
        }
        END {
            for (f in files) walk(f, f)
            for (f in files) for (g in files) if (((f, g) in reach) && ((g, f) in reach)) print f, g
        }' | LC_ALL=C sort | awk '
        !($1 in seen) || seen[$1] == $1 { if (!($1 in seen)) seen[$1] = $1; line[$1] = line[$1] " " $2; seen[$2] = $1 }
        END { for (f in line) { sub(/^ /, "", line[f]); print line[f] } }' | LC_ALL=C sort
}

includes . >"$work/includes"
symbols . "$BUILD" >"$work/symbols"
violations <"$work/includes" >"$work/found"
violations <"$work/symbols" >>"$work/found"
nothing "what tests/checks/rooms does not allow" "$(LC_ALL=C sort -u "$work/found")"
nothing "no objects in $BUILD: make lib" "$([[ -s $work/symbols ]] || echo "$BUILD")"
nothing "circles of files that tests/checks/circles does not list (<), or lists though they are gone (>)" \
    "$(diff <(circles <"$work/symbols") <(grep -v '^#' "$checks/circles") | grep '^[<>]')"

# The check finds what is planted.
planted() { # FILE INCLUDE
    mkdir -p "$work/tree/$(dirname "$1")" && printf '#include "%s"\n' "$2" >"$work/tree/$1"
    includes "$work/tree" | violations
    rm -rf "$work/tree"
}
refused() { nothing "'$1' may include '$2'" "$([[ $(planted "$@") ]] || echo "$1")"; }
allowed() { nothing "'$1' may not include '$2'" "$(planted "$@")"; }
refused base/x.c algos/plan.h
refused include/weft/x.h base/log.h
refused algos/x.c transport/registry.h
refused transport/shm/x.c base/tool/args.h
refused transport/shm/x.c transport/ofi/ofi.h
refused transport/ofi/x.c transport/verbs/load.h
refused comm/exec/x.c transport/shm/shm.h
refused comm/exec/x.c comm/core/comm.h
refused comm/drive/x.c comm/exec/device/votes.h
refused comm/form/x.c comm/calls/op.h
refused comm/calls/x.c comm/form/agree.h
refused comm/x.c base/log.h
refused perf/x.c base/clock.h
refused comm/core/x.c error.h
refused bindings/torch/x.cpp ../../comm/core/comm.h
refused algos/x.c algos/proof/verify.h
refused topo/live/x.c topo/discover/discover.h
refused perf/device/x.c transport/registry.h
allowed topo/tool/x.c topo/discover/discover.h
allowed transport/registry.c transport/verbs/verbs.h
allowed comm/exec/x.c algos/plan.h
allowed comm/exec/device/x.c comm/exec/exec.h
allowed perf/micro/x.c comm/exec/exec.h

# A call upward under a declaration of one's own, and a circle of two files.
plant_object() { # FILE TEXT
    mkdir -p "$work/objects/$(dirname "$1")" && echo "$2" >"$work/objects/${1%o}c" && ${CC:-gcc} -c "$work/objects/${1%o}c" -o "$work/objects/$1"
}
plant_object comm/drive/low.o 'int high(void); int low(void) { return high(); }'
plant_object comm/calls/high.o 'int low(void); int high(void) { return low(); }'
nothing "a planted call upward is not found" "$([[ $(symbols "$work/objects" "$work/objects" | violations) == \
    "comm/drive/low.c uses comm/calls/high.c (high): comm/drive may not use comm/calls" ]] || echo comm/drive/low.c)"
plant_object comm/drive/one.o 'int two(void); int one(void) { return two(); }'
plant_object comm/drive/two.o 'int one(void); int two(void) { return one(); }'
nothing "a planted circle is not found" \
    "$([[ $(symbols "$work/objects" "$work/objects" | circles) == "comm/drive/one.c comm/drive/two.c" ]] || echo comm/drive/one.c)"
sum_up
