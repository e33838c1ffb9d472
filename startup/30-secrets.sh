#!/usr/bin/env bash
# Startup of a serving host, part 30: fetch the pinned secrets into files in memory that only
# root can read. Without them nothing is served.
set -Eeuo pipefail

fetch_secrets() {
    phase secrets
    local -a roles=() versions=()
    local index file
    setting_list secrets.roles roles
    setting_list secrets.versions versions
    mkdir -p "$SECRETS_DIR"
    chmod 0700 "$SECRETS_DIR"
    # What an earlier configuration named is needed no more.
    for file in "$SECRETS_DIR"/*; do
        [[ " ${roles[*]} ${HOST_KEY##*/} " == *" ${file##*/} "* ]] || rm -f "$file"
    done
    for ((index = 0; index < ${#roles[@]}; index++)); do
        fetch_secret "${roles[index]}" "${versions[index]}"
    done
}

# fetch_secret ROLE VERSION: a permission that was just given takes minutes to take effect, and
# the value may still be on its way, so refusals are asked about again until the deadline. A restart
# reads what is known again, since a secret that was deleted and made again has the same versions; it
# goes on with what is known where it cannot.
fetch_secret() {
    local role=$1 version=$2 delay=1 is_known='' status problem limit
    local known="$MEMORY_DIR/$role.version" answer="$MEMORY_DIR/$role.answer"
    if [[ -s $SECRETS_DIR/$role && -e $known && $(<"$known") == "$version" ]]; then
        is_known=yes
        [[ -n ${TPUFLEX_RESTART:-} ]] || return 0
    fi
    limit=$(setting timeouts.secret_s)
    wait_begin
    while :; do
        status=000
        if authorize; then
            status=$(http_get "$SECRETMANAGER/$version:access" "$answer" --header "@$AUTHORIZATION")
        fi
        if [[ $status != 200 && -n $is_known ]]; then
            rm -f "$answer"
            detail "the secret $role cannot be read again (HTTP $status): the server keeps the value that it had"
            return 0
        fi
        case $status in
        200)
            store_secret "$role" "$answer"
            printf '%s' "$version" >"$known"
            return 0
            ;;
        404) problem="$version is not there; run: $(setting commands.secrets)" ;;
        403) problem="access to $version is refused; the host's service account needs the role Secret Manager Secret Accessor" ;;
        000 | 401 | 408 | 429 | 5??) problem="Secret Manager answers $status for $version" ;;
        *) fail "secret-$status" "Secret Manager refuses $version, which may be disabled or destroyed; run: $(setting commands.secrets)" ;;
        esac
        rm -f "$answer"
        detail "waiting for the secret $role: $problem"
        ! wait_over "$limit" || fail "secret-$status" "$problem"
        pause "$delay"
        delay=$((delay < 8 ? delay * 2 : 15))
    done
}

# store_secret ROLE ANSWER: decode the answer into the file that the container gets.
store_secret() {
    local problem="$STATE_DIR/secret.problem"
    if ! python3 -IS - "$2" "$SECRETS_DIR/$1" "$1" 2>"$problem" <<'PYTHON'; then
import base64
import json
import os
import sys

answer, target, role = sys.argv[1:]
with open(answer, encoding="utf-8") as file:
    value = base64.b64decode(json.load(file)["payload"]["data"])
os.unlink(answer)
if role != "tls-certificate":
    keys = [key.strip() for key in value.splitlines() if key.strip()]
    # They become HTTP headers. Clients may have a key each.
    if not keys or not all(33 <= byte < 127 for key in keys for byte in key):
        sys.exit("its value is empty or has spaces or characters that are not ASCII")
    value = b"\n".join(keys)
partial = target + ".partial"
if os.path.exists(partial):
    os.unlink(partial)
handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
os.write(handle, value)
os.close(handle)
os.rename(partial, target)
PYTHON
        rm -f "$2"
        fail secret-format "the secret $1 cannot be used: $(tail --lines=1 "$problem")"
    fi
}
