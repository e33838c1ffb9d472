#!/usr/bin/env bash
# Startup of a serving host, part 41: have the image from the library, for hosts that reach no registry:
# its blobs, fetched and checked as the weights are, and loaded only if they are what its digest names.
# The parts that read SET are in another file:
# shellcheck disable=SC2034
set -Eeuo pipefail

# The image and its ids, as they follow from its digest; on disk, as docker's own are.
export IMAGE_IDS="${TPUFLEX_ROOT:-}/var/lib/tpuflex/image/ids"

is_library_image() {
    [[ -n ${SETTINGS[image.bucket]:-} ]]
}

# image_to_run: the image as docker is told to run it. One of the library by its id, which no registry
# is ever asked for.
image_to_run() {
    if is_library_image; then
        loaded_image
    else
        setting container.image
    fi
}

# loaded_image: the id of the image that was loaded; 1 if there is none.
loaded_image() {
    local found
    found=$(docker image inspect "$(image_archive tag)" 2>/dev/null) || return 1
    python3 -IS -c 'import json, sys; print(json.load(sys.stdin)[0]["Id"])' <<<"$found"
}

# is_right_image ID: whether that is an id of the image, as its own blobs said, in this boot or an
# earlier one. Docker keeps what it has loaded under the name also where it has another.
is_right_image() {
    local known=
    [[ ! -s $IMAGE_IDS ]] || known=$(<"$IMAGE_IDS")
    [[ $known == "$(setting container.image)"$'\n'* && $'\n'$known$'\n' == *$'\n'"$1"$'\n'* ]]
}

# image_archive COMMAND [DIRECTORY]
image_archive() {
    local code="$STATE_DIR/image_archive.py"
    # Read by whoever comes next, so never half of it.
    python_source image_archive >"$code.$BASHPID"
    mv -f "$code.$BASHPID" "$code"
    python3 -IBS "$code" "$1" "$(setting container.image)" "${@:2}"
}

# fetch_library_image: in the process of the part alone, whose set this is from here on.
fetch_library_image() {
    local beside=0 id
    if id=$(loaded_image) && is_right_image "$id"; then
        detail 'the image is there'
        return 0
    fi
    # Of the weights, which come into memory at the same time, as far as they are known.
    [[ ! -s $STATE_DIR/weights.bytes ]] || is_on_disk || beside=$(bytes_missing)
    SET=image
    SET_STATE="$STATE_DIR/image"
    SET_MEMORY="$MEMORY_DIR/image"
    mkdir -p "$SET_STATE"
    weights_directories
    wait_for_manifest
    require_space "$(($(bytes_missing) + beside))" 'the image and the weights need'
    fetch_set
    load_image
    rm -rf "$SET_MEMORY"
    detail 'the image is there'
}

# load_image: check that the blobs are those that the digest names, and have docker take them. What
# docker unpacks it checks against the config, whose hash is the image's id.
load_image() {
    local id ids problem="$SET_STATE/load.problem"
    ids=$(image_archive check "$WEIGHTS_DIR" 2>"$problem") ||
        fail image-digest "what gs://$(setting image.bucket)/$(setting image.prefix) holds is not \
$(setting container.image): $(tail --lines=1 "$problem"). Run: $(setting commands.image) --again"
    private_directory "${IMAGE_IDS%/*}"
    printf '%s\n%s\n' "$(setting container.image)" "$ids" >"$IMAGE_IDS.new"
    mv -f "$IMAGE_IDS.new" "$IMAGE_IDS"
    detail 'loading the image'
    # Should docker give up, all that the archive can say is that nobody reads it.
    image_archive archive "$WEIGHTS_DIR" 2>"$problem.archive" |
        docker load --quiet >/dev/null 2>"$problem" ||
        fail image-load "docker cannot load the image: $(cat "$problem.archive" "$problem" | tail --bytes=600)"
    id=$(loaded_image) || fail image-load "docker has loaded something, and has no $(image_archive tag)"
    is_right_image "$id" ||
        fail image-digest "docker gives the image that it has loaded the id $id, which is not that of \
$(setting container.image)"
}
