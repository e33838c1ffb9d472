#!/usr/bin/env bash
# Startup of a serving host, part 00: what all phases use.
#
# The files of this directory, one after the other, are the host's startup script. They are the
# same for every stack: what varies comes as JSON from the metadata key `tpuflex-config` and is
# only ever data. The script runs at every boot, and may be run again at any time: each phase
# keeps what is already right. Needed on the host: docker and the iptables that it needs itself,
# curl, python3, with a certificate openssl, and what every Debian and Ubuntu has (bash 5, coreutils,
# findutils, util-linux).
#
# Guest attribute `tpuflex/report`: a JSON object of texts, without those that are empty: phase,
# detail, error, timeline (JSON: when each phase began), ended (JSON: when each of those ended that go
# on at once), isolation, weights (SHA-256 of the manifest that was fetched and checked),
# vllm_version (of the server), kv_cache (JSON: block_size, num_blocks, cache_dtype, tokens; null
# where the server does not say), and compile_cache (JSON: what was restored from where, compiled and
# saved). The last phase is READY: the host has served a completion. What comes after it is in
# `tpuflex/serving` (part 88).
#
# Environment, all optional:
#   TPUFLEX_ROOT       put before every absolute path; an emulated host has its own root
#   GCE_METADATA_HOST, STORAGE_EMULATOR_HOST, CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER,
#   CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING, CLOUDSDK_API_ENDPOINT_OVERRIDES_MONITORING
#                      Google's own variables for reaching another server
#   TPUFLEX_REPORTS    how often a minute guest attributes may be asked for, instead of 10
#   TPUFLEX_SLEEP      a command to run instead of `sleep`; tests pass time with it
#   TPUFLEX_RESTART    set by the watch where somebody has asked for a restart
set -Eeuo pipefail
umask 077

export STATE_DIR="${TPUFLEX_ROOT:-}/run/tpuflex"
export MEMORY_DIR="$STATE_DIR/memory"
export SECRETS_DIR="$MEMORY_DIR/secrets"
# The key with which the host asks its own server, made at each boot: a server that somebody has broken
# into reads whatever it is sent, and this key opens nothing but that server.
export HOST_KEY="$SECRETS_DIR/host-key"
export LOG_DIR="${TPUFLEX_ROOT:-}/var/log/tpuflex"
# The header that authorizes requests to Google: in memory, mode 0600, never on a command line.
export AUTHORIZATION="$MEMORY_DIR/authorization"

export METADATA="http://${GCE_METADATA_HOST:-metadata.google.internal}/computeMetadata/v1"
export STORAGE="${STORAGE_EMULATOR_HOST:-https://storage.googleapis.com}"
export STORAGE="${STORAGE%/}/storage/v1"
export SECRETMANAGER="${CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER:-https://secretmanager.googleapis.com}"
export SECRETMANAGER="${SECRETMANAGER%/}/v1"
export LOGGING="${CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING:-https://logging.googleapis.com}"
export LOGGING="${LOGGING%/}/v2"
export MONITORING="${CLOUDSDK_API_ENDPOINT_OVERRIDES_MONITORING:-https://monitoring.googleapis.com}"
export MONITORING="${MONITORING%/}/v3"

# Set once STATE_DIR is known to be ours; before that, nothing is written into it.
STATE_IS_OURS=
# In a process that does a part of the phase `fetch`: which one, and how deep its subshell is.
PART=
PART_LEVEL=0
# Set once the host has had the last word of this run, READY or an error.
HAS_ENDED=
# The signal that ends this run: a machine that is shut down sends one.
SIGNAL=
WAITED=0
WAIT_BEGAN=0

# log TEXT: a line of the log. What a server or a service says in TEXT begins no line of its own: it
# would pass for ours.
log() {
    printf '%s %s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "${*//$'\n'/$'\n'  | }" >&2
}

# on_error STATUS LINE COMMAND: report an unexpected failure with the command as it is written in the
# script: BASH_COMMAND has it before variables are expanded, so no secret is told. Only what `eval` runs
# comes expanded, which no part uses
# (https://www.gnu.org/software/bash/manual/html_node/Bash-Variables.html#index-BASH_005fCOMMAND).
on_error() {
    local status=$1 line=$2 command=${3%%$'\n'*}
    # A failing subshell is reported by the shell that waits for it.
    ((BASH_SUBSHELL == PART_LEVEL)) || exit "$status"
    trap - ERR
    # Whoever called `fail` in a subshell has said more than we know.
    [[ -n $STATE_IS_OURS && -e $STATE_DIR/${PART:+$PART.}failed ]] ||
        fail "phase-${REPORT[phase]}" "line $line, ${FUNCNAME[1]}: $command ended with status $status"
    exit "$status"
}

# set_traps: what is done when a command fails, when a signal comes, and whenever this script ends. A
# trap for a signal runs once the command that goes on has ended; where a machine is shut down, that
# has got the signal, too.
set_traps() {
    trap 'on_error $? $LINENO "$BASH_COMMAND"' ERR
    trap 'SIGNAL=HUP; exit 129' HUP
    trap 'SIGNAL=INT; exit 130' INT
    trap 'SIGNAL=TERM; exit 143' TERM
    trap 'on_exit $?' EXIT
}

# on_exit STATUS: say that it has ended, where nobody has. At a variable that is not set, or that may
# not be, bash ends a script without an ERR trap
# (https://www.gnu.org/software/bash/manual/html_node/The-Set-Builtin.html). A run that was ended from
# without leaves its report as it is: the machine is shut down, and the next boot begins anew.
on_exit() {
    # What writes the log may have been killed.
    trap '' PIPE
    trap - ERR
    [[ -z $STATE_IS_OURS ]] || end_parts
    [[ -z $HAS_ENDED && ! (-n $STATE_IS_OURS && -e $STATE_DIR/failed) ]] || return 0
    if [[ -n $SIGNAL ]]; then
        log "ended by the signal $SIGNAL in phase ${REPORT[phase]}" || true
        return 0
    fi
    fail "phase-${REPORT[phase]}" "bash ended the script with status $1; its own words are in the log"
}

# pause SECONDS, with one decimal at most. WAITED counts what was slept, in tenths of a second.
pause() {
    local tenths=0
    [[ $1 != *.* ]] || tenths=${1#*.}
    WAITED=$((${WAITED:-0} + ${1%.*} * 10 + tenths))
    # Those that fetch files have nothing to report.
    [[ -z ${REPORT_IS_DUE:-} ]] || publish_if_due
    "${TPUFLEX_SLEEP:-sleep}" "$1"
}

# wait_begin, then wait_over LIMIT: whether LIMIT seconds have passed, by the clock or by what
# was slept, whichever is more.
wait_begin() {
    WAITED=0
    WAIT_BEGAN=$SECONDS
}

wait_over() {
    ((WAITED >= $1 * 10 || SECONDS - WAIT_BEGAN >= $1))
}

# http_get URL FILE [CURL OPTION...]: print the HTTP status, 000 when there was no answer; the
# body goes to FILE.
http_get() {
    local url=$1 file=$2 status
    shift 2
    status=$(curl --silent --connect-timeout 5 --max-time 60 --output "$file" \
        --write-out '%{http_code}' "$@" "$url") || true
    printf '%s' "${status:-000}"
}

# metadata KEY FILE: read a metadata key; 1 when it is not there. A server that does not answer
# yet (it comes up with the network) is asked again for two minutes.
metadata() {
    local delay status
    for delay in 1 2 4 8 15 30 30 30 0; do
        status=$(http_get "$METADATA/$1" "$2" --header 'Metadata-Flavor: Google')
        case $status in
        200) return 0 ;;
        404) return 1 ;;
        esac
        detail "the metadata server answers $status for $1"
        pause "$delay"
    done
    fail metadata "the metadata server did not answer for $1 (HTTP $status)"
}

# authorize: put a fresh access token of the host's service account into the header file.
authorize() {
    local answer="$AUTHORIZATION.$BASHPID" status
    status=$(http_get "$METADATA/instance/service-accounts/default/token" "$answer" \
        --header 'Metadata-Flavor: Google')
    if [[ $status == 200 ]] && python3 -IS - "$answer" <<'PYTHON'; then
import json
import sys

with open(sys.argv[1], encoding="utf-8") as answer:
    token = json.load(answer)["access_token"]
if not token.isascii() or not token.isprintable() or " " in token:
    sys.exit("the token has characters that no token has")
with open(sys.argv[1], "w", encoding="ascii") as header:
    header.write(f"Authorization: Bearer {token}\n")
PYTHON
        mv -f "$answer" "$AUTHORIZATION"
        return 0
    fi
    rm -f "$answer"
    log "no access token (HTTP $status)"
    return 1
}

# human BYTES: such as 61.4 GB or 269 MB.
human() {
    if (($1 >= 1000000000)); then
        printf '%d.%d GB' $(($1 / 1000000000)) $(($1 % 1000000000 / 100000000))
    else
        printf '%d MB' $((($1 + 500000) / 1000000))
    fi
}

milliseconds() {
    printf '%s' $((${EPOCHREALTIME/[.,]/} / 1000))
}
