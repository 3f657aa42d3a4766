#!/bin/bash
# A chain of jobs, for clusters that do not requeue: each waits for the one before and goes on from
# its last checkpoint.
#   slurm/chain.sh COUNT SCRIPT.sbatch DECK.toml [section.key=value ...]
# The jobs that are too many find the run finished and end at once.
set -euo pipefail
if (($# < 3)) || ! [[ $1 =~ ^[1-9][0-9]*$ ]]; then
  echo "usage: $0 COUNT SCRIPT.sbatch DECK.toml [section.key=value ...]" >&2
  exit 2
fi
count=$1
shift
job=$(ADAPTRA_REQUEUE=no sbatch --parsable --no-requeue "$@")
echo "$job"
for ((i = 1; i < count; ++i)); do
  job=$(ADAPTRA_REQUEUE=no sbatch --parsable --no-requeue --dependency="afterany:${job%%;*}" "$@")
  echo "$job"
done
