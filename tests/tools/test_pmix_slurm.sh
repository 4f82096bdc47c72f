#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run: beside (daemons, deadlines)
# Jobs that srun starts, through Slurm's PMIx plug-in: on a Slurm of one node that this script runs for itself, as
# root, in a temporary folder, on ports and sockets of its own. Its daemons are ended by process id.
set -u
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT WEFT_PORT WEFT_BOOTSTRAP_FILE "${!PMIX@}" "${!SLURM@}"
[[ -x $BUILD/weft-perf ]] || { echo "SKIP: $BUILD/weft-perf is not built"; exit 77; }
pkg-config --exists pmix || { echo "SKIP: weft was built without PMIx: install libpmix-dev"; exit 77; }
for program in srun slurmctld slurmd munged; do
    command -v $program >/dev/null ||
        { echo "SKIP: no Slurm: install slurmctld, slurmd, slurm-client, slurm-wlm-basic-plugins and munge"; exit 77; }
done
[[ $(id -u) == 0 ]] || { echo "SKIP: a Slurm of one's own needs root"; exit 77; }
work=$(mktemp -d /tmp/weft-slurm.XXXXXX) # short: Slurm makes sockets below
host=$(hostname -s)
daemons=()
end() {
    local i pid
    for ((i = ${#daemons[@]} - 1; i >= 0; i--)); do
        pid=${daemons[i]}
        kill "$pid" 2>/dev/null || continue
        for _ in {1..50}; do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
        kill -9 "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
    done
    rm -rf "$work"
}
trap end EXIT
trap 'exit 1' TERM INT

. tests/support/port.sh
mkdir "$work/munge" "$work/state" "$work/spool"
chmod 755 "$work" "$work/munge"
head -c 1024 /dev/urandom >"$work/munge.key"
chmod 600 "$work/munge.key"
cat >"$work/slurm.conf" <<EOF
ClusterName=weft
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
AuthType=auth/munge
AuthInfo=socket=$work/munge/s
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=pmix
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=$host NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
EOF
export SLURM_CONF=$work/slurm.conf
munged --foreground --force --num-threads=2 --socket="$work/munge/s" --key-file="$work/munge.key" \
    --pid-file="$work/munge/pid" --log-file="$work/munge/log" --seed-file="$work/munge/seed" >"$work/munged.out" 2>&1 &
daemons+=($!)
for _ in {1..50}; do
    [[ -S $work/munge/s ]] && break
    sleep 0.1
done
slurmctld -D >"$work/slurmctld.out" 2>&1 &
daemons+=($!)
slurmd -D -N "$host" >"$work/slurmd.out" 2>&1 &
daemons+=($!)
for _ in {1..150}; do
    state=$(timeout 5 sinfo -h -o %T 2>/dev/null)
    [[ $state == idle ]] && break
    sleep 0.2
done
if [[ ${state:-} != idle ]]; then
    tail -n 5 "$work"/*.out "$work"/*.log
    echo "SKIP: Slurm does not come up here (its node is '${state:-}')"
    exit 77
fi
srun --mpi=list 2>&1 | grep -q pmix || { echo "SKIP: this Slurm has no PMIx plug-in: $(srun --mpi=list 2>&1 | xargs)"; exit 77; }

launch=(srun)
source "$(dirname "${BASH_SOURCE[0]}")/../support/pmix_jobs.sh"
common

# srun leaves the others running when a rank is killed, and they find out by themselves.
cat >"$work/killed" <<EOF
#!/bin/sh
[ "\$PMIX_RANK" != 1 ] || (sleep 2; kill -9 \$\$) &
exec "$perf" allreduce -e 8 -n 1000000 -f 2
EOF
chmod +x "$work/killed"
job 3 --kill-on-bad-exit=0 "$work/killed"
if [[ $rc != 0 && $(grep -c 'rank [02]: .*a rank failed: rank 1 on host .*(pid [0-9]*)' "$work/err") == 2 ]]; then
    ok "a killed rank is named by every other, and srun fails"
else
    bad "a killed rank (status $rc)"
fi

job 2 --mpi=none "$perf" allreduce -e 8 -n 1
if [[ $rc != 0 ]] && grep -q 'srun --mpi=pmix' "$work/err"; then
    ok "srun without PMIx is an error that says what to do"
else
    bad "srun without PMIx (status $rc)"
fi
finish
