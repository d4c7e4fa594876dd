#!/bin/bash
# @about@.
#
#   bash FILE       submits all of it, where sbatch is; given again it goes on with what is missing
#
# Four steps, each once all of the one before has ended, however that was:
#
#   plan            each recording: finds the worm in the videos, learns it, decides on clips
#   clip            each clip: follows the worm
#   stitch          each recording: puts the clips together and writes midline.nc; names those that are missing
#   table           what became of each recording
#
# A task may be killed at any moment: put back into the queue, by SLURM or by itself when its time is nearly over, it
# goes on where it was. What the tasks say, and the table, are in the folder `log`.
#
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
@asked@

midline3d=(@command@)
arguments=(@arguments@)
log=@log@
recordings=(
@recordings@
)
results=(
@results@
)
tasks=(@tasks@)    # of clips, for each recording
at_once=@at_once@    # tasks that run at the same time
largest=@largest@    # tasks in an array: less than MaxArraySize of `scontrol show config`

before() {
@before@
}

# Submits a step in as many arrays as it takes, one after the other, and prints the last one's number.
submit() {
    local step=$1 count=$2 after=$3 first size
    for ((first = 0; first < count; first += largest)); do
        size=$((count - first < largest ? count - first : largest))
        after=$(sbatch --parsable --job-name="midline3d-$step" --array="0-$((size - 1))%$at_once" \
            --output="${log//%/%%}/$step-%A_%a.txt" ${after:+"--dependency=afterany:$after"} "$0" "$step" "$first") ||
            return 1
        after=${after%%;*}
    done
    echo "$after"
}

submit_all() {
    local total=0 count planned clipped stitched table
    [[ -f $0 ]] || { echo "save this script to a file, and give that to bash" >&2; exit 2; }
    for count in "${tasks[@]}"; do ((total += count)); done
    mkdir -p "$log" || exit 1
    planned=$(submit plan "${#recordings[@]}" "") &&
        clipped=$(submit clip "$total" "$planned") &&
        stitched=$(submit stitch "${#recordings[@]}" "$clipped") &&
        table=$(submit table 1 "$stitched") || exit 1
    echo "${#recordings[@]} recordings, $total tasks of clips; the table will be $log/table-${table}_0.txt"
}

# Back into the queue, when the time is nearly over; not for ever, lest a task that hangs does. By array and task: the
# last task's own number is the whole array's.
requeue() {
    ((${SLURM_RESTART_COUNT:-0} < 100)) && scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
}

# Runs a step, and listens for the signal meanwhile.
run() {
    local task status signal
    signal=$((128 + $(kill -l USR1)))
    export OMP_NUM_THREADS="${SLURM_CPUS_PER_TASK:-1}"
    before
    trap requeue USR1
    "${midline3d[@]}" "$@" &
    task=$!
    while wait "$task"; status=$?; ((status == signal)); do :; done
    exit "$status"
}

step=${1:-submit} number=$((${2:-0} + ${SLURM_ARRAY_TASK_ID:-0})) which=0
case $step in
submit) submit_all ;;
plan | stitch)
    run "$step" "${recordings[number]}" -o "${results[number]}" "${arguments[@]}"
    ;;
clip)
    while ((number >= tasks[which])); do ((number -= tasks[which++])); done
    run clip "${recordings[which]}" -o "${results[which]}" --task "$number" "${arguments[@]}"
    ;;
table) run table "${results[@]}" ;;
esac
