#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tests/PROMISES.md: each section is a document that is there, or several by a pattern, each heading stands in a document, each test, case and target exists, each
# promise has something that holds it, and no document is without a section.
source "$(dirname "$0")/../support/start.sh"
shopt -s extglob
list=tests/PROMISES.md
# Pages that say how something was measured, what a word means or how another library calls something. They promise nothing of their own.
none='docs/(perf-peers|glossary|from-[a-z]*|troubleshooting|settings)\.md'

# Headings, without the files that some name in parentheses at their end.
cat README.md docs/*.md docs/*/*.md | sed -n 's/^#\{1,4\} //p' | sed 's| ([^()]*/[^()]*)$||' | sort -u >"$work/headings"
grep -hoE '^[a-zA-Z][a-z A-Z%-]*:' Makefile mk/*.mk 2>/dev/null | tr -d : | tr ' ' '\n' | sort -u >"$work/targets"

# held NAME: whether the test, case or target is there.
held() {
    local file=tests/${1%%:*} case=
    [[ $1 == *:* ]] && case=${1#*:}
    case $1 in
    "make "*) grep -qx -- "${1#make }" "$work/targets"; return ;;
    *.sh* | *.py*) ;;
    *) file+=.c ;;
    esac
    [[ -f $file ]] && { [[ ! $case ]] || grep -qw -- "$case" "$file"; }
}

check_row() { # DOCUMENT LINE
    local heading proofs name
    heading=$(awk -F ' [|] ' '{ print $2 }' <<<"$2")
    proofs=$(awk -F ' [|] ' '{ print $3 }' <<<"$2" | grep -oE '`[^`]+`' | tr -d '`')
    grep -qxF -- "$heading" "$work/headings" || echo "$1: no heading '$heading': $2"
    [[ $proofs ]] || echo "$1: nothing holds: $2"
    while read -r name; do
        [[ -z $name ]] || held "$name" || echo "$1: there is no '$name': $2"
    done <<<"$proofs"
}

document=
: >"$work/found"
while read -r line; do
    case $line in
    '## '*)
        document=${line#\#\# }
        compgen -G "$document" >>"$work/sections" || echo "no document $document"
        ;;
    '| promise '* | '| ---'*) ;;
    '| '*) check_row "$document" "$line" ;;
    esac
done <"$list" >"$work/found"
cp "$work/found" "$work/out"
if [[ ! -s $work/found ]]; then ok "what $list names is there"; else bad "what $list names is not all there"; cat "$work/found"; fi
find README.md docs -name '*.md' -size +0 | grep -vxE "$none" | sort | comm -23 - <(sort "$work/sections") >"$work/out"
if [[ ! -s $work/out ]]; then ok "each document has a section"; else bad "documents without a section in $list"; fi

# What is not there is found.
: >"$work/out"
if held comm/core/test_judge:test_majority && held topo/test_topo_report.sh && held "make check"; then ok "what is there"; else bad "what is there"; fi
for name in comm/core/test_judge:test_nothing comm/core/test_nothing topo/test_nothing.sh "make nothing"; do
    if held "$name"; then bad "'$name' is taken for a proof"; else ok "'$name' is none"; fi
done
sum_up
