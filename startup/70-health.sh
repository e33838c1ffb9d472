#!/usr/bin/env bash
# Startup of a serving host, part 70: wait until the server answers, and notice when it dies.
set -Eeuo pipefail

# How often docker may start a dying container again before we stop it: some faults heal, such
# as a chip still held by the last process; the others would never end.
export RESTARTS_ALLOWED=1

server_url() {
    local scheme=http
    ! has_tls || scheme=https
    printf '%s://%s:%s' "$scheme" "$(<"$STATE_DIR/address")" "$(setting serving.port)"
}

wait_for_health() {
    phase health
    local limit polls=0 status
    limit=$(setting timeouts.ready_s)
    detail 'the server is starting'
    wait_begin
    while :; do
        status=$(server_get /health /dev/null --max-time 5)
        [[ $status != 200 ]] || return 0
        ((polls % 10 != 0)) || require_container
        polls=$((polls + 1))
        ! wait_over "$limit" || fail health "the server does not answer after $limit s (HTTP $status): $(last_lines)"
        pause 0.5
    done
}

# Fail if the container has died for good, or keeps dying.
require_container() {
    local status restarts code _spec
    read -r status restarts code _spec <<<"$(container_state)"
    case $status in
    created | running | restarting)
        ((restarts > 0)) || return 0
        if ((restarts <= RESTARTS_ALLOWED)); then
            detail "the server died with status $code and is started once more: $(last_lines 1)"
            return 0
        fi
        ;;
    esac
    local lines
    if is_isolated && [[ $(setting container.isolation) == preferred ]]; then
        fall_back "the server died with status $code: $(last_lines 1)"
        return 0
    fi
    lines=$(last_lines)
    docker stop "$(setting container.name)" >/dev/null 2>&1 || true
    fail container-died "the server died with status $code$(shm_remedy "$code" "$lines"): $lines"
}

# shm_remedy CODE LINES: what helps a server that may have filled its /dev/shm: it cannot write there
# any more, or ends by SIGBUS (128 + 7) where it has mapped more than there is.
shm_remedy() {
    if [[ $1 == 135 || $2 == *'No space left on device'* ]]; then
        printf ' (is its /dev/shm of %s full? raise tpuflex:serving.shm_size in the stack file)' \
            "$(setting container.shm_size)"
    fi
}

# last_lines [COUNT]: the end of the container's log, without secrets, short enough for a guest
# attribute.
last_lines() {
    docker logs --tail 60 "$(setting container.name)" 2>&1 |
        python3 -IS -c '
import os
import sys

directory, count = sys.argv[1], int(sys.argv[2])
text = sys.stdin.buffer.read().decode("utf-8", "replace")
for name in os.listdir(directory):
    with open(os.path.join(directory, name), encoding="utf-8", errors="replace") as file:
        secrets = file.read().split()
    for secret in secrets:
        text = text.replace(secret, "[removed]")
lines = [line.strip()[:300] for line in text.splitlines() if line.strip()]
# The cause, if the log names one, is worth more than what comes after it.
causes = [line for line in lines if "error:" in line.lower() or "Error: " in line]
shown = causes[-1:] if count == 1 and causes else lines[-count:]
print("\n".join(shown)[-3000:])
' "$SECRETS_DIR" "${1:-15}" || printf 'its log cannot be read'
}
