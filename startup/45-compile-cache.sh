#!/usr/bin/env bash
# Startup of a serving host, part 45: the compile cache. Compiling a model for TPU takes 20 minutes;
# what was compiled once is kept on the host's disk, over restarts of the container and reboots, and in
# a bucket, for the hosts after this one. The server gets a directory: JAX has no index in
# it, and did not find its programs below gs:// addresses
# (https://github.com/marin-community/marin/issues/2318). Its path goes into JAX's keys, so it is the
# same on every host. Nothing here ever ends a boot: what main calls is called where a failure is
# handled, so bash ends nothing by itself (errexit), and what must not be passed over is asked for.
set -Eeuo pipefail

export CACHE_ROOT="${TPUFLEX_ROOT:-}/var/lib/tpuflex/compile-cache"
# Of the present key; empty without a cache.
CACHE_DIR=
CACHE_FETCHER=

declare -A CACHE_REPORT=()

# cache_command COMMAND [ARGUMENT...]: run one of compile_cache_disk.py; what is wrong goes to
# cache.problem.
cache_command() {
    timeout "${CACHE_SECONDS:-900}" python3 -IS -c '
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from compile_cache_disk import main

main(*sys.argv[2:])
' "$STATE_DIR" "$@" 2>"$STATE_DIR/cache.problem"
}

# What signs archives here, and tells them from others'.
export CACHE_SECRET="$MEMORY_DIR/compile-cache.key"

# What is said is bounded: whoever writes to the bucket may have a say in it.
cache_problem() {
    if [[ -s $STATE_DIR/cache.problem ]]; then
        tail --lines=1 "$STATE_DIR/cache.problem" | head --bytes=300
    else
        printf 'it was given up'
    fi
}

# without_compile_cache WHY: go on without one.
without_compile_cache() {
    CACHE_DIR=
    report_cache problem "no compile cache: $1" || log 'the compile cache cannot be reported'
}

# report_cache KEY VALUE [KEY VALUE...]: what became of the cache, for `tpuflex status`.
report_cache() {
    local key
    while (($# > 0)); do
        CACHE_REPORT[$1]=$2
        shift 2
    done
    for key in "${!CACHE_REPORT[@]}"; do
        printf '%s\0%s\0' "$key" "${CACHE_REPORT[$key]}"
    done | python3 -IS -c '
import json
import re
import sys

fields = sys.stdin.buffer.read().decode("utf-8", "replace").split("\0")
report = {key: text for key, text in zip(fields[0::2], fields[1::2]) if text}
is_number = re.compile("[0-9]{1,18}").fullmatch
typed = {key: int(text) if is_number(text) else text for key, text in sorted(report.items())}
print(json.dumps(typed))
' >"$STATE_DIR/cache.report"
    tell_compile_cache
}

# tell_compile_cache: report what became of the cache when the server that runs was started.
tell_compile_cache() {
    [[ ! -s $STATE_DIR/cache.report ]] || report compile_cache "$(<"$STATE_DIR/cache.report")"
}

# begin_compile_cache: find the key, and begin to fetch what there is for it, beside the weights.
begin_compile_cache() {
    CACHE_DIR=
    [[ $(setting compile_cache.mode) != none ]] || return 0
    local key name
    for name in compile_cache compile_cache_disk; do
        python_source "$name" >"$STATE_DIR/$name.py"
    done
    [[ $(http_get "$METADATA/instance/attributes/tpu-env" "$STATE_DIR/tpu-env" \
        --header 'Metadata-Flavor: Google') == 200 ]] || : >"$STATE_DIR/tpu-env"
    if ! key=$(cache_command key "$CACHE_ROOT" "$STATE_DIR/config.json" "$STATE_DIR/tpu-env"); then
        without_compile_cache "$(cache_problem)"
        return 0
    fi
    CACHE_DIR="$CACHE_ROOT/$key"
    : >"$STATE_DIR/cache.found"
    { restore_compile_cache || ignore_cache 'the compile cache could not be restored'; } &
    CACHE_FETCHER=$!
}

# restore_compile_cache: unpack the host's own archive, else the newest one of the bucket that may be
# used, and write to cache.found what was found: another process reports it.
restore_compile_cache() {
    local name began
    # What was due is published by the other process. shellcheck does not see the parts that read it.
    # shellcheck disable=SC2034
    REPORT_IS_DUE=
    began=$(milliseconds)
    if ! rm -rf "$CACHE_DIR/incoming"; then
        ignore_cache 'what was restored before could not be removed'
        return 0
    fi
    if ! CACHE_DELAYS='2 5 10 20 40 40 0' fetch_cache_secret; then
        ignore_cache "the compile cache is not used: $(cache_problem)"
        # What an earlier boot has placed may be signed with a key that was exchanged since.
        : >"$CACHE_DIR/ready"
        return 0
    fi
    ! unpack_archive host "$began" || return 0
    [[ $(setting compile_cache.mode) == bucket ]] || return 0
    while IFS= read -r name; do
        if fetch_archive "$name" && unpack_archive bucket "$began"; then
            : >"$CACHE_DIR/uploaded"
            return 0
        fi
    done < <(list_archives)
}

# await_restored: what is done with the host's archives is done after they were restored.
await_restored() {
    [[ -z $CACHE_FETCHER ]] || wait "$CACHE_FETCHER" || true
    CACHE_FETCHER=
}

# unpack_archive FROM BEGAN: unpack the archive on the disk, if there is one that may be used.
unpack_archive() {
    local found
    [[ -e $CACHE_DIR/archive.json ]] || return 1
    if found=$(cache_command unpack "$CACHE_DIR" "$CACHE_SECRET"); then
        printf '%s\n' "from $1" "$found" "milliseconds $(($(milliseconds) - $2))" >>"$STATE_DIR/cache.found"
        return 0
    fi
    ignore_cache "the compile cache of the $1 is ignored: $(cache_problem)"
    # What a server has of an archive that is used no more is for no other server either.
    [[ $1 != host ]] || : >"$CACHE_DIR/ready"
    rm -rf "$CACHE_DIR"/archive.* "$CACHE_DIR/incoming"
    return 1
}

# ignore_cache WHY: say so in the log, and for the report.
ignore_cache() {
    log "$1"
    printf 'problem %s\n' "$1" >>"$STATE_DIR/cache.found"
}

# place_compile_cache: before a server starts, give it what was restored, and nothing that a server has
# written since its programs were packed: what a broken-into server leaves is for nobody after it.
place_compile_cache() {
    [[ -n $CACHE_DIR ]] || return 0
    await_restored
    local name value problem=
    CACHE_REPORT=()
    while read -r name value; do
        case $name in
        problem) problem=$value ;;
        *) CACHE_REPORT[$name]=$value ;;
        esac
    done <"$STATE_DIR/cache.found"
    # Of archives that were passed over before a good one the log tells.
    [[ -z ${CACHE_REPORT[from]:-} ]] || problem=
    # With other keys, what is there is of another configuration of this host.
    find "$CACHE_ROOT" -mindepth 1 -maxdepth 1 ! -name "${CACHE_DIR##*/}" -exec rm -rf {} + ||
        log 'the compile cache of another configuration could not be removed'
    if ! place_programs; then
        CACHE_DIR=
        CACHE_REPORT=()
        problem='what the last server has left could not be replaced'
    fi
    if [[ -n ${CACHE_REPORT[from]:-} ]]; then
        detail "compile cache: ${CACHE_REPORT[files]:-0} programs ($(human "${CACHE_REPORT[bytes]:-0}")) of the ${CACHE_REPORT[from]}"
    elif [[ -n $problem ]]; then
        detail "there is no compile cache: $problem"
    fi
    # Of a server that has none, and leaves none, there is nothing to say.
    rm -f "$STATE_DIR/cache.report"
    [[ -z ${CACHE_REPORT[from]:-}$problem ]] || report_cache problem "$problem"
}

# place_programs: make the server's directory; 1, when it cannot be what it should be. A server with
# privileges can make files that not even root removes (chattr). The mark goes last: without it, what is
# left would be taken for the work of a start that was cut short.
place_programs() {
    if [[ -e $CACHE_DIR/ready || -e $CACHE_DIR/incoming ]]; then
        rm -rf "$CACHE_DIR/programs" && rm -f "$CACHE_DIR/ready" || return 1
    fi
    if [[ -e $CACHE_DIR/incoming ]]; then
        mv --no-target-directory "$CACHE_DIR/incoming" "$CACHE_DIR/programs" || return 1
    fi
    mkdir -p "$CACHE_DIR/programs"
}

# cache_options ARRAY: docker's options that give the server its cache. vLLM for TPU goes by the first
# variable and has it override the second, which is JAX's own.
cache_options() {
    local -n options_of=$1
    [[ -n $CACHE_DIR ]] || return 0
    options_of+=(--mount "type=bind,source=$CACHE_DIR/programs,target=$CACHE_DIR/programs"
        --env "VLLM_XLA_CACHE_PATH=$CACHE_DIR/programs"
        --env "JAX_COMPILATION_CACHE_DIR=$CACHE_DIR/programs")
}

# pack_compile_cache: before READY is told, keep what the server has compiled until now, and nothing
# later. That copies and hashes what is in the kernel's memory, a second or two for a large model; where
# nothing is new, nothing.
pack_compile_cache() {
    [[ -n $CACHE_DIR && ! -e $CACHE_DIR/ready ]] || return 0
    await_restored
    local compiled
    : >"$CACHE_DIR/ready" || rm -rf "$CACHE_DIR/programs"
    # A role that was given with the host may have taken effect only by now; chips wait for no more.
    if [[ ! -e $CACHE_SECRET ]] && ! CACHE_DELAYS=0 fetch_cache_secret; then
        report_cache problem "the compile cache is neither used nor kept: $(cache_problem)"
        return 0
    fi
    if ! compiled=$(CACHE_SECONDS=60 cache_command pack "$CACHE_DIR" "$CACHE_SECRET"); then
        rm -f "$CACHE_DIR/archive.partial"
        report_cache problem "the compile cache is not kept: $(cache_problem)"
        return 0
    fi
    ((compiled == 0)) || rm -f "$CACHE_DIR/uploaded"
    [[ $compiled == 0 && ! -s $STATE_DIR/cache.report ]] || report_cache compiled "$compiled"
}

# upload_compile_cache: once READY, save for other hosts what was packed.
upload_compile_cache() {
    [[ -n $CACHE_DIR ]] || return 0
    await_restored
    rm -rf "$CACHE_DIR/incoming"
    if [[ -e $CACHE_DIR/archive.json && ! -e $CACHE_DIR/uploaded && $(setting compile_cache.mode) == bucket ]]; then
        upload_archive
    fi
}
