#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Words that are not used any more, for a word means one thing: in documents, man pages, comments and texts of the sources, and in names,
# those of files too. What documents have in backquotes is not looked at. tests/checks/words has the places where one may stand.
# docs/glossary.md explains the words that are used. check_words.sh PLACE... looks at these files and folders alone, check_words.sh
# --names PLACE... at names there.
set -u
cd "$(dirname "$0")/../.." || exit 1
source tests/support/tally.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Where it looks: files, and folders with all below them. Folders of sources join as they become clean.
places=(README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md docs include base algos topo comm devmem transport bindings examples perf mk)
named=(base algos topo comm devmem transport bindings include perf examples mk tests)
places+=(tests/{README.md,PROMISES.md,run.sh,abi,algos,base,checks,clock,cross,faults,fuzz,golden,harness,kill,long,perf,sanitizers}
    tests/{scripts,tools,topo,torch,vm} tests/comm/{boot,calls,core,drive,p2p} tests/fakes/{ofi,plugins,provider})
if [[ ${1:-} == --names ]]; then places=() named=("${@:2}"); elif [[ $# != 0 ]]; then places=("$@") named=(); fi

# PATTERN -> WHAT TO SAY. Patterns are of grep -E, for whole words in small letters.
cat >"$work/retired" <<'END'
lanes? -> queue pair, command queue, NIC or rail
land(s|ed|ings?)? -> receive buffer; arrive, be written
letters? -> out-of-band message
tells?|told|telling -> acknowledge, announce, say
flights? -> step in flight
gates? -> stream wait
(a|the) holds?|holds of streams -> stream wait
conduits?|lend(s|ing)?|lent -> sharing, borrowed mapping
loans? -> borrowed mapping
graves?|bur(y|ies|ied)|mourn(s|ed|ing)?|undead -> deferred destroy
device('s|s')? programs?|programs? (of|for|on) (a |the |this |each )?(device|kind)s? -> device kernel, device collective
memory of (a |the |this |its |each )?devices?|devices' memory -> device memory
operations? of (the|a) caller('s)? -> user-defined operation
under way -> in flight
in the order of (a |the |its |their )?streams? -> stream-ordered
stand-ins? -> fake
despair(s|ed|ing)?|hopeless -> give up, disable
END
# In names those of one word, and these.
{ grep -E '^[^ ]+ -> ' "$work/retired"; cat; } >"$work/retired_names" <<'END'
programs? -> device collective
unland(ed|s)? -> withdraw
untold -> what nobody has given, announced or reported
END

# Prints lines of documents without what stands in backquotes, and comments and texts of sources, as "FILE:LINE:TEXT" in small letters.
prose() { # FILE...
    awk '
    function say(text) {
        gsub(/[ \t]+/, " ", text)
        text = tolower(text)
        if (c) sub(/^ *\* /, "", text)
        if (text ~ /[a-z]/) print FILENAME ":" FNR ":" text
    }
    # Takes the next comment, text or character off rest, and adds what it says to out; 0 at the end of the line.
    function take(    at, found) {
        if (comment) {
            at = index(rest, "*/")
            out = out " " (at ? substr(rest, 1, at - 1) : rest)
            rest = at ? substr(rest, at + 2) : ""
            comment = !at
        } else if (match(rest, /\/\*|\/\/|"(\\.|[^"\\])*"|\047(\\.|[^\047\\])*\047/)) {
            found = substr(rest, RSTART, RLENGTH)
            rest = substr(rest, RSTART + RLENGTH)
            if (found == "/*") comment = 1
            else if (found == "//") { out = out " " rest; rest = "" }
            else if (found ~ /^"/) out = out " " substr(found, 2, length(found) - 2)
        } else rest = ""
        return rest != ""
    }
    FNR == 1 { comment = 0; c = FILENAME ~ /\.(c|h|cu|[ch]pp)$/; hash = FILENAME ~ /\.(sh|py|mk)$|Makefile$/ }
    c && !comment && /^ *# *include/ { next }
    c { rest = $0; out = ""; while (take()); say(out); next }
    hash { if (match($0, /(^|[ \t])#.*/)) say(substr($0, RSTART)); next }
    { gsub(/`[^`]*`/, ""); say($0) }' "$@" | awk '{ gsub(/in flight/, "in-flight"); }
        before ~ / in ?$/ { sub(/: ?flight/, ":in-flight") }
        { before = $0; print }'
}
# Prints each name of sources once for each file, its parts as words, as "FILE:LINE:words of a name". Comments have names, too: those with
# an underscore.
names() { # FILE...
    awk '
    function found(text, only_long,    name, words) {
        while (match(text, /[A-Za-z_][A-Za-z0-9_]*/)) {
            name = substr(text, RSTART, RLENGTH)
            text = substr(text, RSTART + RLENGTH)
            if (seen[name] || (only_long && name !~ /[a-zA-Z0-9]_[a-zA-Z0-9]/)) continue
            seen[name] = 1
            words = tolower(name)
            gsub(/_+/, " ", words)
            gsub(/in flight/, "in-flight", words)
            print FILENAME ":" FNR ":" words
        }
    }
    function take(    at, piece, start, end) {
        if (comment) {
            at = index(rest, "*/")
            found(at ? substr(rest, 1, at - 1) : rest, 1)
            rest = at ? substr(rest, at + 2) : ""
            comment = !at
        } else if (match(rest, /\/\*|\/\/|"(\\.|[^"\\])*"|\047(\\.|[^\047\\])*\047/)) {
            start = RSTART
            end = RSTART + RLENGTH
            piece = substr(rest, start, RLENGTH)
            found(substr(rest, 1, start - 1), 0)
            rest = substr(rest, end)
            if (piece == "/*") comment = 1
            else if (piece == "//") { found(rest, 1); rest = "" }
        } else { found(rest, 0); rest = "" }
        return rest != ""
    }
    FNR == 1 { comment = 0; split("", seen) }
    !comment && /^ *# *include/ { next }
    { rest = $0; while (take()); }' "$@"
}
# The same of the names of files.
file_names() { # FILE...
    printf '%s\n' "$@" | awk '{ words = tolower($0); gsub(/[_.\/-]+/, " ", words); gsub(/in flight/, "in-flight", words); print $0 ":0:" words }'
}
# Where lines of PROSE meet: the last words of one and the first of the next.
seams() { # PROSE
    awk '{ text = $0; sub(/^[^:]*:[0-9]*:/, "", text); place = substr($0, 1, length($0) - length(text)); count = split(text, words, " ")
        first = words[1] " " words[2] " " words[3] " " words[4]
        if (last != "") print place last " " first
        last = words[count - 3] " " words[count - 2] " " words[count - 1] " " words[count] }' "$1"
}

# tests/checks/words: FILE as a pattern of the shell, a pattern of grep -E, and a reason behind " # "; rows for names begin with names:.
allowed() { # FILE TEXT LIST
    local file pattern
    while read -r file pattern; do
        # shellcheck disable=SC2053
        [[ $1 == $file && $2 =~ $pattern ]] && return
    done <"$3"
    return 1
}
sed -n '/^names:/d; /^[^#]/s/ *# .*//p' tests/checks/words >"$work/allowed"
sed -n 's/^names:\(.*[^ ]\) *# .*/\1/p' tests/checks/words >"$work/allowed_names"

# Prints each use of a retired word in PROSE, and of several in SEAMS, that no allowed place covers.
uses() { # PROSE [SEAMS]
    look_for retired allowed "$@"
}
# The same of names.
name_uses() { # NAMES
    look_for retired_names allowed_names "$@"
}
look_for() { # RETIRED ALLOWED PROSE [SEAMS]
    local row line text retired=$work/$1 allowed=$work/$2
    shift 2
    while IFS= read -r row; do
        cat "$1" $([[ ${row% -> *} == *' '* ]] && echo "${2:-}") |
            grep -E "^[^:]*:[0-9]+:(.*[^a-z0-9_./-])?(${row% -> *})([^a-z0-9_(./-]|[.-]([^a-z0-9]|\$)|\$)" | while IFS= read -r line; do
            text=${line#*:}
            allowed "${line%%:*}" "${text#*:}" "$allowed" || echo "${line:0:160} [${row#* -> }]"
        done
    done <"$retired"
}

list() { # PATTERN PLACE...
    [[ $# == 1 ]] || find "${@:2}" -type f | grep -E "$1" | grep -vx 'tests/checks/check_words\.sh' | sort
}
each() { xargs -r bash -c "$(declare -f "$1"); $1 \"\$@\"" "$1"; }
list '\.(md|[1-9]|[ch]|cu|[ch]pp|sh|py|mk)$|Makefile$' "${places[@]}" | each prose >"$work/prose"
seams "$work/prose" >"$work/seams"
nothing "words that are not used any more; [what to say]" "$(uses "$work/prose" "$work/seams" | sort)"
{ list '\.([ch]|cu|[ch]pp)$' "${named[@]}" | each names; list . "${named[@]}" | grep -v ^tests/fuzz/corpus/ | each file_names; } >"$work/names"
nothing "words in names that are not used any more; [what to say]" "$(name_uses "$work/names" | sort)"
nothing "rows of tests/checks/words without a reason" "$(sed -n '/^[^#]/{/ # ./!p}' tests/checks/words)"

# The check itself: what is planted is found, in comments and texts and not in names.
cat >"$work/planted.c" <<'END'
int lane_open(struct lane *lane); /* a step in flight */
const char *text = "the lane is full"; // undead
/* Steps that are under
 * way. A flight. */
int steps_in_flight; /* weft_gate_open() is a name, two lanes are none */
int unland, by_rank; // told
END
prose "$work/planted.c" >"$work/found"
seams "$work/found" >"$work/seams"
{ names "$work/planted.c"; file_names lane.c tests/flight_in; } >"$work/names"
nothing "planted names are not found as they are" "$(diff <(printf '%s\n' 0:flight 0:lane 1:lane 1:lane 5:weft 6:unland) <(name_uses "$work/names" |
    sed -E 's/^[^:]*:([0-9]+):(tests )?([a-z]+).*/\1:\3/' | sort))"
nothing "planted words are not found as they are" "$(diff <(printf '%s\n' 2 4 5 6) <(uses "$work/found" "$work/seams" | sed "s|^$work/planted.c:||; s/:.*//" | sort -u))"
sum_up
