#!/usr/bin/env bash
# Startup of a serving host, part 40: have the image of exactly this digest.
set -Eeuo pipefail

fetch_image() {
    have_docker
    local image delay problem
    image=$(setting container.image)
    if docker image inspect "$image" >/dev/null 2>&1; then
        detail 'the image is there'
        return 0
    fi
    detail "pulling $image"
    for delay in 5 10 20 40 60 60 60 0; do
        if pull_image "$image" >/dev/null 2>"$STATE_DIR/pull.problem"; then
            detail 'the image is there'
            return 0
        fi
        ! is_final "${image%%/*}" || break
        # A role that was just granted takes minutes to take effect; nothing else does.
        [[ $delay != 60 ]] || is_denied || break
        detail "pulling $image failed: $(tail --bytes=300 "$STATE_DIR/pull.problem")"
        pause "$delay"
    done
    problem="docker cannot pull $image: $(tail --bytes=600 "$STATE_DIR/pull.problem")$(pull_remedy "${image%%@*}")"
    ! is_unknown || fail image-unknown "$problem"
    ! is_denied || fail image-denied "$problem"
    fail image "$problem"
}

# is_final REGISTRY: whether what docker says of a pull is no different a minute later. Nobody is
# granted anything where the host has no token to be known by.
is_final() {
    is_unknown || { ! has_token_for "$1" && says 'pull access denied|denied: |: denied$'; }
}

# is_unknown: whether the registry has no such repository, or in it no such manifest for this machine:
# https://github.com/opencontainers/distribution-spec/blob/main/spec.md#error-codes in the words of
# docker, and of containerd.
is_unknown() {
    ! is_limited && says 'manifest unknown|name unknown|manifest for .* not found|no matching manifest' \
        'failed to resolve reference .*: not found'
}

is_limited() {
    says toomanyrequests
}

is_denied() {
    says 'denied|unauthorized|forbidden'
}

# says PATTERN...: whether docker's words about the last pull match one of them.
says() {
    local IFS='|'
    grep --quiet --ignore-case --extended-regexp -- "$*" "$STATE_DIR/pull.problem"
}

# pull_remedy REPOSITORY: what may mend the failure, after what docker says of it.
pull_remedy() {
    local rest=${1#*/}
    if is_unknown; then
        printf '%s' '. Asking again finds nothing else: write an image for this machine that is there at' \
            ' tpuflex:serving.image, with its digest'
    elif is_limited && has_token_for "${1%%/*}"; then
        printf '%s' '. Artifact Registry limits requests by the minute, and Docker Hub those of a' \
            ' mirror that has no account there:' \
            ' https://cloud.google.com/artifact-registry/docs/repositories/configure-remote-auth-dockerhub'
    elif is_limited; then
        printf '%s' '. All hosts behind one address share this limit: mirror the image in Artifact' \
            ' Registry (see README), and write its name there at tpuflex:serving.image'
    elif is_denied && has_token_for "${1%%/*}"; then
        printf ". The hosts' service account needs the role Artifact Registry Reader in the project %s" \
            "${rest%%/*}"
    elif is_denied; then
        printf '. The host logs in to registries of Google only: mirror the image in Artifact Registry'
    fi
}

# has_token_for REGISTRY: whether Google keeps it, so that the host's own token opens it.
has_token_for() {
    case $1 in
    *.pkg.dev | gcr.io | *.gcr.io) return 0 ;;
    *) return 1 ;;
    esac
}

# pull_image IMAGE: with the host's own token where Google keeps it. The token is in no argument and
# on no disk: docker reads it from a directory in memory that is gone afterwards.
pull_image() {
    local image=$1 registry=${1%%/*} credentials="$MEMORY_DIR/registry" status=0
    if ! has_token_for "$registry"; then
        docker pull "$image"
        return
    fi
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
