#!/bin/bash
# Submits the shipped job scripts to a real Slurm on this machine and looks at what became of them.
# Prints one line per case; exit code 77: Slurm is not installed. Stops everything that it started.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
for tool in slurmctld slurmd munged srun sbatch; do
  command -v $tool >/dev/null || { echo "SKIPPED: $tool is not installed (Debian: slurm-wlm munge)"; exit 77; }
done
work=$(mktemp -d)
chmod 755 "$work"
export SLURM_BASE=$work/slurm NNODES=3 CPUS=8 PORT0=${ADAPTRA_TEST_SLURM_PORT:-26917}
trap '"$here/slurm_local.sh" stop; rm -rf "$work"' EXIT
"$here/slurm_local.sh" start >"$work/up" || { cat "$work/up"; exit 1; }
export SLURM_CONF=$SLURM_BASE/etc/slurm.conf
mkdir "$work/bin" && cp "$here/stand_in_train.sh" "$work/bin/adaptra-train"
export PATH=$work/bin:$PATH ADAPTRA_MARGIN_S=45 ADAPTRA_SLURM=$root/slurm
cd "$work" || exit 1
failures=0

# wait_for JOB: until it is over (not pending, running or between); prints state and exit code.
wait_for() {
  local show
  for ((i = 0; i < 240; ++i)); do
    show=$(scontrol show job "$1" 2>/dev/null)
    [[ $show =~ JobState=(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL) ]] && break
    sleep 0.5
  done
  sed -n 's/.*JobState=\([A-Z]*\).*/\1/p; s/.*ExitCode=\([0-9]*\):.*/\1/p' <<<"$show" | head -n 2 | xargs
}
expect() { # case, wanted, found
  # shellcheck disable=SC2053  # $2 is a pattern
  if [[ $3 == $2 ]]; then echo "ok    $1"; else
    echo "FAIL  $1: wanted '$2', found '$3'"; failures=$((failures + 1)); tail -n 5 "$work"/*.out 2>/dev/null
  fi
}
small="--nodes=1 --ntasks-per-node=2 --cpus-per-task=1"
submit() { sbatch --parsable "$@"; }

echo "$work/a 3 none" >a.toml
expect "a run completes" "COMPLETED 0" "$(wait_for "$(submit $small "$root/slurm/train.sbatch" a.toml)")"
expect "with its ranks" "start at 0 of 3 with 2 ranks" "$(cat a/starts)"

echo "$work/w" >wrong.toml
expect "a wrong deck ends with 2" "FAILED 2" "$(wait_for "$(submit $small "$root/slurm/train.sbatch" wrong.toml)")"
expect "before any rank starts" "" "$(cat w/starts 2>/dev/null)"

echo "$work/m 3 none" >m.toml
expect "ranks shared out unevenly over nodes" "COMPLETED 0" \
  "$(wait_for "$(submit --nodes=3 --ntasks=5 --cpus-per-task=1 "$root/slurm/multi_node.sbatch" m.toml)")"
expect "are all there" "start at 0 of 3 with 5 ranks" "$(cat m/starts)"

echo "$work/p 3 none" >p.toml
expect "mpirun launches as well" "COMPLETED 0" "$(export ADAPTRA_LAUNCH=mpirun ADAPTRA_LAUNCH_FLAGS="--oversubscribe --bind-to none" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; wait_for "$(submit $small "$root/slurm/train.sbatch" p.toml)")"
expect "the same ranks" "start at 0 of 3 with 2 ranks" "$(cat p/starts)"

echo "$work/k 8 137@7" >k.toml
killed=$(submit $small "$root/slurm/train.sbatch" k.toml)
echo "$work/t 120 none" >t.toml
limited=$(submit $small --time=1 --signal=B:USR1@40 "$root/slurm/train.sbatch" t.toml)
echo "$work/n 5 always:4" >n.toml
hopeless=$(ADAPTRA_MAX_REQUEUES=2 submit $small "$root/slurm/train.sbatch" n.toml)
echo "$work/x 5 5@2" >x.toml
numerics=$(submit $small "$root/slurm/train.sbatch" x.toml)
printf '%s\n' "one" "two" >sweep.txt
echo "$work/s 2 none" >s.toml
sweep=$(submit $small --array=1-2 "$root/slurm/sweep.sbatch" s.toml sweep.txt)
echo "$work/c 400 none" >c.toml
cancelled=$(submit $small "$root/slurm/train.sbatch" c.toml)

expect "numerics are not requeued" "FAILED 5" "$(wait_for "$numerics")"
expect "a killed rank: requeued, completes" "COMPLETED 0" "$(wait_for "$killed")"
expect "goes on from its checkpoint" "start at 5 of 8 with 2 ranks" "$(tail -n 1 k/starts)"
printf '%s\n' 1-02:03:04 04:05 59 UNLIMITED | while read -r t; do bash -c "source '$root/slurm/common.sh'; adaptra_seconds $t"; done >seconds
expect "times of Slurm are understood" "93784 245 59" "$(xargs <seconds)"
expect "each task of an array completes" "COMPLETED 0" "$(wait_for "${sweep}_2")"
for ((i = 0; i < 40 && ! $(grep -c start c/starts 2>/dev/null || echo 0); ++i)); do sleep 0.5; done
scancel "$cancelled"
expect "scancel ends a run for good" "CANCELLED*" "$(wait_for "$cancelled")"
expect "hopeless runs are given up" "FAILED 4" "$(wait_for "$hopeless")"
expect "after as many starts as allowed" "3" "$(wc -l <n/starts)"
expect "the time limit: checkpoint, requeue, completion" "COMPLETED 0" "$(wait_for "$limited")"
expect "in more than one start" "yes" "$( (($(wc -l <t/starts) > 1)) && echo yes)"
for job in $(ADAPTRA_SLURM=$root/slurm "$root/slurm/chain.sh" 2 $small "$root/slurm/train.sbatch" a.toml 2>/dev/null); do
  expect "a chained job completes" "COMPLETED 0" "$(wait_for "$job")"
done
((failures == 0))
