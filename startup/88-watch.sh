#!/usr/bin/env bash
# Startup of a serving host, part 88: what is looked after once the host is READY, by a process that
# outlives this script (watch.py): the drain, the end of the run, a server that has stopped making
# tokens, and a restart, for which it runs this script again. It reports in the guest attribute `tpuflex/serving`, a JSON object: phase (serving, draining,
# degraded, failed), since, at, running, waiting, drained, reason, drains_at, ends_at, restarts,
# restarted_at, restarted_why, cut_off.
set -Eeuo pipefail

# On the disk: a reboot does not begin a run.
export RUN_BEGAN="${TPUFLEX_ROOT:-}/var/lib/tpuflex/run-began"
# From the node's creation, at which Google begins to count, until this script runs for the first time:
# at most, as far as is known (docs/adr/0037).
export BOOT_ALLOWANCE=180
export DRAIN_KEY=instance/attributes/tpuflex-drain
export RESTART_KEY=instance/attributes/tpuflex-restart

# begin_run: note when the run began, once; what an earlier boot has reported is not true any more.
begin_run() {
    private_directory "${RUN_BEGAN%/*}"
    if [[ -s $RUN_BEGAN ]]; then
        # Not before this boot has a report: the READY of the last one would stand alone.
        publish
        forget_serving
    else
        # It may not answer yet.
        metadata instance/id /dev/null || true
        printf '%s\n' $(($(cloud_time) - SECONDS - BOOT_ALLOWANCE)) >"$RUN_BEGAN.new"
        mv -f "$RUN_BEGAN.new" "$RUN_BEGAN"
    fi
    cp "$RUN_BEGAN" "$STATE_DIR/run.began"
    # What was asked for until now, this boot does.
    metadata "$RESTART_KEY" "$STATE_DIR/restart.known" || : >"$STATE_DIR/restart.known"
    # A restart runs this script, not what the metadata has by then. It may be running from that file.
    cat "${BASH_SOURCE[0]}" >"$STATE_DIR/startup-script.new"
    mv -f "$STATE_DIR/startup-script.new" "$STATE_DIR/startup-script"
}

# cloud_time: seconds since the epoch by the metadata server's clock, by which the run ends; by this
# machine's where it does not say.
cloud_time() {
    local headers="$STATE_DIR/headers" line
    http_get "$METADATA/instance/id" /dev/null --header 'Metadata-Flavor: Google' \
        --dump-header "$headers" >/dev/null
    # Of an empty text `date` makes midnight.
    if line=$(grep --ignore-case --max-count=1 '^date: *[a-z]' "$headers" 2>/dev/null); then
        line=${line#*:}
        date --date="${line%$'\r'}" +%s 2>/dev/null && return
    fi
    date +%s
}

serving_attribute() {
    count_query
    http_get "$METADATA/instance/guest-attributes/tpuflex/serving" /dev/null --max-time 5 \
        --header 'Metadata-Flavor: Google' "$@"
}

forget_serving() {
    local status
    status=$(serving_attribute --request DELETE)
    case $status in
    200 | 404) ;;
    *) log "the guest attribute tpuflex/serving could not be removed (HTTP $status)" ;;
    esac
}

is_watched() {
    [[ -e $STATE_DIR/watch.lock ]] && ! flock --nonblock "$STATE_DIR/watch.lock" true
}

# leave_to_watch: whether this host drains under a watch. A second run of this script would open it.
leave_to_watch() {
    is_watched || return 1
    [[ ! -e $STATE_DIR/guard/closed ]] || return 0
    local status
    status=$(http_get "$METADATA/$DRAIN_KEY" /dev/null --header 'Metadata-Flavor: Google')
    [[ $status == 200 ]]
}

# end_watch: that of an earlier run of this script. The new one begins once the host is READY.
end_watch() {
    local _
    for _ in {1..100}; do
        is_watched || break
        kill "$(<"$STATE_DIR/watch.lock")" 2>/dev/null || true
        sleep 0.1
    done
    rm -f "$STATE_DIR/guard/closed"
}

# await_no_drain: on a host whose slice is to be deleted no server is started. Should it not be deleted
# after all, the boot goes on.
await_no_drain() {
    local answer="$STATE_DIR/drain" since=
    while metadata "$DRAIN_KEY" "$answer" && [[ -s $answer ]]; do
        detail 'the slice is to be deleted (metadata key tpuflex-drain): no server is started'
        if [[ -z $since ]]; then
            since=$(date +%s)
            report_drained "$since"
        fi
        pause 5
    done
    [[ -z $since ]] || forget_serving
}

# report_drained SINCE: that there is nothing to wait for.
report_drained() {
    local status
    status=$(serving_attribute --request PUT --data-binary "{\"phase\": \"draining\", \"since\": $1, \
\"at\": $(date +%s), \"running\": 0, \"waiting\": 0, \"drained\": true, \"reason\": \"the slice is to be \
deleted; no server was started\", \"drains_at\": null, \"ends_at\": null, \"restarts\": 0, \"cut_off\": 0}")
    [[ $status == 200 ]] || log "the guest attribute tpuflex/serving could not be written (HTTP $status)"
}

# begin_watch: without it the host serves all the same.
begin_watch() {
    local name
    local -a service=(setsid)
    for name in routes boot_log series watch watch_host watch_log watch_metrics watch_rules \
        watch_server watch_state; do
        python_source "$name" >"$STATE_DIR/$name.py"
    done
    : >"$STATE_DIR/watch.lock" # a watch that finds something in it goes on from one that has died
    printf '%s' "${REPORT[timeline]:-}" >"$STATE_DIR/boot.timeline"
    printf '%s' "${REPORT[ended]:-}" >"$STATE_DIR/boot.ended"
    # A service of its own is started again if it dies. What runs the script of a machine of Google's
    # leaves its processes alone when it ends (KillMode=process,
    # https://github.com/GoogleCloudPlatform/guest-agent/blob/main/google-startup-scripts.service).
    if [[ -d ${TPUFLEX_ROOT:-}/run/systemd/system ]]; then
        service=(systemd-run --quiet --collect --unit="tpuflex-watch-$(milliseconds)"
            --property=Restart=on-failure --property=RestartSec=5)
    fi
    # shellcheck disable=SC2154
    "${service[@]}" python3 -IBS -c '
import sys

sys.path.insert(0, sys.argv[1])
import watch

sys.exit(watch.main())
' "$STATE_DIR" "$LOG_DIR/startup.log" "$METADATA" "$LOGGING" "$MONITORING" \
        "$(server_url)" "$TLS_DIR/certificate.pem" "$REPORTS" </dev/null >>"$LOG_DIR/watch.log" 2>&1 9>&- &
}
