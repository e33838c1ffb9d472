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
        # Who answers beside a container that does not run is not our server, and is shown no key.
        [[ $status != 200 || $(container_state) != running\ * ]] || return 0
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
    local lines kind='' remedy=''
    { read -r kind && read -r remedy; } <<<"$(server_log failure)" || true
    [[ $kind != device ]] || is_isolated || remedy='it has all rights on the host'
    # A process that has written behind the end of what it has mapped: 128 + SIGBUS.
    [[ $code != 135 || -n $kind ]] || kind='shared memory' remedy='raise tpuflex:serving.shm_size'
    lines=$(last_lines)
    docker stop "$(setting container.name)" >/dev/null 2>&1 || true
    fail container-died "the server died with status $code${kind:+ of its $kind ($remedy)}: $lines"
}

# last_lines [COUNT]: the end of the container's log, without secrets, short enough for a guest
# attribute.
last_lines() {
    server_log "${1:-15}" || printf 'its log cannot be read'
}

# server_log WHAT: what server_log.py makes of the container's log.
server_log() {
    python_source server_log >"$STATE_DIR/server_log.py"
    docker logs --tail 1000 "$(setting container.name)" 2>&1 |
        timeout 60 python3 -IS "$STATE_DIR/server_log.py" "$SECRETS_DIR" "$1"
}
