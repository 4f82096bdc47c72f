#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run: beside (daemons); early
# Jobs that mpirun of Open MPI starts, through PMIx: on this host, and on two hosts as far as Open MPI is concerned.
set -u
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT WEFT_PORT WEFT_BOOTSTRAP_FILE "${!PMIX@}" "${!OMPI@}" "${!PRTE@}"
mpirun=$(command -v mpirun.openmpi || command -v mpirun) || { echo "SKIP: no mpirun: install openmpi-bin"; exit 77; }
"$mpirun" --version 2>/dev/null | grep -q 'Open MPI\|OpenRTE\|PRRTE' ||
    { echo "SKIP: mpirun is not Open MPI's: install openmpi-bin"; exit 77; }
[[ -x $BUILD/weft-perf ]] || { echo "SKIP: $BUILD/weft-perf is not built"; exit 77; }
pkg-config --exists pmix || { echo "SKIP: weft was built without PMIx: install libpmix-dev"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Nothing leaves this host, sessions end with us, and root may run it.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 \
    PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_oob_tcp_if_include=lo PRTE_MCA_oob_tcp_if_include=lo TMPDIR=$work
launch=("$mpirun" --oversubscribe)
source "$(dirname "${BASH_SOURCE[0]}")/../support/pmix_jobs.sh"
common

# Rank 1 kills itself in the middle of a sweep. mpirun ends the job then; asked to leave the others alone, it does, and
# they find out by themselves.
cat >"$work/killed" <<EOF
#!/bin/sh
[ "\$PMIX_RANK" != 1 ] || (sleep 2; kill -9 \$\$) &
exec "$perf" allreduce -e 8 -n 1000000 -f 2
EOF
chmod +x "$work/killed"
job 3 "$work/killed"
if [[ $rc != 0 ]] && grep -q 'rank 1 .*signal 9 (Killed)\|rank 1 on host .* died' "$work/err"; then
    ok "mpirun ends a job with a killed rank as failed"
else
    bad "a killed rank (status $rc)"
fi
launch+=(--enable-recovery)
job 3 "$work/killed"
if [[ $(grep -c 'rank [02]: .*a rank failed: rank 1 on host .*(pid [0-9]*)' "$work/err") == 2 ]]; then
    ok "a killed rank is named by every other"
else
    bad "a killed rank is named by every other"
fi
unset 'launch[-1]'

# Two hosts: daemons that Open MPI believes to be on other machines, reached without ssh, under other host names. Each
# has a PMIx server of its own, so that records travel from one to the other.
cat >"$work/agent" <<'EOF'
#!/bin/sh
host=$1
shift
exec unshare -u sh -c "hostname $host; $*"
EOF
chmod +x "$work/agent"
if unshare -u true 2>/dev/null; then
    export OMPI_MCA_plm=rsh OMPI_MCA_plm_rsh_agent=$work/agent PRTE_MCA_plm=ssh PRTE_MCA_plm_ssh_agent=$work/agent
    launch=("$mpirun" --oversubscribe --host "nodea:2,nodeb:2")
    mode "two hosts: what the launcher knows of ranks and nodes" 4 facts 2 2
    mode "two hosts: communicators by name, each made three times" 4 recreate
    mode "two hosts: a rank that comes late is named, and the next attempt works" 4 late 4 "$work/gave-up-4"
    job 4 sh -c "'$ranks' recreate && '$ranks' recreate"
    if [[ $rc == 0 && $(grep -c "is fine" "$work/out") == 8 ]]; then
        ok "two hosts: two programs, one after the other, in one job"
    else
        bad "two hosts: two programs, one after the other, in one job (status $rc)"
    fi
else
    skip "two hosts: unshare -u is not allowed here"
fi
finish
