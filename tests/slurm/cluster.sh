#!/usr/bin/env bash
# A real single-node SLURM in a folder of its own, for tests. Needs root and Debian's slurm-wlm and munge.
#   cluster.sh start DIR [MAX_ARRAY]   starts munged, slurmctld and slurmd; prints the line that makes clients use it
#   cluster.sh stop DIR                ends the processes that start began
# The node says that it has 4 CPUs whatever the machine has, so that jobs run side by side; memory is counted, and a job
# above its --mem is killed (by accounting once a second: no control groups are needed).
set -euo pipefail
cmd=$1 dir=$2
conf=$dir/etc/slurm.conf
wait_for() { # SECONDS COMMAND...
    local n=$(($1 * 5))
    shift
    while ! "$@" >/dev/null 2>&1; do
        n=$((n - 1))
        [ $n -gt 0 ] || { echo "cluster.sh: gave up waiting for: $*" >&2; tail -5 "$dir"/log/*.log >&2; return 1; }
        sleep 0.2
    done
}
node_ready() { sinfo -h -o %t | grep -qE '^(idle|mix|alloc)$'; }
free_port() { # two free ports in a row
    local p
    while :; do
        p=$((20000 + RANDOM % 20000))
        if ! (: <"/dev/tcp/127.0.0.1/$p") 2>/dev/null && ! (: <"/dev/tcp/127.0.0.1/$((p + 1))") 2>/dev/null; then
            echo $p
            return
        fi
    done
}
start() {
    local max=${1:-1001} port memory
    [ "$(id -u)" = 0 ] || { echo "cluster.sh: must be root" >&2; exit 1; }
    # munge: its key and socket in the folder too, so that a system munge is left alone
    mkdir -p "$dir"/{etc,log,state,spool,run,munge,mrun}
    dd if=/dev/urandom of="$dir/munge/key" bs=1024 count=1 status=none
    chown -R munge: "$dir/munge" "$dir/mrun"
    chmod 0700 "$dir/munge"
    chmod 0400 "$dir/munge/key"
    chmod 0711 "$dir"
    chmod 0755 "$dir/mrun"
    runuser -u munge -- munged --key-file="$dir/munge/key" --socket="$dir/mrun/socket" --pid-file="$dir/mrun/pid" \
        --log-file="$dir/munge/log" --seed-file="$dir/munge/seed" --num-threads=2 --force 2>>"$dir/log/munge.log"
    port=$(free_port)
    memory=$(awk '/MemTotal/ {print int($2 / 1024 * 0.9)}' /proc/meminfo)
    cat >"$conf" <<CONF
ClusterName=dntest
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/mrun/socket,cred_expire=5
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/slurmd.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
MaxArraySize=$max
ReturnToService=2
SlurmctldTimeout=30
KillWait=10
MinJobAge=3600
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=0
MpiDefault=none
JobRequeue=1
NodeName=$(hostname -s) NodeAddr=127.0.0.1 CPUs=4 RealMemory=$memory State=UNKNOWN
PartitionName=main Nodes=$(hostname -s) Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO DefMemPerCPU=200
CONF
    export SLURM_CONF=$conf
    slurmctld -f "$conf" 2>>"$dir/log/start.log"
    slurmd -f "$conf" 2>>"$dir/log/start.log"
    wait_for 60 node_ready
    echo "export SLURM_CONF=$conf"
}
stop() {
    local p pid n
    for p in "$dir/run/slurmd.pid" "$dir/run/slurmctld.pid" "$dir/mrun/pid"; do
        [ -f "$p" ] || continue
        pid=$(cat "$p")
        kill "$pid" 2>/dev/null || continue
        for ((n = 0; n < 100; n++)); do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
        kill -9 "$pid" 2>/dev/null || true
    done
}
case $cmd in
start) start "${3-}" ;;
stop) stop ;;
*) echo "usage: cluster.sh start|stop DIR" >&2; exit 2 ;;
esac
