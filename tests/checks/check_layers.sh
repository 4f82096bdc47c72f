#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Which folder may include which: the table of docs/architecture.md. tests/checks/check_layers.sh [ROOT]
#
# Quoted includes name a header by its path from the root of the tree ("base/log.h"). Headers private to a
# transport stay in its folder; only the registry of transports names them. Without ROOT it also plants violations in a scratch tree and expects to find them.
set -u

# Prints violations found under the tree $1; returns 1 when there are any.
check_tree() {
    (cd "$1" && find include base topo devmem transport algos comm bindings perf \( -name '*.[ch]' -o -name '*.cpp' \) \
        2>/dev/null | sort | xargs -r awk '
        BEGIN {
            allowed["include"] = ""
            allowed["base"] = "base"
            allowed["topo"] = "base topo"
            allowed["devmem"] = "base devmem"
            allowed["transport"] = "base devmem transport"
            allowed["algos"] = "base topo algos"
            allowed["comm"] = "base topo devmem transport algos comm"
            allowed["bindings"] = "bindings"
            allowed["perf"] = "base/tool perf perf/device"
            # Folders of the list TOOLS_ONLY in mk/library.mk: the library sees nothing of them.
            allowed["base/tool"] = "base base/tool"
            allowed["topo/discover"] = "base topo topo/discover"
            allowed["topo/report"] = "base topo topo/report"
            allowed["topo/tool"] = "base base/tool topo topo/discover topo/report topo/tool"
            allowed["algos/proof"] = "base base/tool topo topo/report algos algos/proof"
            # The micro-benchmarks look inside on purpose, and so does what measures devices, since who opens their kinds is not public.
            allowed["perf/device"] = "comm devmem perf perf/device"
            allowed["perf/micro"] = "base topo topo/report devmem transport algos algos/proof comm perf perf/micro tests"
        }
        # A folder below another one is a room of its own where it has a row.
        function room(parts) {
            return parts[1] "/" parts[2] in allowed ? parts[1] "/" parts[2] : parts[1]
        }
        function violation(why) {
            printf "%s:%d: %s: %s\n", FILENAME, FNR, $0, why
            bad = 1
        }
        /^[ \t]*#[ \t]*include[ \t]*"/ {
            split($0, quoted, "\"")
            header = quoted[2]
            depth = split(FILENAME, from, "/")
            parts = split(header, to, "/")
            layer = room(from)
            if (parts < 2 || header ~ /\.\./)
                violation("name the header by its path from the root")
            else if (to[1] == "weft" || to[1] == "include")
                violation("public headers are included as <weft/...>")
            else if (index(" " allowed[layer] " ", " " room(to) " ") == 0)
                violation(layer "/ may include only <weft/...>" (allowed[layer] ? ", " allowed[layer] : ""))
            else if (to[1] == "transport" && parts > 2 && layer != "perf/micro" &&
                     FILENAME != "transport/registry.c" &&
                     !(from[1] == "transport" && depth > 2 && from[2] == to[2]))
                violation("private to transport/" to[2] "/")
        }
        END { exit bad }') || return 1
}

plant() { # FILE INCLUDE
    rm -rf "$scratch"/tree
    mkdir -p "$scratch/tree/$(dirname "$1")"
    printf '/* planted */\n#include <stdio.h>\n#%s\n' "$2" >"$scratch/tree/$1"
}

if [[ $# == 1 ]]; then
    check_tree "$1"
    exit
fi

cd "$(dirname "$0")/../.." || exit 1
passed=0
failed=0
expect() { # STATUS FILE INCLUDE
    plant "$2" "$3"
    check_tree "$scratch/tree" >/dev/null
    if [[ $? == "$1" ]]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "check-layers: expected status $1 for '#$3' in $2"
    fi
}
if check_tree .; then passed=1; else failed=1; fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
expect 1 base/x.c 'include "algos/plan.h"'
expect 1 include/weft/x.h 'include "base/log.h"'
expect 1 algos/x.c ' include "transport/registry.h"'
expect 1 transport/shm/x.c 'include "comm/service.h"'
expect 1 transport/shm/x.c 'include "transport/ofi/ofi.h"'
expect 1 transport/ofi/x.c 'include "transport/verbs/load.h"'
expect 1 comm/x.c 'include "transport/shm/shm.h"'
expect 1 devmem/x.c 'include "transport/registry.h"'
expect 1 perf/x.c 'include "base/clock.h"'
expect 1 comm/x.c 'include "error.h"'
expect 1 bindings/torch/x.cpp 'include "../../comm/x.h"'
expect 1 algos/x.c 'include "algos/proof/verify.h"'
expect 1 comm/x.c 'include "topo/discover/discover.h"'
expect 1 topo/live/x.c 'include "topo/discover/discover.h"'
expect 0 topo/tool/x.c 'include "topo/discover/discover.h"'
expect 0 transport/registry.c 'include "transport/shm/shm.h"'
expect 0 transport/registry.c 'include "transport/verbs/verbs.h"'
expect 0 comm/x.c 'include "algos/plan.h"'
expect 0 transport/shm/x.c 'include "transport/shm/shm.h"'
expect 0 perf/micro/x.c 'include "comm/exec.h"'
expect 0 perf/device/x.c 'include "devmem/devices.h"'
expect 1 perf/device/x.c 'include "transport/registry.h"'
expect 0 perf/x.c 'include <weft/weft.h>'
echo "$passed passed, $failed failed, 0 skipped"
[[ $failed == 0 ]]
