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
        if pull_image "$image" >/dev/null 2>"$STATE_DIR/pull.problem"; then
            return 0
        fi
        detail "pulling $image failed: $(tail --bytes=300 "$STATE_DIR/pull.problem")"
        pause "$delay"
    done
    fail image "docker cannot pull $image: $(tail --bytes=600 "$STATE_DIR/pull.problem")"
}

# pull_image IMAGE: with the host's own token where Google keeps it. The token is in no argument and
# on no disk: docker reads it from a directory in memory that is gone afterwards.
pull_image() {
    local image=$1 registry=${1%%/*} credentials="$MEMORY_DIR/registry" status=0
    case $registry in
    *.pkg.dev | gcr.io | *.gcr.io) ;;
    *)
        docker pull "$image"
        return
        ;;
    esac
    authorize || return 1
    rm -rf "$credentials"
    mkdir "$credentials"
    python3 -IS - "$AUTHORIZATION" "$registry" "$credentials/config.json" <<'PYTHON' || return 1
import base64
import json
import sys

header, registry, target = sys.argv[1:]
with open(header, encoding="ascii") as file:
    token = file.read().split()[-1]
# https://cloud.google.com/artifact-registry/docs/docker/authentication#token
login = {"auth": base64.b64encode(f"oauth2accesstoken:{token}".encode()).decode()}
with open(target, "w", encoding="ascii") as file:
    auths = {registry: login}
    json.dump({"auths": auths}, file)
PYTHON
    DOCKER_CONFIG=$credentials docker pull "$image" || status=$?
    rm -rf "$credentials"
    return "$status"
}

wait_for_docker() {
    wait_begin
    until docker info >"$STATE_DIR/docker.problem" 2>&1; do
        detail 'waiting for docker'
        ! wait_over 180 || fail docker "docker does not answer: $(tail --bytes=300 "$STATE_DIR/docker.problem")"
        pause 3
    done
}
