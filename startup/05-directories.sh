#!/usr/bin/env bash
# Startup of a serving host, part 05: directories that are root's own. Anybody who may log in can
# make files in /dev/shm and /tmp, with any name, before this script runs; what is written into a
# directory or through a link of theirs is theirs to read.
set -Eeuo pipefail

# make_directories: where the script keeps its state, its log, and what must not reach a disk.
make_directories() {
    private_directory "$STATE_DIR"
    export STATE_IS_OURS=1
    private_directory "$LOG_DIR"
    private_directory "$MEMORY_DIR"
    # An emulated host has no file systems of its own.
    [[ -z ${TPUFLEX_ROOT:-} ]] || return 0
    # Not /run itself, which is small. Half of the memory, as the kernel gives to /dev/shm.
    if ! mountpoint --quiet "$MEMORY_DIR"; then
        mount -t tmpfs -o mode=0700,nosuid,nodev,noexec,size=50% tpuflex "$MEMORY_DIR" ||
            fail memory "no memory could be mounted at $MEMORY_DIR"
    fi
    private_directory "$MEMORY_DIR"
}

# private_directory PATH: make PATH, or take it over from an earlier run. It fails unless PATH is a
# directory of this user's own that nobody else may write to or exchange for another.
private_directory() {
    local path=$1 parent=${1%/*} kind owner mode
    mkdir --parents "$parent"
    while [[ $parent != "${TPUFLEX_ROOT:-}" ]]; do
        IFS='|' read -r kind owner mode < <(stat --format='%F|%u|%a' "$parent")
        # In a sticky directory (mode 1000), others can neither rename nor remove what is ours.
        if [[ $kind != directory ]] || ((owner != 0 && owner != EUID)) ||
            (((8#$mode & 8#0002) && !(8#$mode & 8#1000))); then
            fail directory "$parent is a $kind of user $owner with mode $mode: others could exchange $path"
        fi
        parent=${parent%/*}
    done
    mkdir --mode=0700 "$path" 2>/dev/null || true
    IFS='|' read -r kind owner mode < <(stat --format='%F|%u|%a' "$path")
    if [[ $kind != directory ]] || ((owner != EUID || 8#$mode & 8#0022)); then
        fail directory "$path is a $kind of user $owner with mode $mode, which this script did not \
make; remove it, and find out who did"
    fi
    chmod 0700 "$path"
}
