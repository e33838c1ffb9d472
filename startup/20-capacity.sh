#!/usr/bin/env bash
# Startup of a serving host, part 20: is there room in memory for the weights?
set -Eeuo pipefail

# Kept free beside the weights for the server's own shared memory.
export SPARE_BYTES=$((64 * 1024 * 1024))

# require_space BYTES [WHO]: fail unless that much more fits into memory.
require_space() {
    local free needed=$(($1 + SPARE_BYTES)) who=${2:-the weights need}
    free=$(space_free)
    if ((free < needed)); then
        fail capacity "$MEMORY_DIR has $(human "$free") free, $who $(human "$1") \
and $(human "$SPARE_BYTES") to spare; take an accelerator type with larger hosts or a smaller model"
    fi
    free=$(memory_available)
    if ((free < needed)); then
        fail capacity "the host has $(human "$free") of memory available, $who \
$(human "$1") and $(human "$SPARE_BYTES") to spare; take an accelerator type with larger hosts or a \
smaller model"
    fi
}

# Bytes free in the file system that the weights go to.
space_free() {
    local free
    free=$(df --output=avail --block-size=1 "$MEMORY_DIR" | tail --lines=1)
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
    space_free
}

check_capacity() {
    phase capacity
    # A first look: without a manifest yet, there is at least room for a small model. The
    # weights phase asks again with the manifest that it uses.
    if authorize && [[ $(get_manifest) == 200 ]]; then
        use_manifest
        require_space "$(bytes_missing)"
        detail "$(human "$(manifest_bytes)") of weights fit into memory"
    else
        require_space 0
    fi
}
