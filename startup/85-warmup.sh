#!/usr/bin/env bash
# Startup of a serving host, part 85: ask the server for what it will serve, before others do, so that
# the first user waits no longer than the tenth. READY comes after it.
set -Eeuo pipefail

# There while the server that runs was warmed up; how often docker had started it again by then.
export WARM="$STATE_DIR/warm"

warm_up() {
    local seconds restarts said _
    seconds=$(setting serving.warmup_s)
    ((seconds > 0)) || return 0
    phase warmup
    read -r _ restarts _ <<<"$(container_state)"
    if [[ -e $WARM && $(<"$WARM") == "$restarts" ]]; then
        detail 'the server was warmed up before'
        return 0
    fi
    detail "asking for completions for $seconds s at most"
    said=$(ask_for_all "$seconds") ||
        said="the server was not warmed up: $(tail --lines=1 "$STATE_DIR/warmup.problem" | head --bytes=300)"
    require_serving "$said"
    printf '%s' "$restarts" >"$WARM"
    detail "$said"
}

# ask_for_all SECONDS: print in words what was asked; 1, with a reason in warmup.problem.
ask_for_all() {
    local name
    for name in routes warmup warmup_requests; do
        python_source "$name" >"$STATE_DIR/$name.py"
    done
    timeout $(($1 + 30)) python3 -IBS -c '
import sys

sys.path.insert(0, sys.argv.pop(1))
import warmup

warmup.main()
' "$STATE_DIR" "$(server_url)" "$TLS_DIR/certificate.pem" "$(setting serving.model_name)" \
        "$(setting serving.max_num_batched_tokens)" "$(setting serving.max_num_seqs)" "$1" \
        <"$HOST_KEY" 2>"$STATE_DIR/warmup.problem"
}

# require_serving SAID: what serves one more completion serves; what dies of a longer prompt would die
# of a user's. One that still computes what nobody waits for any more answers when that is done.
require_serving() {
    local answer="$STATE_DIR/completion.json" key="$MEMORY_DIR/key.header" status lines
    write_key "$key"
    status=$(complete_somehow "$answer" "$key")
    rm -f "$key"
    [[ $status != 200 ]] || return 0
    lines=$(last_lines)
    docker stop "$(setting container.name)" >/dev/null 2>&1 || true
    fail warmup "the server answers $status to a completion after its warm-up ($1): $lines"
}
