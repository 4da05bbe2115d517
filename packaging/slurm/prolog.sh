#!/usr/bin/env bash
# Slurm prolog: has what a job needs on the node's own disk before it starts. A job names objects in its
# comment (sbatch --comment "wellspring=models/7b,data/train"); WELLSPRING_HOSTS names the servers, and
# whatever is there already is not moved again. Set in slurm.conf:
#   Prolog=/etc/slurm/prolog.d/wellspring.sh
#   PrologFlags=Alloc
set -uo pipefail
hosts=${WELLSPRING_HOSTS:-replica1,replica2}
scratch=${WELLSPRING_SCRATCH:-/scratch/wellspring}
# Of the node, since a prolog has no home: without keys nothing is fetched.
export WELLSPRING_KEYS=${WELLSPRING_KEYS:-/etc/wellspring/keys}

# The prolog's failure drains the node: a missing object is the job's trouble, not the node's.
give_up() {
    logger -t wellspring-prolog -- "job $SLURM_JOB_ID: $*"
    exit 0
}

comment=$(scontrol show job "${SLURM_JOB_ID:?}" | sed -n 's/^ *Comment=//p')
objects=$(sed -n 's/.*wellspring=\([^ ]*\).*/\1/p' <<<"$comment")
[ -n "$objects" ] || exit 0
mkdir -p "$scratch"
IFS=, read -ra names <<<"$objects"
for name in "${names[@]}"; do
    # This runs as root, and the comment is the user's: nothing is made outside of the scratch.
    case "/$name/" in
    //* | */../*) give_up "$name is no name of an object" ;;
    esac
    mkdir -p "$scratch/$(dirname -- "$name")"
    # Of jobs that want the same, one moves it and the others wait; the lock lasts until the next name.
    exec 9>"$scratch/.lock-${name//\//_}" && flock 9
    case "$name" in
    # A directory: only what differs is moved.
    */) wellspring get --quiet "$hosts/$name" -o "$scratch/$name" ;;
    *) [ -e "$scratch/$name" ] || wellspring get --quiet "$hosts/$name" -o "$scratch/$name" ;;
    esac || give_up "$name could not be fetched"
done
