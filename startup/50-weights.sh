#!/usr/bin/env bash
# Startup of a serving host, part 50: bring the weights into memory, each file checked against
# the manifest before it gets its name. What is under its name has been checked.
set -Eeuo pipefail

# Weights, what is still being fetched, and the record of what was checked, each in a directory
# of its own per set of weights.
weights_directories() {
    WEIGHTS_DIR="$MEMORY_DIR/weights/$(setting weights.id)"
    PARTIAL_DIR="$MEMORY_DIR/partial/$(setting weights.id)"
    CHECKED_DIR="$MEMORY_DIR/checked/$(setting weights.id)"
    export WEIGHTS_DIR PARTIAL_DIR CHECKED_DIR
    mkdir -p "$WEIGHTS_DIR" "$PARTIAL_DIR" "$CHECKED_DIR"
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
for $planned: somebody changed the weights after \`up\`. To bring the planned ones back, run: \
$(setting commands.weights). If the change is wanted, run \`tpuflex up\`, which says how to accept it"
    read_manifest || fail weights-manifest "$(setting weights.manifest) cannot be used: $(tail --lines=1 "$STATE_DIR/manifest.problem")"
}

# Check the manifest and write its files as NUL-separated records: path, size, sha256, URL, and
# a flat name. The sum of all sizes goes to another file. The bounds keep the arithmetic of bash
# within 64 bits; 5 TiB is the largest object of Cloud Storage
# (https://cloud.google.com/storage/quotas).
read_manifest() {
    local -a formats=()
    setting_list weights.formats formats
    python3 -IS - "$STATE_DIR" "$(setting weights.bucket)" "$(setting weights.prefix)" \
        "${formats[@]}" 2>"$STATE_DIR/manifest.problem" <<'PYTHON'
import json
import re
import sys
from fnmatch import fnmatchcase
from urllib.parse import quote

MAX_FILES, MAX_FILE_BYTES, MAX_NAME_BYTES = 10_000, 5 * 2**40, 255

state, bucket, prefix, *formats = sys.argv[1:]


def is_data(path):
    name = path.rpartition("/")[2]
    return any(fnmatchcase(path if "/" in each else name, each) for each in formats)


with open(f"{state}/manifest.json", encoding="utf-8") as file:
    try:
        manifest = json.load(file)
    except (ValueError, RecursionError) as error:
        sys.exit(f"it is not JSON: {error}")
total = 0
records = []
flat_names = set()
try:
    if manifest["schema"] != 1:
        sys.exit("its schema is not known to this script (1 is known)")
    if len(manifest["files"]) > MAX_FILES:
        sys.exit(f"it names more than {MAX_FILES} files")
    for entry in manifest["files"]:
        path, size, sha256 = entry["path"], entry["size"], entry["sha256"]
        parts = path.split("/")
        if any(part in ("", ".", "..") for part in parts) or re.search(r"[\x00-\x1f\x7f]", path):
            sys.exit(f"it names a path that is not below the weights: {path!r}")
        flat = quote(path, safe="")
        if len(flat) > MAX_NAME_BYTES or flat in flat_names:
            sys.exit(f"a path is too long or there twice: {path[:100]!r}")
        if not is_data(path):
            sys.exit(f"{path!r} is no data format; tpuflex:model.weights.extra_files may allow it")
        if type(size) is not int or not 0 <= size <= MAX_FILE_BYTES:
            sys.exit(f"the size of {path!r} is not valid")
        if not re.fullmatch(r"[0-9a-f]{64}", sha256):
            sys.exit(f"the sha256 of {path!r} is not valid")
        url = f"b/{quote(bucket)}/o/{quote(f'{prefix}/{path}', safe='')}?alt=media"
        records += [path, str(size), sha256, url, flat]
        flat_names.add(flat)
        total += size
except (KeyError, TypeError, AttributeError, ValueError) as error:
    sys.exit(f"a part is missing or has the wrong form: {error}")
if not records:
    sys.exit("it names no files")
with open(f"{state}/weights.records", "w", encoding="utf-8") as file:
    file.write("".join(f"{field}\0" for field in records))
with open(f"{state}/weights.bytes", "w", encoding="ascii") as file:
    file.write(str(total))
PYTHON
}

manifest_bytes() {
    printf '%s' "$(<"$STATE_DIR/weights.bytes")"
}

# Bytes of weights and parts of weights that are in memory.
bytes_present() {
    local present total
    present=$(du --summarize --bytes "$MEMORY_DIR/weights" "$MEMORY_DIR/partial" 2>/dev/null |
        { sum=0; while read -r bytes _; do sum=$((sum + bytes)); done; printf '%s' "$sum"; }) || true
    total=$(manifest_bytes)
    # Directories count a little, too.
    printf '%s' $((present < total ? present : total))
}

bytes_missing() {
    weights_directories
    printf '%s' $(($(manifest_bytes) - $(bytes_present)))
}

fetch_weights() {
    phase weights
    weights_directories
    wait_for_manifest
    require_space "$(bytes_missing)"
    local total before began elapsed fetched reporter
    total=$(manifest_bytes)
    before=$(bytes_present)
    began=$(milliseconds)
    rm -f "$STATE_DIR/weights.problems"
    detail "$(human "$before") of $(human "$total")"
    report_progress "$began" "$before" "$total" &
    reporter=$!
    # Workers say in weights.problems why they failed; xargs only that one did.
    xargs --null --max-args=5 --max-procs="$(setting weights.parallelism)" \
        bash -c 'set -Eeuo pipefail; fetch_file "$@"' fetch_file <"$STATE_DIR/weights.records" || true
    kill "$reporter" 2>/dev/null || true
    wait "$reporter" 2>/dev/null || true
    if [[ -s $STATE_DIR/weights.problems ]]; then
        local code text
        read -r code text <"$STATE_DIR/weights.problems"
        fail "$code" "$text"
    fi
    require_all_checked
    remove_strangers
    report weights "$(setting weights.manifest_sha256)"
    elapsed=$(($(milliseconds) - began + 1))
    fetched=$((total - before))
    if ((fetched > 0)); then
        detail "$(human "$total") checked, $(human "$fetched") of it fetched in $((elapsed / 1000)).$((elapsed % 1000 / 100)) s, $(gbps "$fetched" "$elapsed") Gbps"
    else
        detail "$(human "$total") were there and checked"
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

# Whatever happened to the workers: nothing goes on unless every single file is checked.
require_all_checked() {
    local path size sha256 _url flat
    while IFS= read -r -d '' path && IFS= read -r -d '' size && IFS= read -r -d '' sha256 &&
        IFS= read -r -d '' _url && IFS= read -r -d '' flat; do
        is_checked "$WEIGHTS_DIR/$path" "$CHECKED_DIR/$flat" "$size" "$sha256" ||
            fail weights-download "$path could not be fetched and checked"
    done <"$STATE_DIR/weights.records"
}

report_progress() {
    local began=$1 before=$2 total=$3 present
    # Ended by TERM between two reports, never within one: a late report would overwrite what
    # the next phase says. `wait` is what a trap can interrupt.
    trap 'exit 0' TERM
    while :; do
        pause 2 &
        wait "$!"
        present=$(bytes_present)
        detail "$(human "$present") of $(human "$total"), $(gbps $((present - before)) $(($(milliseconds) - began + 1))) Gbps"
    done
}

# gbps BYTES MILLISECONDS, with two decimals.
gbps() {
    local hundredths=$(($1 * 8 / ($2 * 10000)))
    printf '%d.%02d' $((hundredths / 100)) $((hundredths % 100))
}

# fetch_file PATH SIZE SHA256 URL FLAT-NAME: runs in a process of its own, several at a time.
fetch_file() {
    local path=$1 size=$2 sha256=$3 url=$4
    local file="$WEIGHTS_DIR/$1" partial="$PARTIAL_DIR/$5" checked="$CHECKED_DIR/$5" attempt
    if is_checked "$file" "$checked" "$size" "$sha256"; then
        return 0
    fi
    rm -f "$file" "$checked"
    for attempt in 1 2; do
        transfer "$partial" "$size" "$url" "$path" || return 1
        if matches "$partial" "$size" "$sha256"; then
            mkdir -p "${file%/*}"
            mv -f "$partial" "$file"
            printf '%s %s' "$sha256" "$(stat --format='%s %.9Y' "$file")" >"$checked"
            return 0
        fi
        log "weights: $path does not match the manifest (try $attempt of 2)"
        rm -f "$partial"
    done
    problem weights-checksum "$path in the bucket is cut short or altered: it does not match the manifest; run: $(setting commands.weights) --again"
    return 1
}

problem() {
    printf '%s %s\n' "$1" "$2" >>"$STATE_DIR/weights.problems"
}

# is_checked FILE RECORD SIZE SHA256: whether FILE was checked against this sum and is untouched
# since; hashing it again at every run would take the processor from a server at work.
is_checked() {
    [[ -f $1 && -f $2 && $(<"$2") == "$4 $3 "* && $(<"$2") == "$4 $(stat --format='%s %.9Y' "$1")" ]]
}

matches() {
    local sum
    [[ $(stat --format=%s "$1") == "$2" ]] || return 1
    sum=$(sha256sum "$1") && [[ ${sum%% *} == "$3" ]]
}

# transfer PARTIAL SIZE URL PATH: fetch what is missing of PARTIAL.
transfer() {
    local partial=$1 size=$2 url=$3 path=$4 present delay status code
    for delay in 1 2 4 8 0; do
        present=$(stat --format=%s "$partial" 2>/dev/null || printf 0)
        ((present <= size)) || { rm -f "$partial"; present=0; }
        # A file without content is not worth a request, and cannot be asked for by range.
        ((present < size)) || { : >>"$partial"; return 0; }
        code=0
        # A block more than the file has: an object that is longer is seen to be.
        status=$(download $((size / 1024 + 1)) curl --silent --show-error --fail \
            --connect-timeout 10 --speed-limit 1024 --speed-time 60 --continue-at - \
            --output "$partial" --write-out '%{http_code}' "$STORAGE/$url") || code=$?
        ((code != 0)) || return 0
        log "weights: $path: curl ended with $code, HTTP $status"
        case $status in
        404)
            problem weights-missing "$path is in the manifest but not in the bucket; push it again"
            return 1
            ;;
        401 | 403) authorize || true ;;
        416) rm -f "$partial" ;;
        esac
        case $code in
        # The server does not continue downloads.
        33) rm -f "$partial" ;;
        # Writing failed: at the limit, or because memory is full.
        23)
            (($(stat --format=%s "$partial") <= size)) || return 0
            problem capacity "no room left in memory while fetching $path ($(human "$size")): \
$MEMORY_DIR has $(human "$(space_free)") free; something else on the host fills it"
            return 1
            ;;
        esac
        pause "$delay"
    done
    problem weights-download "$path could not be fetched (curl $code, HTTP $status)"
    return 1
}

# A server reads whatever lies beside the weights: keep only what the manifest names.
remove_strangers() {
    python3 -IS - "$WEIGHTS_DIR" "$STATE_DIR/weights.records" <<'PYTHON'
import os
import sys

directory, records = sys.argv[1:]
with open(records, encoding="utf-8") as file:
    named = set(file.read().split("\0")[0::5])
for folder, _, names in os.walk(directory):
    for name in names:
        path = os.path.join(folder, name)
        if os.path.relpath(path, directory) not in named:
            os.unlink(path)
PYTHON
}

export -f download fetch_file is_checked matches transfer problem log pause authorize http_get human space_free
