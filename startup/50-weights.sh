#!/usr/bin/env bash
# Startup of a serving host, part 50: bring the weights to where they were found room for (part 20), each
# byte checked against the manifest before its file gets its name. What is under its name has been checked;
# on a disk that may have been in an earlier boot, so each boot checks it again.
set -Eeuo pipefail

# Weights, what is still being fetched with the ledgers of its parts, and the record of what was
# checked, each in a directory of its own per set of weights. What was checked is remembered in memory
# alone: after a power failure a disk may hold other bytes than were written, under the same name, size
# and time, and nobody knows what was done to it between two boots.
weights_directories() {
    local place
    place=$(weights_place)
    WEIGHTS_DIR="$place/weights/$(setting weights.id)"
    PARTIAL_DIR="$place/partial/$(setting weights.id)"
    LEDGERS_DIR="$MEMORY_DIR/ledgers/$(setting weights.id)"
    CHECKED_DIR="$MEMORY_DIR/checked/$(setting weights.id)"
    export WEIGHTS_DIR PARTIAL_DIR LEDGERS_DIR CHECKED_DIR
    mkdir -p "$WEIGHTS_DIR" "$PARTIAL_DIR" "$LEDGERS_DIR" "$CHECKED_DIR"
}

# weights_place: the directory below which the weights are.
weights_place() {
    if is_on_disk; then
        disk_directory
    else
        printf '%s' "$MEMORY_DIR"
    fi
}

# What a host takes of a manifest: bytes, in blocks of 1024 as `ulimit` counts. Whoever writes to the
# bucket decides how long the answer is, so the kernel ends the file.
export MANIFEST_BLOCKS=8192

# download BLOCKS COMMAND...: run COMMAND, whose files end at that many blocks of 1024 bytes: curl
# then fails with 23. Gzip is asked for so that Cloud Storage sends objects as they are stored:
# otherwise it unpacks those that say so (https://cloud.google.com/storage/docs/transcoding).
download() {
    (
        trap '' XFSZ
        ulimit -S -f "$1"
        "${@:2}" --header "@$AUTHORIZATION" --header 'Accept-Encoding: gzip'
    )
}

get_manifest() {
    download "$MANIFEST_BLOCKS" http_get "$STORAGE/$(setting weights.manifest_url)" \
        "$STATE_DIR/manifest.json"
}

# Take the manifest that was fetched, if it is the one that the node was made for: what else lies
# in the bucket is what somebody put there afterwards, and none of it is read.
use_manifest() {
    local planned found
    planned=$(setting weights.manifest_sha256)
    found=$(sha256sum "$STATE_DIR/manifest.json")
    found=${found%% *}
    [[ $found == "$planned" ]] || fail weights-changed "$(setting weights.manifest) in \
gs://$(setting weights.bucket)/$(setting weights.prefix) has SHA-256 $found, and this node was made \
for $planned: somebody changed the weights after \`up\`. To bring back what was planned, run: \
$(setting commands.weights). If the change is wanted, run \`tpuflex up\`, which says how to accept it"
    read_manifest || fail weights-manifest "$(setting weights.manifest) cannot be used: $(tail --lines=1 "$STATE_DIR/manifest.problem")"
}

# Check the manifest, and write down the files that it names and the sum of their sizes.
read_manifest() {
    local -a formats=()
    setting_list weights.formats formats
    python_source manifest >"$STATE_DIR/manifest.py"
    python3 -IS "$STATE_DIR/manifest.py" "$STATE_DIR" "$(setting weights.bucket)" \
        "$(setting weights.prefix)" "${formats[@]}" 2>"$STATE_DIR/manifest.problem"
}

manifest_bytes() {
    printf '%s' "$(<"$STATE_DIR/weights.bytes")"
}

# bytes_present [DIRECTORY]: bytes of files and parts of files that are there, in the weights' own place or
# another one: those that take room, because a file has its size before all of its parts.
bytes_present() {
    local place=${1:-} present total
    [[ -n $place ]] || place=$(weights_place)
    present=$(du --summarize --block-size=1 "$place/weights" "$place/partial" 2>/dev/null |
        { sum=0; while read -r bytes _; do sum=$((sum + bytes)); done; printf '%s' "$sum"; }) || true
    total=$(manifest_bytes)
    # Directories and ends of pages count a little, too.
    printf '%s' $((present < total ? present : total))
}

# bytes_missing [DIRECTORY]
bytes_missing() {
    printf '%s' $(($(manifest_bytes) - $(bytes_present "$@")))
}

# fetch_weights: fetch what the manifest names and is not there, telling how it goes.
fetch_weights() {
    local total before began elapsed received fetcher reporter where='' status=0
    wait_for_manifest
    place_weights
    weights_directories
    ! is_on_disk || where=' on the disk'
    total=$(manifest_bytes)
    before=$(bytes_present)
    began=$(milliseconds)
    rm -f "$STATE_DIR/weights.problems" "$STATE_DIR/weights.received"
    detail "$(human "$before") of $(human "$total")$where"
    # In the background BASHPID is another's.
    fetcher=$BASHPID
    report_progress "$began" "$before" "$total" "$fetcher" "$where" &
    reporter=$!
    fetch_files "$STATE_DIR/weights.records" || status=$?
    kill "$reporter" 2>/dev/null || true
    wait "$reporter" 2>/dev/null || true
    ((status == 0)) || fail_weights "$status"
    elapsed=$(($(milliseconds) - began + 1))
    # Not what was missing before: a file that was there may have had other bytes, and been fetched again.
    received=$(<"$STATE_DIR/weights.received")
    if ((received > 0)); then
        detail "$(human "$total")$where checked, $(human "$received") fetched in \
$((elapsed / 1000)).$((elapsed % 1000 / 100)) s, $(gbps "$received" "$elapsed") Gbps$(slow "$received" "$elapsed")"
    else
        detail "$(human "$total")$where were there and checked"
    fi
}

# Ask for the manifest until it is there: it is written last, so all it names is there too.
wait_for_manifest() {
    local status problem limit delay=2
    limit=$(setting timeouts.ready_s)
    wait_begin
    while :; do
        status=000
        ! authorize || status=$(get_manifest)
        case $status in
        200)
            use_manifest
            return 0
            ;;
        404) problem="$(setting weights.manifest); run: $(setting commands.weights)" ;;
        403) problem="access to the bucket $(setting weights.bucket); the host's service account needs the role Storage Object Viewer" ;;
        *) problem="Cloud Storage, which answers $status" ;;
        esac
        detail "waiting for $problem"
        ! wait_over "$limit" || fail weights-missing "gave up after $limit s waiting for $problem"
        pause "$delay"
        delay=$((delay < 5 ? delay + 1 : 5))
    done
}

report_progress() {
    local began=$1 before=$2 total=$3 fetcher=$4 where=$5 present
    # Ended by TERM between two reports, never within one: a late report would overwrite what
    # the next phase says. `wait` is what a trap can interrupt.
    trap 'exit 0' TERM
    # Should who fetches be killed, this one must not keep the lock.
    while kill -0 "$fetcher" 2>/dev/null; do
        pause 2 &
        wait "$!"
        present=$(bytes_present)
        detail "$(human "$present") of $(human "$total")$where, $(gbps $((present - before)) $(($(milliseconds) - began + 1))) Gbps"
    done
}

# gbps BYTES MILLISECONDS, with two decimals.
gbps() {
    local hundredths=$(($1 * 8 / ($2 * 10000)))
    printf '%d.%02d' $((hundredths / 100)) $((hundredths % 100))
}

# slow BYTES MILLISECONDS: a warning, where a TPU host's network should have given more. What is
# fetched in a moment, or waits for a disk, says nothing of it.
slow() {
    local expected
    expected=$(setting weights.expected_gbps)
    if ! is_on_disk && (($1 >= 1000000000 && $1 * 8 / ($2 * 1000000) < expected)); then
        printf '; warning: slower than the %d Gbps that such a host can do' "$expected"
    fi
}

# fetch_files RECORDS: fetch and check the files that read_manifest has written down; other than 0,
# with the reasons in weights.problems, unless all of them are there.
fetch_files() {
    local code="$STATE_DIR/download"
    mkdir -p "$code"
    python_source weights_files >"$code/weights_files.py"
    python_source download >"$code/download.py"
    python3 -IBS -c 'import sys; sys.path.insert(0, sys.argv.pop(1)); import download; download.main()' \
        "$code" "$1" "$STATE_DIR/weights.problems" "$STATE_DIR/weights.received" \
        "$(setting weights.parallelism)"
}

# fail_weights STATUS: give up with the first reason why files could not be fetched.
fail_weights() {
    local code='' path detail room='in memory' place=$MEMORY_DIR
    ! is_on_disk || { room='on the disk' && place=$DISK_DIR; }
    [[ ! -s $STATE_DIR/weights.problems ]] ||
        IFS=$'\t' read -r code path detail <"$STATE_DIR/weights.problems"
    case $code in
    weights-missing) fail weights-missing "$path is in the manifest but not in the bucket; push it again" ;;
    weights-checksum)
        fail weights-checksum "$path in the bucket is cut short or altered: it does not match the manifest; \
run: $(setting commands.weights) --again"
        ;;
    capacity)
        fail "$code" "no room left $room while fetching $path: $place has \
$(human "$(space_free "$place")") free; something else on the host fills it"
        ;;
    '') fail weights-download "the download ended with status $1" ;;
    *) fail "$code" "$path could not be fetched ($detail)" ;;
    esac
}

# What the download asks for in processes of its own.
export -f log pause authorize http_get
