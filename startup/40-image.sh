#!/usr/bin/env bash
# Startup of a serving host, part 40: have docker, have the image of exactly this digest.
set -Eeuo pipefail

fetch_image() {
    phase image
    local image delay
    image=$(setting container.image)
    wait_for_docker
    if docker image inspect "$image" >/dev/null 2>&1; then
        detail 'the image is there'
        return 0
    fi
    detail "pulling $image"
    for delay in 5 10 20 40 0; do
        if docker pull "$image" >/dev/null 2>"$STATE_DIR/pull.problem"; then
            return 0
        fi
        detail "pulling $image failed: $(tail --bytes=300 "$STATE_DIR/pull.problem")"
        pause "$delay"
    done
    fail image "docker cannot pull $image: $(tail --bytes=600 "$STATE_DIR/pull.problem")"
}

wait_for_docker() {
    wait_begin
    until docker info >"$STATE_DIR/docker.problem" 2>&1; do
        detail 'waiting for docker'
        ! wait_over 180 || fail docker "docker does not answer: $(tail --bytes=300 "$STATE_DIR/docker.problem")"
        pause 3
    done
}
