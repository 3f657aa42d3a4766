#!/bin/bash
# A real Slurm on one machine, without systemd, cgroups or root: munged, slurmctld and several slurmd.
#   slurm_local.sh start|stop|clean    SLURM_BASE (folder of its own), NNODES, CPUS, PORT0
# `start` prints the SLURM_CONF to export. `stop` ends only what its own pid files name.
set -u
BASE=${SLURM_BASE:-${TMPDIR:-/tmp}/slurm-lab}   # everything lives here
NNODES=${NNODES:-1}                            # number of emulated nodes (one slurmd each)
CPUS=${CPUS:-16}                               # CPUs declared per node (2 real)
PORT0=${PORT0:-26817}                          # slurmctld port; slurmd n: PORT0+1+n
HOST=$(hostname -s)
export SLURM_CONF=$BASE/etc/slurm.conf
MSOCK=$BASE/munge/munge.sock

gone() { local st; st=$(awk '/^State/{print $2}' /proc/$1/status 2>/dev/null); [ -z "$st" ] || [ "$st" = Z ]; }  # a zombie (PID 1 slow to reap) counts as gone
alive() { [ -s "$1" ] && ! gone "$(cat "$1")" && \
          [ "$(tr -d '\0' </proc/"$(cat "$1")"/comm)" = "$2" ]; }   # pid file + name check (pid reuse)

write_conf() {
  mkdir -p $BASE/{etc,state,log,spool,munge}; chmod 755 $BASE $BASE/munge
  [ -s $BASE/munge/munge.key ] || { head -c 1024 /dev/urandom > $BASE/munge/munge.key; chmod 400 $BASE/munge/munge.key; }
  {
  cat <<CONF
# cred_expire (default 120 s) is also the minimum delay before a requeued job may start again
ClusterName=local
SlurmctldHost=$HOST(127.0.0.1)
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$MSOCK,cred_expire=${CRED_EXPIRE:-5}
CredType=cred/munge
SlurmctldPort=$PORT0
StateSaveLocation=$BASE/state
SlurmdSpoolDir=$BASE/spool/%n
SlurmctldPidFile=$BASE/slurmctld.pid
# per-node TmpFS: mpi/pmix makes (TmpFS)/spmix_appdir_UID_JOB.STEP, which collides when several slurmd share /tmp
TmpFS=$BASE/tmp/%n
SlurmdPidFile=$BASE/slurmd.%n.pid
SlurmctldLogFile=$BASE/log/slurmctld.log
SlurmdLogFile=$BASE/log/slurmd.%n.log
# no cgroup, no affinity
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SwitchType=switch/none
# 16 declared CPUs on 2 real ones: without this the node is drained/invalid
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_min_interval=0,requeue_delay=1
MpiDefault=pmix
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout=30
InactiveLimit=0
KillWait=${KILLWAIT:-5}
MinJobAge=300
JobRequeue=1
${EXTRA_CONF:-}
CONF
  for ((i=0;i<NNODES;i++)); do
    echo "NodeName=n$i NodeHostname=$HOST NodeAddr=127.0.0.1 Port=$((PORT0+1+i)) CPUs=$CPUS State=UNKNOWN"
  done
  echo "PartitionName=main Nodes=n[0-$((NNODES-1))] Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO"
  } > $SLURM_CONF.new
  cmp -s $SLURM_CONF.new $SLURM_CONF 2>/dev/null && rm $SLURM_CONF.new || mv $SLURM_CONF.new $SLURM_CONF
  # 22.05 has no CgroupPlugin=disabled (23.02+); autodetect may pick v2, which wants systemd/dbus; v1 is inert when nothing uses cgroups
  echo "${CGROUP_CONF:-CgroupPlugin=cgroup/v1}" > $BASE/etc/cgroup.conf
}

start() {
  local t0
  t0=$(date +%s)
  write_conf
  if ! alive $BASE/munge/munged.pid munged; then
    rm -f $MSOCK $MSOCK.lock
    munged --socket=$MSOCK --key-file=$BASE/munge/munge.key --pid-file=$BASE/munge/munged.pid \
           --log-file=$BASE/munge/munged.log --seed-file=$BASE/munge/munged.seed --num-threads=2 || return 1
  fi
  alive $BASE/slurmctld.pid slurmctld || slurmctld -f $SLURM_CONF || return 1
  for ((i=0;i<NNODES;i++)); do
    mkdir -p $BASE/spool/n$i $BASE/tmp/n$i
    alive $BASE/slurmd.n$i.pid slurmd || slurmd -f $SLURM_CONF -N n$i || return 1
  done
  for ((k=0;k<150;k++)); do                    # wait until all nodes are idle (max 30 s)
    [ "$(sinfo -h -N -t idle,alloc,mix -o %N 2>/dev/null | sort -u | wc -l)" = $NNODES ] && break
    sleep 0.2
  done
  [ $k -lt 150 ] || { echo "nodes not up"; sinfo -N -l; return 1; }
  echo "slurm up in $(($(date +%s) - t0)) s; export SLURM_CONF=$SLURM_CONF"
}

stop() {
  local f p
  for f in $BASE/slurmd.*.pid $BASE/slurmctld.pid $BASE/munge/munged.pid; do
    [ -s "$f" ] || continue; p=$(cat $f)
    kill $p 2>/dev/null || { rm -f $f; continue; }
    for ((k=0;k<100;k++)); do gone $p && break; sleep 0.1; done
    gone $p || kill -9 $p
    rm -f $f
  done
}
case ${1:-} in
  start) start;; stop) stop;; restart) stop; start;;
  clean) stop; rm -rf $BASE;;
  status) sinfo -N -l; squeue;;
  *) echo "usage: $0 start|stop|restart|clean|status"; exit 2;;
esac
