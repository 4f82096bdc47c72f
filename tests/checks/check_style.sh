#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# House rules that a program can check: lengths, words that do not belong in the library. Layout is tests/tools/check_layout.sh.
source "$(dirname "$0")/../support/start.sh"

readarray -t sources < <(find include base topo devmem transport algos comm bindings perf tests examples -name '*.[ch]' -o -name '*.[ch]pp' 2>/dev/null | sort)
readarray -t texts < <(find Makefile mk libweft.map README.md .ci .clang-format docs tests perf -type f 2>/dev/null | grep -Ev '^tests/fuzz/corpus/|/__pycache__/|\.(png|abi)$' | sort)
readarray -t library < <(find base topo devmem transport algos comm -name '*.[ch]' ! -name 'weft-*.c' ! -path '*/tool/*' 2>/dev/null | sort)

# A function's body starts with { and ends with } in the first column; so do classes, which are in .hpp.
nothing "functions over 70 lines" "$(awk '
    FNR == 1 { start = 0 }
    /^{/ { start = FNR }
    /^}/ { if (start && FNR - start + 1 > 70 && FILENAME !~ /\.hpp$/) printf "%s:%d: %d lines\n", FILENAME, start, FNR - start + 1; start = 0 }
    ' "${sources[@]}")"
# The line of the licence is not one of them.
nothing "files over 600 lines" "$(awk '
    FNR == 602 { printf "%s\n", FILENAME }' "${sources[@]}" "${texts[@]}")"
# In a script it stands below the line that names the interpreter; a man page that only leads to another has no place for it.
readarray -t licensed < <(find Makefile mk libweft.map .ci include base topo devmem transport algos comm bindings perf tests examples docs/man -type f \
    \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cl' -o -name '*.cpp' -o -name '*.hpp' -o -name '*.cc' -o -name '*.py' -o -name '*.sh' \
    -o -name '*.mk' -o -name '*.map' -o -name '*.toml' -o -name Makefile -o -path '.ci/*' -o -name '*.[1-9]' \) | sort)
nothing "files without the line of the licence (SPDX-License-Identifier: Apache-2.0)" "$(awk '
    FNR == 1 { if (NR > 1 && !has) print name; has = FILENAME ~ /\.[1-9]$/ && /^\.so /; name = FILENAME }
    FNR <= 2 && /SPDX-License-Identifier: Apache-2\.0/ { has = 1 }
    END { if (!has) print name }' "${licensed[@]}")"
nothing "trailing space, tab in C or carriage return" \
    "$(grep -nE '[[:space:]]$' "${sources[@]}" "${texts[@]}"; grep -nP '\t' "${sources[@]}"; grep -nP '\r' "${texts[@]}")"
nothing "no newline at the end" "$(find "${sources[@]}" "${texts[@]}" -size +0 -print0 | xargs -0 grep -LPz '\n\z')"
nothing "unfinished work" "$(grep -nE '\b(TO''DO|FIX''ME|XX''X)\b' "${sources[@]}" "${texts[@]}")"

# Calls are looked for in code without comments and strings; the line numbers stay.
forbid() { # NAME PATTERN EXCEPT
    nothing "$1" "$(printf '%s\n' "${library[@]}" | grep -vxE "$3" | xargs awk -v pattern="(^|[^a-zA-Z0-9_.>])($2)" "$code_only"'
        FNR == 1 { comment = 0 }
        code_of($0) ~ pattern { printf "%s:%d: %s\n", FILENAME, FNR, $0 }')"
}
code_only='
    function code_of(line, at, rest) {
        gsub(/\\"/, "", line)
        gsub(/"[^"]*"/, "\"\"", line)
        while (1) {
            if (comment) {
                at = index(line, "*/")
                if (!at) return ""
                line = substr(line, at + 2)
                comment = 0
            }
            at = index(line, "/*")
            if (!at) break
            rest = substr(line, at + 2)
            line = substr(line, 1, at - 1)
            if (!index(rest, "*/")) { comment = 1; return line }
            line = line substr(rest, index(rest, "*/") + 2)
        }
        sub(/\/\/.*/, "", line)
        return line
    }'
# hwloc_trial.c makes a child process, and that is its own; only tools have it.
forbid "the library never ends the process" '(abort|exit|_exit|_Exit|quick_exit|assert|__builtin_trap) *[(]' \
    'topo/discover/hwloc_trial\.c'
forbid "the library prints only through base/log.c" '((printf|vprintf|puts|putchar|perror) *[(]|std(out|err)[^a-z_])' \
    'base/log\.c'
forbid "the library leaves signal dispositions alone" '(signal|sigaction|raise) *[(]' 'base/signals\.c|topo/discover/hwloc_trial\.c'
sum_up
