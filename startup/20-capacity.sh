#!/usr/bin/env bash
# Startup of a serving host, part 20: is there room for the weights, in memory, or else on the disk?
set -Eeuo pipefail

# Kept free beside the weights for the server's own shared memory.
export SPARE_BYTES=$((64 * 1024 * 1024))
# Where weights go that memory has no room for.
export DISK_DIR="${TPUFLEX_ROOT:-}/var/lib/tpuflex/weights"
# Kept free beside them on the disk, which is that of the system: the image comes at the same time, and
# docker has it packed and unpacked at once; logs and compiled programs come later. vLLM's image for TPU
# has several GB, so this is a guess on the safe side; the boot disk of a TPU VM has 100 GB.
export DISK_SPARE_BYTES=20000000000

CAPACITY_REMEDY='take an accelerator type with larger hosts or a smaller model'

# memory_lacks BYTES: say why that much more does not fit into memory; nothing, if it does.
memory_lacks() {
    local free needed=$(($1 + SPARE_BYTES)) who
    who="the weights need $(human "$1") and $(human "$SPARE_BYTES") to spare"
    free=$(space_free "$MEMORY_DIR")
    if ((free < needed)); then
        printf '%s has %s free, %s' "$MEMORY_DIR" "$(human "$free")" "$who"
        return 0
    fi
    free=$(memory_available)
    ((free >= needed)) || printf 'the host has %s of memory available, %s' "$(human "$free")" "$who"
}

# Bytes that memory can take, by the file system in it and by the kernel.
memory_free() {
    local here available
    here=$(space_free "$MEMORY_DIR")
    available=$(memory_available)
    printf '%s' $((here < available ? here : available))
}

# space_free DIRECTORY: bytes free in its file system.
space_free() {
    local free
    free=$(df --output=avail --block-size=1 "$1" | tail --lines=1)
    # df pads its columns.
    printf '%s' "${free//[[:space:]]/}"
}

# Bytes that the kernel could give away. A file system in memory is no promise of any; and an emulated
# host, which has no /proc, keeps it on a disk.
memory_available() {
    local name kilobytes _unit
    while read -r name kilobytes _unit; do
        [[ $name != MemAvailable: ]] || { printf '%s' $((kilobytes * 1024)) && return 0; }
    done < <(cat "${TPUFLEX_ROOT:-}/proc/meminfo" 2>/dev/null)
    space_free "$MEMORY_DIR"
}

# is_chosen PLACE: whether that place was chosen for the weights in this boot.
is_chosen() {
    [[ -s $STATE_DIR/$1 && $(<"$STATE_DIR/$1") == "$(setting weights.manifest_sha256)" ]]
}

is_on_disk() {
    is_chosen on-disk
}

# disk_directory: of the weights on the disk. It is named after the manifest, so that what another one has
# left is known by its name.
disk_directory() {
    printf '%s' "$DISK_DIR/$(setting weights.manifest_sha256)"
}

# place_weights: choose where the weights of the manifest go, once a boot, and remove what lies in the
# other place; fail where neither has room. Secrets never go to the disk.
place_weights() {
    local missing lack=''
    if is_on_disk; then
        require_disk
        detail "$(human "$(manifest_bytes)") of weights stay on the disk, which is slower than memory"
        return 0
    fi
    missing=$(bytes_missing)
    # Where this set is there already, it needs no more room, and may be what a server has.
    if ((missing > 0)) || ! is_chosen in-memory; then
        lack=$(memory_lacks "$missing")
    fi
    if [[ -z $lack ]]; then
        rm -f "$STATE_DIR/on-disk"
        setting weights.manifest_sha256 >"$STATE_DIR/in-memory"
        rm -rf "$DISK_DIR" || log 'weights that an earlier boot has left on the disk could not be removed'
        return 0
    fi
    believe_no_names
    require_disk "$lack"
    detail "$(human "$(manifest_bytes)") of weights do not fit into $(human "$(memory_free)") of memory: \
they go to the disk, which is slower"
    rm -rf "$MEMORY_DIR"/{weights,partial,ledgers,checked} "$STATE_DIR/in-memory"
    setting weights.manifest_sha256 >"$STATE_DIR/on-disk"
}

# believe_no_names: of what lies on the disk since another boot, keep plain files and directories of this
# user's own. Whoever had the disk may have left links, or other names of a file by which it can be
# changed once it is checked; only the content of the others is read again.
believe_no_names() {
    local disk
    local -a mine
    disk=$(disk_directory)
    private_directory "$DISK_DIR"
    [[ ! -L $disk && (! -e $disk || -d $disk) ]] || rm -rf "$disk"
    [[ -d $disk ]] || return 0
    mine=(-user "$EUID" ! -perm /022)
    find "$disk" -mindepth 1 ! \( -type d "${mine[@]}" -o -type f -links 1 "${mine[@]}" \) -prune -exec rm -rf {} +
    private_directory "$disk"
}

# require_disk [LACK]: make the set's directory on the disk, without those of others, or fail, also with
# what memory lacks, where the disk has no room for what is missing.
require_disk() {
    local disk free missing spare=$SPARE_BYTES
    disk=$(disk_directory)
    private_directory "$DISK_DIR"
    find "$DISK_DIR" -mindepth 1 -maxdepth 1 ! -name "${disk##*/}" -exec rm -rf {} +
    # Where it is there, room was found for the image, too, which may have come since.
    [[ -d $disk ]] || spare=$DISK_SPARE_BYTES
    missing=$(bytes_missing "$disk")
    free=$(space_free "$DISK_DIR")
    ((missing == 0 || free >= missing + spare)) ||
        fail capacity "${1:+$1, and }the disk has $(human "$free") free for $(human "$missing") of weights and \
$(human "$spare") to spare; $CAPACITY_REMEDY"
    mkdir -p "$disk"
}

check_capacity() {
    local lack
    phase capacity
    # A first look: without a manifest yet, there is at least room for a small model. The
    # weights phase asks again with the manifest that it uses.
    if authorize && [[ $(get_manifest) == 200 ]]; then
        use_manifest
        place_weights
        is_on_disk || detail "$(human "$(manifest_bytes)") of weights fit into memory"
    else
        lack=$(memory_lacks 0)
        [[ -z $lack ]] || fail capacity "$lack; $CAPACITY_REMEDY"
    fi
}
