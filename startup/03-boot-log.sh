#!/usr/bin/env bash
# Startup of a serving host, part 03: the log, kept where it outlives the host: in Cloud Logging, as
# log `tpuflex-boot`. Nodes of Cloud TPU have no serial console to read afterwards. Each phase writes
# what the log has since the last one; the last entry has the server's own words besides.
set -Eeuo pipefail

# begin_boot_log: what is in the log already is of an earlier boot. When this one began is its name.
begin_boot_log() {
    local size=0
    [[ ! -e $LOG_DIR/startup.log ]] || size=$(stat --format=%s "$LOG_DIR/startup.log")
    rm -f "$STATE_DIR/boot-log.refused" "$STATE_DIR/container.log"
    printf '%s %s start\n' "$(milliseconds)" "$size" >"$STATE_DIR/boot-log.sent"
}

# keep_phase_log: beside the boot, which it neither delays nor ends: what is not written now is
# written with the next phase. Before the configuration has been read, nobody knows whose log it is.
keep_phase_log() {
    [[ -n $STATE_IS_OURS && -s $STATE_DIR/config.fields && ${REPORT[phase]} != READY ]] || return 0
    [[ ! -e $STATE_DIR/boot-log.refused ]] || return 0
    (
        ! flock --wait 20 8 || send_boot_log INFO || true
    ) </dev/null >/dev/null 2>&1 8>"$STATE_DIR/boot-log.lock" 9>&- &
}

# keep_boot_log SEVERITY: 1, when it could not be written. It never ends the boot.
keep_boot_log() {
    [[ -n $STATE_IS_OURS && -d $MEMORY_DIR && -s $LOG_DIR/startup.log ]] || return 1
    container_log >"$STATE_DIR/container.log" 2>&1 || true
    (
        # Two that write at once write the same lines twice, and lose none.
        flock --wait 20 8 || true
        send_boot_log "$1" 2 5
    ) 8>"$STATE_DIR/boot-log.lock"
}

# send_boot_log SEVERITY [DELAY...]: try once, and once more after each delay.
send_boot_log() {
    local delay status request="$STATE_DIR/boot-log.$BASHPID"
    boot_log_request "$1" "$request.end" >"$request" || return 1
    # Nothing new: another phase has begun meanwhile, and its entry has it.
    [[ -s $request ]] || return 0
    for delay in "${@:2}" ''; do
        status=000
        # The weights and secrets have renewed the header not long ago.
        if [[ $1 == INFO && -s $AUTHORIZATION ]] || authorize; then
            status=$(http_get "$LOGGING/entries:write" "$request.answer" --max-time 15 \
                --header "@$AUTHORIZATION" --header 'Content-Type: application/json' \
                --data-binary "@$request")
        fi
        case $status in
        200)
            mv -f "$request.end" "$STATE_DIR/boot-log.sent"
            rm -f "$request" "$request.answer"
            return 0
            ;;
        400 | 403 | 404)
            : >"$STATE_DIR/boot-log.refused"
            break
            ;;
        esac
        [[ -z $delay ]] || "${TPUFLEX_SLEEP:-sleep}" "$delay"
    done
    log "Cloud Logging answers $status: $(head --bytes=300 "$request.answer" 2>/dev/null)"
    rm -f "$request" "$request.end" "$request.answer"
    return 1
}

# boot_log_request SEVERITY FILE: the request of entries:write; FILE is how much of the log it has.
boot_log_request() {
    local about key
    for key in project/project-id instance/zone instance/name instance/attributes/tpu-env; do
        about="$STATE_DIR/about.${key##*/}"
        [[ -s $about || $(http_get "$METADATA/$key" "$about" --max-time 5 \
            --header 'Metadata-Flavor: Google') == 200 ]] || rm -f "$about"
    done
    python_source boot_log | python3 -IS - "$STATE_DIR" "$LOG_DIR/startup.log" "$MEMORY_DIR" "$2" \
        "$1" "${REPORT[phase]}" "${REPORT[error]:-}" "${REPORT[timeline]:-}" \
        "${REPORT[ended]:-}"
}

# The end of what the server wrote, if there is one.
container_log() {
    [[ -n ${SETTINGS[container.name]:-} ]] && has_docker || return 0
    timeout 20 docker logs --tail 200 "$(setting container.name)"
}
