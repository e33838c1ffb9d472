#!/usr/bin/env bash
# sweep.sh [--yes]: list what no state knows in every cloud project of the stack files, and with --yes
# delete what is ours. The list goes to the job's summary; the exit code is that of `tpuflex sweep`,
# 10 if something is left. $SLICES and $TAKE_OVER hold words for its options of these names.
set -fuo pipefail
arguments=(sweep --all --exit-code "$@")
for name in ${SLICES:-}; do arguments+=("--slice=$name"); done
for id in ${TAKE_OVER:-}; do arguments+=("--take-over=$id"); done
report=$(mktemp)
.venv/bin/tpuflex "${arguments[@]}" >"$report" 2>&1
code=$?
cat "$report"
# Indented by four, it is shown as it is, whatever names the cloud holds.
sed 's/^/    /' "$report" >>"${GITHUB_STEP_SUMMARY:-/dev/null}"
exit "$code"
