#!/usr/bin/env bash
# A real torchrun job with two faults, then what happened and why. Needs `jobtape` and `torchrun` on PATH.
set -u
here=$(cd "$(dirname "$0")" && pwd)
export JOBTAPE_DIR=${JOBTAPE_DIR:-$(mktemp -d)/jobtape}
export OMP_NUM_THREADS=1

say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; }

say "torchrun --event-log-handler=tape --nproc-per-node=3 --max-restarts=3 examples/train.py   (its output: $JOBTAPE_DIR.log)"
mkdir -p "$JOBTAPE_DIR"
torchrun --event-log-handler=tape --nproc-per-node=3 --max-restarts=3 "$here/train.py" >"$JOBTAPE_DIR.log" 2>&1
code=$?
echo "torchrun ended with exit code $code"
if [ "$code" -ne 0 ]; then
    tail -n 20 "$JOBTAPE_DIR.log" >&2
    exit "$code"
fi

say "jobtape ls"
jobtape ls || exit
say "jobtape why"
jobtape why || exit
say "jobtape show"
jobtape show
