#!/usr/bin/env bash
# Startup of a serving host, part 60: run the server. A container that already runs with this
# configuration and these weights is left alone.
set -Eeuo pipefail

# What stands between the clients and the server: guard.py, the digests of the keys that it lets
# pass, and the entry point; and full_collections.py. The container gets no client's key, and the host
# shows it none: it has a key of its own.
export GUARD_DIR="$STATE_DIR/guard"

write_guard() {
    mkdir -p "$GUARD_DIR"
    python_source guard >"$GUARD_DIR/tpuflex_guard.py"
    python_source full_collections >"$GUARD_DIR/sitecustomize.py"
    write_digests
    write_entrypoint
}

# make_host_key: kept for this boot, because with another one the server that runs would be replaced.
make_host_key() {
    [[ ! -s $HOST_KEY ]] || return 0
    python3 -IS -c 'import secrets; print(secrets.token_urlsafe(32))' >"$HOST_KEY.new"
    mv -f "$HOST_KEY.new" "$HOST_KEY"
}

write_digests() {
    make_host_key
    python3 -IS - "$SECRETS_DIR" "$GUARD_DIR/keys.json" <<'PYTHON'
import hashlib
import json
import os
import sys

directory, target = sys.argv[1:]
document = {}
for name, roles in {"full": ("api-key", "host-key"), "metrics": ("metrics-key",)}.items():
    keys = []
    for role in roles:
        path = os.path.join(directory, role)
        if os.path.exists(path):
            with open(path, "rb") as file:
                keys += file.read().split()
    document[name] = [hashlib.sha256(key).hexdigest() for key in keys]
with open(target, "w", encoding="ascii") as file:
    json.dump(document, file)
PYTHON
}

# The container's first process: makes the key that the guard and the server share for this
# start, in the environment, which neither `docker inspect` nor a process list shows, then becomes
# the server. It ends here if the guard cannot be used. The last middleware is the outermost.
write_entrypoint() {
    cat >"$GUARD_DIR/entrypoint.sh" <<'SCRIPT'
#!/bin/bash
set -euo pipefail
guard=$1
shift
export PYTHONPATH="$guard${PYTHONPATH:+:$PYTHONPATH}"
VLLM_API_KEY=$(python3 -c 'import tpuflex_guard; print(tpuflex_guard.new_inner_key())')
export VLLM_API_KEY
exec python3 -m vllm.entrypoints.openai.api_server "$@" --middleware tpuflex_guard.Guard
SCRIPT
}

# What the container depends on, as one hash: configuration, weights and where they are, guard and entry
# point.
container_spec() {
    local sum
    sum=$({ printf '%s\n' "$WEIGHTS_DIR" &&
        cat "$STATE_DIR/config.json" "$STATE_DIR/manifest.json" "$GUARD_DIR"/*.*; } | sha256sum)
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
    write_guard
    spec=$(container_spec)
    read -r status _restarts _code running_spec <<<"$(container_state)"
    if [[ $status == running && $running_spec == "$spec" ]]; then
        detail 'the container already runs with this configuration'
        report isolation "$(<"$STATE_DIR/isolation")"
        tell_compile_cache
        return 0
    fi
    if [[ $status != absent ]]; then
        detail "replacing the container that is $status"
        docker rm --force "$name" >/dev/null
    fi
    place_compile_cache || without_compile_cache 'it could not be put in place'
    run_server
}

# run_container ADDRESS OPTION...: start the server so that it listens on ADDRESS; 1, with the
# reason in run.problem, when docker cannot.
run_container() {
    local address=$1 entry template image
    image=$(setting container.image)
    local -a args=() env=() options=("${@:2}")
    setting_list serving.args args
    setting_list container.env env
    for entry in "${env[@]}"; do
        options+=(--env "$entry")
    done
    cache_options options
    template=$(setting serving.chat_template)
    if [[ -n $template ]]; then
        [[ -f $WEIGHTS_DIR/$template ]] ||
            fail chat-template "the weights have no file $template; change \
tpuflex:serving.flags.chat_template, or push weights with it"
        args+=(--chat-template "$WEIGHTS_DIR/$template")
    fi
    if has_tls; then
        options+=(--mount "type=bind,source=$TLS_DIR,target=$TLS_DIR,readonly")
        args+=(--ssl-certfile "$TLS_DIR/certificate.pem" --ssl-keyfile "$TLS_DIR/key.pem")
    fi
    rm -f "$STATE_DIR/warm"
    # --mount, not --volume: it refuses a source that is not there instead of making a directory
    # of it, which docker would otherwise do after a reboot, before this script has run. The guard's is in
    # memory, so that no server begins then with weights on the disk that this boot has not checked.
    docker run --detach --name "$(setting container.name)" \
        --label "tpuflex.spec=$(container_spec)" --restart unless-stopped \
        --shm-size "$(setting container.shm_size)" \
        --log-driver json-file --log-opt max-size=100m --log-opt max-file=3 \
        --mount "type=bind,source=$WEIGHTS_DIR,target=$WEIGHTS_DIR,readonly" \
        --mount "type=bind,source=$GUARD_DIR,target=$GUARD_DIR,readonly" \
        "${options[@]}" --entrypoint /bin/bash "$image" \
        "$GUARD_DIR/entrypoint.sh" "$GUARD_DIR" \
        --model "$WEIGHTS_DIR" --served-model-name "$(setting serving.model_name)" \
        --host "$address" --port "$(setting serving.port)" "${args[@]}" \
        >/dev/null 2>"$STATE_DIR/run.problem"
}
