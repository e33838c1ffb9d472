#!/usr/bin/env bash
# Startup of a serving host, part 02: what the host says of itself, in one guest attribute. Google
# wants 10 queries a minute at most, 3 in a second, and may drop what is written beyond that
# (https://cloud.google.com/compute/docs/metadata/manage-guest-attributes). So what changes is
# gathered, and the last word, READY or an error, is read back.
set -Eeuo pipefail

declare -A REPORT=([phase]=start)
REPORT_IS_DUE=
TIMELINE=
export REPORTS="${TPUFLEX_REPORTS:-10}"
# When guest attributes were asked for, in milliseconds, a line each: more than one process asks.
export ASKED="$STATE_DIR/asked"

# report KEY VALUE [KEY VALUE...]: to be told soon: at once, or with the next report.
report() {
    while (($# > 0)); do
        REPORT[$1]=$2
        shift 2
    done
    REPORT_IS_DUE=yes
    publish_if_due
}

# phase NAME [PART...]: enter a phase, and say so at once, unless there are too many in a minute. In
# the timeline are its parts, where it has some: they begin now, and go on at once.
phase() {
    local each now
    now=$(date +%s.%3N)
    for each in "${@:$(($# > 1 ? 2 : 1))}"; do
        TIMELINE="${TIMELINE:+$TIMELINE,}\"$each\":$now"
    done
    REPORT[timeline]="{$TIMELINE}"
    REPORT[phase]=$1
    REPORT[detail]=
    log "phase $1"
    REPORT_IS_DUE=yes
    ! may_ask 3 || publish
    keep_phase_log
}

# detail TEXT: tell what the phase is doing, once per text.
detail() {
    [[ $1 != "${REPORT[detail]:-}" ]] || return 0
    log "${REPORT[phase]}: $1"
    if [[ -n $PART ]]; then
        REPORT[detail]=$1
        tell_of_part detail "$1"
    else
        report detail "$1"
    fi
}

# fail CODE TEXT: give up, saying why. The log first: whoever reads the error may delete the host.
fail() {
    if [[ -n $PART ]]; then
        tell_of_part failed "$1" "$2"
        exit 1
    fi
    log "error $1: $2"
    export HAS_ENDED=yes
    [[ -z $STATE_IS_OURS ]] || : >"$STATE_DIR/failed"
    REPORT[error]="$1: $2"
    REPORT_IS_DUE=yes
    keep_boot_log ERROR || log 'the log could not be written to Cloud Logging'
    publish_for_good
    exit 1
}

# may_ask SPARE: whether guest attributes may be asked for now, with SPARE times left in the minute.
may_ask() {
    local now each count=0
    local -a asked=()
    [[ ! -s $ASKED ]] || mapfile -t asked <"$ASKED"
    now=$(milliseconds)
    for each in "${asked[@]}"; do
        # Where the clock went back, some are of the future.
        ((each > now || now - each >= 60000)) || count=$((count + 1))
    done
    ((count + $1 < REPORTS))
}

# Half of a minute's reports are for what changes while a phase lasts.
publish_if_due() {
    [[ -n $REPORT_IS_DUE ]] || return 0
    ! may_ask $((REPORTS / 2)) || publish
}

# guest_attribute FILE [CURL OPTION...]: ask for ours, at most 3 times in a second; print the status.
guest_attribute() {
    http_get "$METADATA/instance/guest-attributes/tpuflex/report" "$1" --max-time 5 \
        --header 'Metadata-Flavor: Google' "${@:2}"
}

# count_query: remember that one is asked for, not less than 0.4 s after the last one.
count_query() {
    [[ -n $STATE_IS_OURS ]] || return 0
    if ((REPORTS <= 60)) && [[ -s $ASKED ]] && (($(milliseconds) - $(tail --lines=1 "$ASKED") < 400)); then
        sleep 0.4
    fi
    printf '%s\n' "$(milliseconds)" >>"$ASKED"
}

# publish: write the report. A report that fails never stops the boot.
publish() {
    local status
    REPORT_IS_DUE=
    count_query
    status=$(report_text | guest_attribute /dev/null --request PUT --data-binary @-)
    [[ $status == 200 ]] || log "the guest attribute could not be written (HTTP $status)"
}

# publish_for_good: write the report until it can be read back, for three minutes at most.
publish_for_good() {
    local delay status copy="$STATE_DIR/report.copy" _
    for _ in {1..12}; do
        ! may_ask 1 || break
        pause 5
    done
    for delay in 0 5 15 30 60 60; do
        ((delay == 0)) || pause "$delay"
        [[ -z $REPORT_IS_DUE ]] || publish
        [[ -n $STATE_IS_OURS ]] || return 0
        count_query
        status=$(guest_attribute "$copy")
        [[ $status != 200 || $(<"$copy") != "$(report_text)" ]] || return 0
        # An organisation's policy forbids it; waiting changes nothing.
        [[ $status != 403 ]] || break
        REPORT_IS_DUE=yes
    done
    log 'the last report could not be read back'
}

# A value is 256 KiB at most (https://cloud.google.com/compute/docs/metadata/manage-guest-attributes),
# so each text is cut, by what it takes as JSON: a long one must not keep READY from arriving.
report_text() {
    local key
    for key in "${!REPORT[@]}"; do
        printf '%s\0%s\0' "$key" "${REPORT[$key]}"
    done | python3 -IS -c '
import json
import sys

fields = sys.stdin.buffer.read().decode("utf-8", "replace").split("\0")
MOST_BYTES, MOST_OF_A_CHARACTER = 16_000, 12


def cut(text):
    fits = len(json.dumps(text)) <= MOST_BYTES
    return text if fits else text[: MOST_BYTES // MOST_OF_A_CHARACTER]


report = {key: cut(text) for key, text in zip(fields[0::2], fields[1::2])}
sys.stdout.write(json.dumps({key: text for key, text in sorted(report.items()) if text}))
'
}
