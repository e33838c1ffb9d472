#!/usr/bin/env bash
# Startup of a serving host, part 03: the end of the log, kept where it outlives the host: in Cloud
# Logging, as log `tpuflex-boot`. Nodes of Cloud TPU have no serial console to read afterwards.
set -Eeuo pipefail

# keep_boot_log SEVERITY: 1, when it could not be written. It never ends the boot.
keep_boot_log() {
    local delay status request="$STATE_DIR/boot-log.json"
    [[ -n $STATE_IS_OURS && -d $MEMORY_DIR && -s $LOG_DIR/startup.log ]] || return 1
    boot_log_entry "$1" >"$request" || return 1
    for delay in 2 5 0; do
        status=000
        if authorize; then
            status=$(http_get "$LOGGING/entries:write" "$STATE_DIR/boot-log.answer" --max-time 15 \
                --header "@$AUTHORIZATION" --header 'Content-Type: application/json' \
                --data-binary "@$request")
        fi
        case $status in
        200) return 0 ;;
        400 | 403 | 404) break ;;
        esac
        "${TPUFLEX_SLEEP:-sleep}" "$delay"
    done
    log "Cloud Logging answers $status: $(head --bytes=300 "$STATE_DIR/boot-log.answer" 2>/dev/null)"
    return 1
}

# boot_log_entry SEVERITY: the request of entries:write. In the log are no secrets; should one have
# found its way there all the same, it does not leave the host.
boot_log_entry() {
    local key
    for key in project/project-id instance/zone instance/name instance/attributes/tpu-env; do
        [[ $(http_get "$METADATA/$key" "$STATE_DIR/about.${key##*/}" --max-time 5 \
            --header 'Metadata-Flavor: Google') == 200 ]] || rm -f "$STATE_DIR/about.${key##*/}"
    done
    container_log >"$STATE_DIR/container.log" 2>&1 || true
    python3 -IS - "$STATE_DIR" "$LOG_DIR/startup.log" "$MEMORY_DIR" "$1" "${REPORT[phase]}" \
        "${REPORT[error]:-}" <<'PYTHON'
import json
import os
import re
import sys
from pathlib import Path

# Of an entry's 256 KiB (https://cloud.google.com/logging/quotas), with room for what JSON escapes.
LOG_CHARACTERS, CONTAINER_CHARACTERS = 48_000, 16_000

state, log, memory, severity, phase, error = sys.argv[1:]


def read(path):
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 2**20))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def secrets():
    directory = Path(memory, "secrets")
    names = [*directory.iterdir()] if directory.is_dir() else []
    for path in [*names, Path(memory, "authorization")]:
        # The words of a header that everybody knows are no secrets.
        yield from (word for word in read(path).split() if len(word) > 7 and word != "Authorization:")


def shown(text, length):
    for secret in hidden:
        text = text.replace(secret, "[removed]")
    return re.sub(r"[^\x20-\x7e\xa0-\uffff\n\t]", "?", text)[-length:]


hidden = sorted(set(secrets()), key=len, reverse=True)
project = read(f"{state}/about.project-id").strip()
zone = read(f"{state}/about.zone").strip().rpartition("/")[2]
node = re.search(r"^NODE_ID: '([\w.-]+)'$", read(f"{state}/about.tpu-env"), re.MULTILINE)
try:
    endpoint = json.loads(read(f"{state}/config.json"))["endpoint"]
    labels = {f"tpuflex-{key}": str(endpoint[key]) for key in ("project", "stack", "name")}
except (ValueError, KeyError, TypeError):
    labels = {}
entry = {
    "severity": severity,
    "labels": {**labels, "boot-id": read("/proc/sys/kernel/random/boot_id").strip()},
    "jsonPayload": {
        "phase": phase,
        "error": shown(error, 4000),
        "message": shown(read(log), LOG_CHARACTERS),
        "container": shown(read(f"{state}/container.log"), CONTAINER_CHARACTERS),
    },
}
place = {"project_id": project, "location": zone, "namespace": labels.get("tpuflex-stack", "")}
host = node[1] if node else read(f"{state}/about.name").strip()
place["node_id"] = host
resource = {"type": "generic_node", "labels": place}
name = f"projects/{project}/logs/tpuflex-boot"
if not project:
    sys.exit("the metadata server does not say which project this is")
document = {"logName": name, "resource": resource, "entries": [entry]}
sys.stdout.buffer.write(json.dumps(document, ensure_ascii=False).encode())
PYTHON
}

# The end of what the server wrote, if there is one.
container_log() {
    [[ -n ${SETTINGS[container.name]:-} ]] && has_docker || return 0
    timeout 20 docker logs --tail 200 "$(setting container.name)"
}
