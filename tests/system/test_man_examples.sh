#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The examples of the pages in section 3 of docs/man: each page has one that calls all functions of the page; all compile without a
# warning, each runs with the ranks that it names, started as the program of README.md is, and prints what the page says. How they are
# written: CONTRIBUTING.md, "Add a man page".
source "$(dirname "$0")/../support/start.sh"
. tests/checks/ranks.sh
export WEFT_TIMEOUT_MS=30000
readarray -t pages < <(grep -L '^\.so ' docs/man/*.3)

# For each PAGE: a function in C into $work/code, its ranks and its name into $work/list, what it prints into $work/NAME.prints, the
# functions of the page that it does not call into $work/left_out.
awk -v work="$work" -v port="$(free_port)" '
function finish(    i) {
    if (!page) return
    if (!code) print page ": no example" >(work "/left_out")
    for (i = 1; i <= named; i++) if (code && code functions !~ ("(^|[^a-z_])" names[i] "\\("))
        print page ": its example does not call " names[i] "()" >(work "/left_out")
    if (!code) return
    printf "%s#line 1 \"frame of %s\"\nstatic int run_%s(weft_context *context, weft_comm *comm, weft_comm **left)\n{\n", functions, page, name >(work "/code")
    printf "    int status = WEFT_OK, rank = weft_comm_rank(comm), ranks = weft_comm_size(comm);\n    (void)context, (void)rank, (void)ranks;\n%s", code >(work "/code")
    printf "#line 10 \"frame of %s\"\n    *left = comm;\n    return status;\n}\n", page >(work "/code")
    print ranks, name >(work "/list")
}
FNR == 1 { finish(); page = FILENAME; name = page; gsub(/.*\/|\.3$/, "", name); code = functions = mark = ""; on = block = named = 0; ranks = 2 }
/^\.Nm weft_/ { if (!on && $2 != "weft_call_options") names[++named] = $2; next }
/^\.Sh / { on = $0 == ".Sh EXAMPLES"; next }
!on { next }
/^\.\\" ranks: / { ranks = $3; next }
/^\.\\" (prints|functions)$/ { mark = $2; next }
/^\.Bd -literal/ { block = 1; where = "#line " FNR + 1 " \"" page "\"\n"
    if (mark == "functions") functions = functions where; else if (mark == "") code = code "    if (status == WEFT_OK) {\n" where
    next }
/^\.Ed/ { if (mark == "") code = code "    }\n"; block = 0; mark = ""; next }
!block { next }
{ sub(/^\\&/, ""); gsub(/\\e/, "\\"); gsub(/\\-/, "-"); gsub(/29600/, port) }
mark == "prints" { print >(work "/" name ".prints"); next }
mark == "functions" { functions = functions $0 "\n"; next }
{ code = code $0 "\n" }
END { finish() }' "${pages[@]}"
: >>"$work/left_out"
nothing "pages without an example, or with functions that it does not call" "$(cat "$work/left_out")"

{
    printf '#include <%s>\n' poll.h semaphore.h stdint.h stdio.h stdlib.h string.h unistd.h weft/weft.h
    cat "$work/code"
    echo 'static const struct { const char *name; int (*run)(weft_context *context, weft_comm *comm, weft_comm **left); } examples[] = {'
    awk '{ printf "    {\"%s\", run_%s},\n", $2, $2 }' "$work/list"
    cat <<'END'
};

int main(int count, char **arguments)
{
    weft_context *context;
    weft_comm *comm;
    int status = WEFT_NOT_FOUND;

    if (count != 2 || weft_context_open(NULL, &context) || weft_comm_create(context, NULL, &comm))
        return fprintf(stderr, "%s\n", weft_error_detail()), 1;
    for (size_t i = 0; i < sizeof(examples) / sizeof(*examples); i++)
        if (strcmp(examples[i].name, arguments[1]) == 0)
            status = examples[i].run(context, comm, &comm);
    if (status)
        fprintf(stderr, "%s: %s\n", weft_strerror(status), weft_error_detail());
    weft_comm_destroy(comm);
    /* WEFT_BUSY: the example has left something behind. */
    if (weft_context_close(context))
        return fprintf(stderr, "closing the context: %s\n", weft_error_detail()), 1;
    return status ? 1 : 0;
}
END
} >"$work/examples.c"
read -ra sanitizer <<<"${SANITIZER_FLAGS-}"
step "they compile" ${CC:-gcc} -std=gnu11 -Wall -Wextra -Werror "${sanitizer[@]}" -pthread -Iinclude "$work/examples.c" "$BUILD/libweft.so" -Wl,-rpath,"$PWD/$BUILD" -o "$work/examples"

if [[ -x $work/examples ]]; then
    while read -r ranks name; do
        run_ranks "$ranks" "$work/examples" "$name" >"$work/out" 2>"$work/err" </dev/null
        status=$?
        if [[ $status != 0 ]]; then
            bad "the example of $name"
        elif [[ -f $work/$name.prints ]] && ! diff <(sort "$work/$name.prints") <(sort "$work/out") >"$work/differs"; then
            cp "$work/differs" "$work/out"
            bad "what the example of $name prints: as the page has it (<), as it is (>)"
        else
            ok "$name"
        fi
    done <"$work/list"
fi
sum_up
