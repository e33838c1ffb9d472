#!/usr/bin/env bash
# Startup of a serving host, part 80: ask the server for one real answer, with the key, and make
# sure that it is no older than it may be and that on each of its routes it gives none without.
# READY means exactly this.
set -Eeuo pipefail

serve_completion() {
    phase completion
    local answer="$STATE_DIR/completion.json" key="$MEMORY_DIR/key.header" status
    write_key "$key"
    require_version "$key"
    require_closed
    status=$(complete_somehow "$answer" "$key")
    [[ $status != 200 ]] || report_kv_cache "$key"
    rm -f "$key"
    [[ $status == 200 ]] || fail completion "the server answers $status to a completion: $(head --bytes=600 "$answer" 2>/dev/null)"
    if ! python3 -IS - "$answer" 2>"$STATE_DIR/completion.problem" <<'PYTHON'; then
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    answer = json.load(file)
if not answer["choices"] or answer["usage"]["completion_tokens"] < 1:
    sys.exit("the answer holds no tokens")
PYTHON
        fail completion "the completion is not valid: $(tail --lines=1 "$STATE_DIR/completion.problem")"
    fi
}

# write_key HEADER-FILE: the header with the host's own key, for curl.
write_key() {
    { printf 'Authorization: Bearer ' && cat "$HOST_KEY"; } >"$1"
}

# complete_somehow ANSWER HEADER-FILE: print the HTTP status of one short completion, of a chat if the
# model has one.
complete_somehow() {
    local status
    status=$(complete chat/completions "$@")
    if [[ $status == 400 || $status == 404 ]]; then
        # A base model has no chat template; it completes text.
        status=$(complete completions "$@")
    fi
    printf '%s' "$status"
}

# require_version HEADER-FILE: report which vLLM serves; stop it if it is below the floor.
require_version() {
    local answer="$STATE_DIR/version.json" version status problem
    python_source served >"$STATE_DIR/served.py"
    status=$(server_get /version "$answer" --max-time 30 --header "@$1")
    if [[ $status != 200 ]]; then
        problem="the server answers $status to /version"
    elif version=$(timeout 60 python3 -IS "$STATE_DIR/served.py" version "$answer" \
        "$(setting serving.security_floor)" 2>"$STATE_DIR/version.problem"); then
        report vllm_version "$version"
        return 0
    else
        problem=$(tail --lines=1 "$STATE_DIR/version.problem")
    fi
    rm -f "$1"
    docker stop "$(setting container.name)" >/dev/null 2>&1 || true
    fail server-version "$problem"
}

# report_kv_cache HEADER-FILE: nothing depends on it, so a server that does not say is no failure.
report_kv_cache() {
    local answer="$STATE_DIR/metrics.txt" status text
    status=$(server_get /metrics "$answer" --max-time 30 --header "@$1")
    if [[ $status == 200 ]] && text=$(timeout 60 python3 -IS "$STATE_DIR/served.py" kv-cache "$answer"); then
        report kv_cache "$text"
    else
        log "the size of the KV cache is not known (HTTP $status)"
    fi
    rm -f "$answer"
}

# Fail unless every route of the server, by its own list and by ours, wants the key.
require_closed() {
    local refused
    python_source routes >"$STATE_DIR/routes.py"
    if ! refused=$(python3 -IS "$STATE_DIR/routes.py" "$(server_url)" "$TLS_DIR/certificate.pem" \
        <"$HOST_KEY" 2>"$STATE_DIR/routes.problem"); then
        fail server-open "$(tail --lines=1 "$STATE_DIR/routes.problem")"
    fi
    detail "$refused"
}

# complete METHOD ANSWER HEADER-FILE: print the HTTP status of one short completion.
complete() {
    local request="$STATE_DIR/request.json"
    python3 -IS -c '
import json
import sys

path, method, model = sys.argv[1:]
text = "Reply with one word: ready"
request = {"model": model, "max_tokens": 8, "temperature": 0}
if method == "completions":
    request["prompt"] = text
else:
    request["messages"] = [{"role": "user", "content": text}]
with open(path, "w", encoding="utf-8") as file:
    json.dump(request, file)
' "$request" "$1" "$(setting serving.model_name)"
    # The first completion may compile programs for minutes.
    server_get "/v1/$1" "$2" --max-time 900 --header "@$3" \
        --header 'Content-Type: application/json' --data-binary "@$request"
}
