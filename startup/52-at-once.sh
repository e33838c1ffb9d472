#!/usr/bin/env bash
# Startup of a serving host, part 52: bring image and weights at once. One waits for a registry and
# for the disk that layers are unpacked to, the other for a bucket and for memory. Each is a process of
# its own that writes into files what it has to say; this one alone reports.
# The parts that declare REPORT and read PART_LEVEL are in other files:
# shellcheck disable=SC2034,SC2154
set -Eeuo pipefail

# The process of each part that goes on, by name.
declare -A PARTS=()
ENDED=

fetch_image_and_weights() {
    local news="$STATE_DIR/news"
    ENDED=
    REPORT[ended]='{}'
    phase fetch image weights
    rm -f "$news"
    mkfifo "$news"
    # Open for both, so that neither side waits for the other, and its end is never read.
    exec 7<>"$news"
    begin_part image fetch_image
    begin_part weights fetch_weights
    await_parts
    exec 7<&-
    weights_directories
    report weights "$(setting weights.manifest_sha256)"
}

# begin_part NAME COMMAND: run COMMAND beside this process. The lock goes with it: should this process
# be killed alone, no other run begins before the part has ended.
begin_part() {
    rm -f "$STATE_DIR/$1.detail" "$STATE_DIR/$1.failed"
    run_part "$@" </dev/null &
    PARTS[$1]=$!
}

run_part() {
    PART=$1
    PART_LEVEL=$BASH_SUBSHELL
    # What was due is published by the other process, and so is all that follows.
    REPORT_IS_DUE=
    REPORT[phase]=$1
    REPORT[detail]=
    trap 'printf "%s %s\n" "$PART" "${EPOCHREALTIME/,/.}" >&7' EXIT
    "$2"
}

# tell_of_part WHAT TEXT...: leave a line per TEXT for the process that reports, and wake it.
tell_of_part() {
    local file="$STATE_DIR/$PART.$1"
    printf '%s\n' "${@:2}" >"$file.new"
    # Whole or not at all.
    mv -f "$file.new" "$file"
    printf '\n' >&7
}

# await_parts: report what the parts say, until all have ended.
await_parts() {
    local name at
    while ((${#PARTS[@]} > 0)); do
        if read -r -t 2 -u 7 name at; then
            # Of one that was seen to have ended just before, the word comes late.
            [[ -z $name || -z ${PARTS[$name]:-} ]] || end_part "$name" "$at"
        else
            # One that was killed says nothing.
            for name in "${!PARTS[@]}"; do
                is_running "${PARTS[$name]}" || end_part "$name" "$EPOCHREALTIME"
            done
        fi
        tell_parts
    done
}

is_running() {
    [[ $'\n'$(jobs -rp)$'\n' == *$'\n'"$1"$'\n'* ]]
}

# tell_parts: both details as one.
tell_parts() {
    local name text=
    for name in image weights; do
        [[ ! -s $STATE_DIR/$name.detail ]] || text+="${text:+; }$name: $(<"$STATE_DIR/$name.detail")"
    done
    [[ $text == "${REPORT[detail]:-}" ]] || report detail "$text"
    [[ -z $REPORT_IS_DUE ]] || publish_if_due
}

# end_part NAME TIME: note that it has ended; where it failed, end the other one and give up, with its
# reason.
end_part() {
    local status=0 code="phase-$1" text
    wait "${PARTS[$1]}" 2>/dev/null || status=$?
    unset "PARTS[$1]"
    if ((status == 0)); then
        ENDED="${ENDED:+$ENDED,}\"$1\":$2"
        REPORT[ended]="{$ENDED}"
        REPORT_IS_DUE=yes
        return 0
    fi
    end_parts
    tell_parts
    REPORT[phase]=$1
    text="it ended with status $status"
    [[ ! -s $STATE_DIR/$1.failed ]] || { read -r code && text=$(cat); } <"$STATE_DIR/$1.failed"
    fail "$code" "$text"
}

# end_parts: end those that go on, at once. Whatever they have left, the next run takes up.
end_parts() {
    local name
    for name in "${!PARTS[@]}"; do
        kill_tree "${PARTS[$name]}"
        wait "${PARTS[$name]}" 2>/dev/null || true
    done
    PARTS=()
    # What docker pulls with.
    rm -rf "$MEMORY_DIR/registry"
}

# kill_tree PID: kill a process and all that came from it. It is stopped first: what is stopped makes no
# more. Not by process group: bash would take the terminal of somebody who runs this script by hand.
kill_tree() {
    local stat fields parent
    kill -STOP "$1" 2>/dev/null || return 0
    for stat in /proc/[0-9]*/stat; do
        # A process may end meanwhile. Its name, in parentheses, may hold anything.
        fields=
        { read -r -d '' fields <"$stat"; } 2>/dev/null || true
        read -r _ parent _ <<<"${fields##*) }"
        [[ $parent != "$1" ]] || kill_tree "${stat//[!0-9]/}"
    done
    kill -KILL "$1" 2>/dev/null || true
}
