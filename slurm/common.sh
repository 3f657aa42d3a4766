# shellcheck shell=bash
# What the job scripts share: launch, wait, requeue. Sourced by them; bash.
#
# Settings, all from the environment (a site file sets them, see sites/):
#   ADAPTRA_LAUNCH        srun (default) or mpirun
#   ADAPTRA_LAUNCH_FLAGS  more flags for srun; for mpirun all flags, the default binds each rank to its cores
#   ADAPTRA_MARGIN_S      seconds kept for the last checkpoint before the time limit (default 120)
#   ADAPTRA_MAX_REQUEUES  requeues without a newer checkpoint in between before giving up (default 3)
#   ADAPTRA_REQUEUE       yes (default) or no (chains of jobs)

# Slurm's "D-HH:MM:SS", "HH:MM:SS", "MM:SS" or "SS" in seconds; nothing for anything else.
adaptra_seconds() {
  local days=0 rest=$1 h=0 m=0 s=0
  [[ $rest =~ ^[0-9:-]+$ ]] || return 0
  [[ $rest == *-* ]] && days=${rest%%-*} rest=${rest#*-}
  case $rest in
    *:*:*) IFS=: read -r h m s <<<"$rest" ;;
    *:*) IFS=: read -r m s <<<"$rest" ;;
    *) s=$rest ;;
  esac
  echo $((10#$days * 86400 + 10#$h * 3600 + 10#$m * 60 + 10#$s))
}

# --max-time for what is left of this job, so that it stops in time even where no signal comes.
adaptra_max_time() {
  local left
  left=$(adaptra_seconds "$(squeue -h -j "$SLURM_JOB_ID" -o %L 2>/dev/null || true)")
  [[ -n $left ]] || return 0
  left=$((left - ${ADAPTRA_MARGIN_S:-120}))
  ((left > 0)) || left=1
  printf -- '--max-time=%02d:%02d:%02d' $((left / 3600)) $((left / 60 % 60)) $((left % 60))
}

# The id that scontrol wants: array tasks are requeued by array and task.
adaptra_job() {
  if [[ -n ${SLURM_ARRAY_JOB_ID:-} ]]; then
    echo "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"
  else
    echo "$SLURM_JOB_ID"
  fi
}

# Ends the script with code $1; before that requeues the job where going on makes sense: a peer or a
# link was lost (4), the time is up (10), a rank was killed (128 + signal). Not where this script was
# told to stop: that is somebody's wish. $2 is the run's folder.
adaptra_end() {
  local code=$1 run=$2 latest count=0 seen="" note="$2/.requeues"
  ((adaptra_stopped == 0)) || exit "$code"
  ((code == 4 || code == 10 || code > 128)) || exit "$code"
  [[ ${ADAPTRA_REQUEUE:-yes} == yes ]] || exit "$code"
  latest=$(cat "$run/checkpoints/latest" 2>/dev/null || true)
  [[ -r $note ]] && read -r count seen <"$note" || true
  [[ ${seen:-none} == "${latest:-none}" ]] || count=0
  count=$((count + 1))
  if ((count > ${ADAPTRA_MAX_REQUEUES:-3})); then
    echo "adaptra: exit code $code; $((count - 1)) requeues brought no newer checkpoint: giving up" >&2
    rm -f "$note"
    exit "$code"
  fi
  mkdir -p "$run"
  echo "$count ${latest:-none}" >"$note"
  echo "adaptra: exit code $code; requeued ($count since checkpoint ${latest:-none})"
  scontrol requeue "$(adaptra_job)"
  exit "$code"
}

adaptra_stopped=0

# adaptra_train DECK [section.key=value ...]: checks the deck, starts the ranks, forwards USR1, waits,
# requeues.
adaptra_train() {
  local config run pid code=0
  # Wrong decks end here, before any rank is started, with exit code 2.
  config=$(adaptra-train "$@" --print-config) || exit $?
  run=$(sed -n 's/^output_dir *= *"\(.*\)" *\(#.*\)\?$/\1/p' <<<"$config" | head -n 1)
  local -a launch flags
  read -ra flags <<<"${ADAPTRA_LAUNCH_FLAGS:-}"
  case ${ADAPTRA_LAUNCH:-srun} in
    # pmix: without it every task believes to be rank 0 of 1. A rank gets the cores that
    # --cpus-per-task gave it, and no others; one that fails takes the others with it.
    srun) launch=(srun --mpi=pmix --cpu-bind=cores --kill-on-bad-exit=1) ;;
    # The ranks of each node as Slurm shares them out, SLURM_TASKS_PER_NODE like "2(x3),1" included:
    # Open MPI reads them from Slurm itself.
    mpirun)
      launch=(mpirun -n "$SLURM_NTASKS")
      ((${#flags[@]})) || flags=(--map-by "slot:PE=${SLURM_CPUS_PER_TASK:-1}" --bind-to core)
      ;;
    *) echo "adaptra: ADAPTRA_LAUNCH=$ADAPTRA_LAUNCH: srun or mpirun" >&2 && exit 3 ;;
  esac
  local limit
  limit=$(adaptra_max_time)
  "${launch[@]}" "${flags[@]}" adaptra-train "$@" --resume=auto ${limit:+"$limit"} &
  pid=$!
  # Slurm sends USR1 to this script (--signal=B:USR1@...); the launcher passes it to the ranks.
  trap 'kill -USR1 $pid 2>/dev/null || true' USR1
  trap 'adaptra_stopped=1; kill -TERM $pid 2>/dev/null || true' TERM INT
  # A trapped signal ends wait early: wait again until the launcher is really gone.
  while :; do
    code=0
    wait "$pid" || code=$?
    kill -0 "$pid" 2>/dev/null || break
  done
  adaptra_end "$code" "$run"
}
