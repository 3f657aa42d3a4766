#!/bin/bash
# Behaves towards the job scripts as adaptra-train does (exit codes, --print-config, checkpoints,
# USR1), without training: tests of the scripts install it as adaptra-train. The deck is
#   OUTPUT_DIR STEPS FATE      FATE: none, or CODE@STEP: ends so there, in the first start only;
#                              always:CODE: ends so each time without a checkpoint
set -u
deck=$1
read -r run steps fate <"$deck" || exit 2
[[ -n ${fate:-} ]] || { echo "$deck:1: a wrong deck" >&2; exit 2; }
case " $* " in *" --print-config "*) echo "output_dir = \"$run\""; exit 0 ;; esac
max_s=1000000
for argument in "$@"; do
  case $argument in --max-time=*) IFS=: read -r h m s <<<"${argument#*=}" && max_s=$((10#$h * 3600 + 10#$m * 60 + 10#$s)) ;; esac
done
mkdir -p "$run/checkpoints"
up=0
trap 'up=1' USR1
trap 'exit 11' TERM
step=$(sed -n 's/step_0*\([0-9]*\).h5/\1/p' "$run/checkpoints/latest" 2>/dev/null)
step=${step:-0}
# mpirun first: under it the variables of Slurm are those of the batch script.
rank=${OMPI_COMM_WORLD_RANK:-${SLURM_PROCID:-0}}
((rank == 0)) && echo "start at $step of $steps with ${OMPI_COMM_WORLD_SIZE:-${SLURM_STEP_NUM_TASKS:-1}} ranks" >>"$run/starts"
[[ $fate == always:* ]] && exit "${fate#*:}"
while ((step < steps)); do
  sleep 0.2
  step=$((step + 1))
  if [[ $fate == *@$step && $(wc -l <"$run/starts") == 1 ]]; then
    ((rank == 1)) && [[ ${fate%@*} == 137 ]] && kill -9 $$
    [[ ${fate%@*} == 137 ]] || exit "${fate%@*}"  # agreed: all ranks alike
  fi
  if ((up || SECONDS >= max_s)); then
    ((rank == 0)) && printf 'step_%08d.h5\n' $step >"$run/checkpoints/latest"
    exit 10
  fi
  ((rank == 0 && step % 5 == 0)) && printf 'step_%08d.h5\n' $step >"$run/checkpoints/latest"
done
exit 0
