#!/usr/bin/env bash
# Startup of a serving host, part 60: run the server. A container that already runs with this
# configuration and these weights is left alone.
set -Eeuo pipefail

# The container's first process: gives the key to the server in its environment, which neither
# `docker inspect` nor a process list shows, then becomes the server.
write_entrypoint() {
    cat >"$STATE_DIR/entrypoint.sh.new" <<'SCRIPT'
#!/bin/bash
set -euo pipefail
secrets=$1
shift
VLLM_API_KEY=$(<"$secrets/api-key")
export VLLM_API_KEY
if [[ -r $secrets/hf-token ]]; then
    export HF_TOKEN_PATH="$secrets/hf-token"
fi
exec python3 -m vllm.entrypoints.openai.api_server "$@"
SCRIPT
    mv -f "$STATE_DIR/entrypoint.sh.new" "$STATE_DIR/entrypoint.sh"
}

# What the container depends on, as one hash: configuration, weights, entry point.
container_spec() {
    local sum
    sum=$(cat "$STATE_DIR/config.json" "$STATE_DIR/manifest.json" "$STATE_DIR/entrypoint.sh" | sha256sum)
    printf '%s' "${sum%% *}"
}

# container_state: prints `STATUS RESTARTS EXIT-CODE SPEC` of the container, or `absent 0 0 -`.
container_state() {
    local text
    text=$(docker inspect "$(setting container.name)" 2>/dev/null) || {
        printf 'absent 0 0 -'
        return 0
    }
    python3 -IS -c '
import json
import sys

container = json.load(sys.stdin)[0]
state = container["State"]
spec = (container["Config"].get("Labels") or {}).get("tpuflex.spec") or "-"
print(state["Status"], container.get("RestartCount", 0), state["ExitCode"], spec)
' <<<"$text"
}

start_container() {
    phase container
    local name spec status running_spec _restarts _code
    name=$(setting container.name)
    write_entrypoint
    spec=$(container_spec)
    read -r status _restarts _code running_spec <<<"$(container_state)"
    if [[ $status == running && $running_spec == "$spec" ]]; then
        detail 'the container already runs with this configuration'
        return 0
    fi
    if [[ $status != absent ]]; then
        detail "replacing the container that is $status"
        docker rm --force "$name" >/dev/null
    fi
    run_container "$name" "$spec"
}

run_container() {
    local name=$1 spec=$2 entry
    local -a args=() env=() options=()
    setting_list serving.args args
    setting_list container.env env
    for entry in "${env[@]}"; do
        options+=(--env "$entry")
    done
    # --mount, not --volume: it refuses a source that is not there instead of making a directory
    # of it, which docker would otherwise do after a reboot, before this script has run.
    if ! docker run --detach --name "$name" --label "tpuflex.spec=$spec" \
        --restart unless-stopped --network host --privileged \
        --shm-size "$(setting container.shm_size)" \
        --log-driver json-file --log-opt max-size=100m --log-opt max-file=3 \
        --mount "type=bind,source=$WEIGHTS_DIR,target=$WEIGHTS_DIR,readonly" \
        --mount "type=bind,source=$SECRETS_DIR,target=$SECRETS_DIR,readonly" \
        --mount "type=bind,source=$STATE_DIR/entrypoint.sh,target=$STATE_DIR/entrypoint.sh,readonly" \
        "${options[@]}" --entrypoint /bin/bash "$(setting container.image)" \
        "$STATE_DIR/entrypoint.sh" "$SECRETS_DIR" \
        --model "$WEIGHTS_DIR" --served-model-name "$(setting serving.model_name)" \
        --host "$(<"$STATE_DIR/address")" --port "$(setting serving.port)" "${args[@]}" \
        >/dev/null 2>"$STATE_DIR/run.problem"; then
        fail container "docker cannot start the container: $(tail --bytes=600 "$STATE_DIR/run.problem")"
    fi
}
