#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the pages ask a reader to do works: links and their #anchors lead somewhere, names exist, commands run.
#
# Commands stand in blocks that begin with ```sh, by page in one scratch folder and one shell, with weft installed:
#   ```sh          is run and must succeed
#   ```sh fails    is run and must fail
#   ```sh WORD     needs something else (a cluster, torch, root): bash -n, and what it names of this tree must exist
# A block that begins with ```LANGUAGE NAME.EXTENSION is a file of that name in the scratch folder; C without a name is sum.c.
# The job's port in the pages, 29600, becomes one that is free, and ranks are patient with a busy machine. check_commands.sh PAGE... runs these pages alone.
source "$(dirname "$0")/../support/start.sh"
. tests/checks/ranks.sh

shopt -s nullglob
documents=(*.md docs/*.md docs/guides/*.md tests/*.md tests/*/*.md perf/*.md)
followed=(README.md CONTRIBUTING.md SECURITY.md docs/tools.md docs/limits.md docs/troubleshooting.md docs/from-*.md docs/guides/*.md)
[[ $# == 0 ]] || followed=("$@")

# --- links

# "LINE TARGET" for each link outside of code.
links() { # PAGE
    awk '/^ *```/ { code = !code; next } code || /^    [^ *0-9-]/ { next }
        { gsub(/`[^`]*`/, "")
          while (match($0, /\]\([^)]+\)/)) { print FNR, substr($0, RSTART + 2, RLENGTH - 3); $0 = substr($0, RSTART + RLENGTH) } }' "$1"
}
# The anchors that the headings of a page make.
anchors() { # PAGE
    awk '/^ *```/ { code = !code; next } code { next }
        /^#+ / { sub(/^#+ +/, ""); text = tolower($0); gsub(/\]\([^)]*\)/, "", text); gsub(/[^a-z0-9_ -]/, "", text)
            gsub(/ /, "-", text); print text (seen[text]++ ? "-" seen[text] - 1 : "") }' "$1"
}
nothing "links that lead nowhere" "$(for page in "${documents[@]}"; do
    while read -r line target; do
        [[ $target == *://* || $target == mailto:* ]] && continue
        file=${target%%#*}
        path=$page
        [[ $file ]] && path=$(dirname "$page")/$file
        if [[ ! -e $path ]]; then
            echo "$page:$line: $target"
        elif [[ $target == *#* && $path == *.md ]] && ! anchors "$path" | grep -qxF -- "${target#*#}"; then
            echo "$page:$line: $target: no such heading"
        fi
    done < <(links "$page")
done)"

# --- names

# Of the past are those in CHANGELOG.md.
named=()
for page in "${documents[@]}"; do [[ $page == CHANGELOG.md ]] || named+=("$page"); done
names() { grep -ohE "$1" "${named[@]}" | sort -u; }
code=$(grep -rhoE '\b(WEFT|weft)_[A-Za-z0-9_]+' include base algos topo devmem transport comm bindings perf examples tests Makefile mk .ci \
    --include=* --exclude=*.md 2>/dev/null | sort -u)
nothing "WEFT_ names in documents that no source has" "$(comm -23 <(names '\bWEFT_[A-Z0-9_]*[A-Z0-9]\b') <(echo "$code" | sort -u))"
nothing "weft_...() in documents that no source has" "$(comm -23 <(names '\bweft_[a-z0-9_]+\(\)' | tr -d '()') <(echo "$code" | sort -u))"
# Headings in quotes are lines of the log or of errors, as far as they never change.
texts=$(cat base/*.c base/net/*.c comm/*/*.c comm/*/*/*.c devmem/*.c devmem/*/*.c transport/*/*.c topo/*.c topo/*/*.c perf/*.c bindings/torch/csrc/*.cpp bindings/torch/*/*.py |
    tr -d '\n' | sed 's/" *"//g')
nothing "lines of the log in docs/troubleshooting.md that no source has" "$(sed -n 's/^#* "\(.*\)"$/\1/p' docs/troubleshooting.md |
    while IFS= read -r text; do grep -qF -- "$text" <<<"$texts" || echo "$text"; done)"
nothing "statuses that docs/troubleshooting.md leaves out" "$(sed -n 's/^ *X(\(WEFT_[A-Z_]*\), -.*/\1/p' include/weft/status.h |
    while read -r status; do grep -q "^### $status\$" docs/troubleshooting.md || echo "$status"; done)"

# --- commands

targets=$(grep -hoE '^[a-z][a-z -]*:' Makefile mk/*.mk 2>/dev/null | tr -d : | tr ' ' '\n' | sort -u)
# What a block that is not run names of this tree.
lost_names() { # FILE
    local text
    text=$(sed 's/\(^\| \)#.*//' "$1")
    grep -oE '\bmake( [A-Z_]+=[^ ]*)*( [a-z][^ ]*)+' <<<"$text" | tr ' ' '\n' | grep -vE '=|/|^make$' | while read -r target; do
        grep -qx -e "$target" <<<"$targets" || echo "make $target: no such target"
    done
    grep -oE '(^|[ "])(\./)?(build|bindings|docs|examples|perf|tests)/[A-Za-z0-9_./-]+' <<<"$text" | sed 's|^[ "]*||; s|^\./||' | while read -r path; do
        [[ -e $path || -e $BUILD/${path#build/} || -e ${path#build/}.c ]] || echo "$path: not there"
    done
    grep -oE 'weft-(perf|plan|topo) [^|&;>]*' <<<"$text" | while read -r tool command rest; do
        # An option that a tool does not have is an error before anything else.
        for option in $command $rest; do
            [[ $option == --[a-z]* ]] || continue
            { [[ $command == -* ]] && "$BUILD/$tool" --help || "$BUILD/$tool" "$command" --help; } 2>&1 |
                grep -q -e "${option%%=*}" || echo "$tool: no option $option"
        done
    done
}

if [[ ! -x $BUILD/weft-perf ]]; then
    skip "the commands of the documents need a build in $BUILD"
    sum_up
    exit
fi
prefix=$work/prefix
MAKEFLAGS='' ${MAKE:-make} --no-print-directory BUILD="$BUILD" CC="${CC:-gcc}" PREFIX="$prefix" DESTDIR= install >"$work/log" 2>&1 ||
    nothing "make install" "$(tail -n 5 "$work/log")"

# Writes a page's files into FOLDER, its commands to be run into FOLDER.run, others into FOLDER.KIND-N.
cut_out() { # PAGE FOLDER PORT
    mkdir -p "$2"
    sed "s/\b29600\b/$3/g" "$1" | awk -v folder="$2" '
        /^```/ && out != "" { if (kind == "fails") print "EOF_OF_BLOCK\nif bash -eu fails.sh; then echo \"this succeeds:\"; cat fails.sh; exit 1; fi" >out
            if (kind != "run" && kind != "fails") close(out)
            out = ""; next }
        /^```(sh|bash)( |$)/ || /^```[a-z]+ [^ ]+\.[a-z0-9]+$/ || /^```c$/ {
            kind = $2
            if ($1 == "```c" && kind == "") kind = "sum.c"
            if (kind == "") { kind = "run"; out = folder ".run" }
            else if (kind == "fails") { out = folder ".run"; print "cat >fails.sh <<\"EOF_OF_BLOCK\"" >out }
            else if (kind ~ /\./) out = folder "/" kind
            else out = folder "." kind "-" ++count
            next }
        /^```/ { other = !other }
        out != "" { print >out }'
}

for page in "${followed[@]}"; do
    folder=$work/$(tr '/.' '__' <<<"$page")
    cut_out "$page" "$folder" "$(free_port)"
    problems=
    for block in "$folder".*; do
        problems+=$(bash -n "$block" 2>&1 && [[ $block != *.run ]] && lost_names "$block")
    done
    for file in "$folder"/*.sh "$folder"/*.sbatch; do problems+=$(bash -n "$file" 2>&1); done
    if [[ -z $problems && -f $folder.run ]]; then
        problems=$(cd "$folder" && HOME=$folder PATH=$prefix/bin:$PATH LD_LIBRARY_PATH=$prefix/lib PKG_CONFIG_PATH=$prefix/lib/pkgconfig \
            MANPATH=$prefix/share/man: timeout -k 5 100 bash -eux "$folder.run" 2>&1 </dev/null) && problems=
        [[ -z $problems ]] || problems="its commands end with an error: $(tail -n 12 <<<"$problems")"
    fi
    nothing "$page" "$problems"
done
sum_up
