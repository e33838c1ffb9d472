#!/usr/bin/env bash
# Startup of a serving host, part 55: what the container may reach. A server that somebody has
# broken into should find no metadata server, no network and no rights of the host: it needs its
# chips, its weights, and clients that come to it.
set -Eeuo pipefail

# A bridge of the container's own, so that rules for it concern nobody else on the host.
export NETWORK=tpuflex
export BRIDGE=tpuflex0

# run_server: isolated where that can be done.
run_server() {
    if [[ $(setting container.isolation) == none ]]; then
        run_privileged 'the stack file says serving.isolation: none'
    elif run_isolated; then
        set_isolation isolated
    elif isolation_failed; then
        fall_back "$(tail --bytes=300 "$STATE_DIR/run.problem")"
    else
        fail_to_start
    fi
}

# isolation_failed: whether what the host lacks for an isolated container is why there is none: its
# devices or its network. Rights are no remedy for a port in use, or for an image without Bash.
isolation_failed() {
    grep -Eiq '/dev/(vfio|accel)|network|namespace|iptables' "$STATE_DIR/run.problem" &&
        ! grep -Eiq 'address already in use|port is already allocated' "$STATE_DIR/run.problem"
}

# fall_back WHY: unless the stack file forbids it, a server gets all rights on a host that cannot
# isolate it, and that is reported. Only docker and the host lead here, before the server starts:
# nothing that a server writes or does may be a way to all rights on the host.
fall_back() {
    [[ $(setting container.isolation) == preferred ]] ||
        fail isolation "the server cannot run isolated: $1. Write serving.isolation: none in the \
stack file to give it all rights on the host"
    docker rm --force "$(setting container.name)" >/dev/null 2>&1 || true
    detail "the server cannot run isolated and is started with all rights on the host: $1"
    run_privileged "$1"
}

run_privileged() {
    run_container "$(<"$STATE_DIR/address")" --network host --privileged ||
        fail_to_start
    set_isolation "privileged: $1"
}

fail_to_start() {
    fail container "docker cannot start the container: $(tail --bytes=600 "$STATE_DIR/run.problem")"
}

# run_isolated: with docker's options for a container that has nothing but its devices; 1, with the
# reason in run.problem, when the host cannot do it.
run_isolated() {
    local -a devices=() environment=()
    local path chips=0
    for path in "${TPUFLEX_ROOT:-}"/dev/vfio/* "${TPUFLEX_ROOT:-}"/dev/accel[0-9]*; do
        [[ -c $path ]] || continue
        devices+=(--device "$path")
        # /dev/vfio/vfio is how to ask for the others, and is there without any chip.
        [[ $path == */vfio/vfio ]] || chips=$((chips + 1))
    done
    if ((chips == 0)); then
        printf 'there is no TPU device in /dev/vfio or /dev/accel*' >"$STATE_DIR/run.problem"
        return 1
    fi
    if ! close_network 2>"$STATE_DIR/run.problem"; then
        printf 'the network of the container cannot be closed' >>"$STATE_DIR/run.problem"
        return 1
    fi
    tpu_environment
    while IFS= read -r path; do
        environment+=(--env "$path")
    done <"$STATE_DIR/tpu.env"
    # SYS_RESOURCE and unlimited locked memory are what TPUs need without privileges:
    # https://github.com/marin-community/marin/issues/2478 (flags of a run on v5e to v6e).
    # 192.0.2.0/24 is nobody's (RFC 5737): docker's own resolver would otherwise carry questions
    # out of the container, and questions can carry anything.
    local resolver=192.0.2.53
    [[ $(setting container.egress) == none ]] || resolver=8.8.8.8
    run_container 0.0.0.0 --network "$NETWORK" --dns "$resolver" \
        --publish "$(<"$STATE_DIR/address"):$(setting serving.port):$(setting serving.port)" \
        --cap-drop ALL --cap-add SYS_RESOURCE --security-opt no-new-privileges \
        --pids-limit 16384 --ulimit memlock=-1:-1 \
        "${devices[@]}" --env VLLM_HOST_IP=127.0.0.1 "${environment[@]}"
}

# close_network: the bridge, and the rules that let nothing begin from it: not towards other
# machines, the metadata server among them, and not towards the host. What answers a client passes.
# A server that fetches media may reach public addresses, as far as the network's own rules let it.
# They are gone after a reboot, and so is every directory that the container needs to start.
close_network() {
    docker network inspect "$NETWORK" >/dev/null 2>&1 ||
        docker network create --driver bridge \
            --opt "com.docker.network.bridge.name=$BRIDGE" "$NETWORK" >/dev/null || return 1
    drop INPUT || return 1
    # Docker never touches the rules in DOCKER-USER, and asks them first:
    # https://docs.docker.com/engine/network/packet-filtering-firewalls/
    if [[ $(setting container.egress) == none ]]; then
        drop DOCKER-USER
        return
    fi
    # What the server may fetch is public. Everything else stays out of its reach.
    local range
    for range in 169.254.0.0/16 10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 \
        199.36.153.0/24 240.0.0.0/4; do
        drop DOCKER-USER --destination "$range" || return 1
    done
}

# drop CHAIN [MATCH...]: drop what begins on the bridge and matches.
drop() {
    local -a rule=("$1" --in-interface "$BRIDGE" "${@:2}" --match conntrack !
        --ctstate "ESTABLISHED,RELATED" --jump DROP)
    iptables --wait 30 --check "${rule[@]}" 2>/dev/null ||
        iptables --wait 30 --insert "${rule[0]}" 1 "${rule[@]:1}"
}

# tpu_environment: what libtpu would ask the metadata server, as variables, in tpu.env. Empty when
# the host does not say what it is.
tpu_environment() {
    : >"$STATE_DIR/tpu.env"
    metadata instance/attributes/tpu-env "$STATE_DIR/tpu-env" || return 0
    python3 -IS - "$STATE_DIR/tpu-env" >"$STATE_DIR/tpu.env" <<'PYTHON'
import re
import sys

# Chips of a slice of one host, by its topology.
HOSTS = {"1x1": "1,1,1", "2x2": "2,2,1", "2x4": "2,4,1"}

with open(sys.argv[1], encoding="utf-8", errors="replace") as file:
    described = dict(re.findall(r"^([A-Z_]+): '([\w.,-]*)'$", file.read(), re.MULTILINE))
kind, topology = described.get("ACCELERATOR_TYPE"), described.get("TOPOLOGY")
chips = described.get("CHIPS_PER_HOST_BOUNDS") or HOSTS.get(topology)
if kind and topology and chips:
    hosts = described.get("HOST_BOUNDS") or "1,1,1"
    wrap = described.get("WRAP") or "false,false,false"
    alternative = described.get("ALT") or "false"
    # The names and values that GKE's device plugin gives to a container of one host.
    for name, value in {
        "TPU_SKIP_MDS_QUERY": "true",
        "TPU_ACCELERATOR_TYPE": kind,
        "TPU_TOPOLOGY": topology,
        "TPU_TOPOLOGY_WRAP": wrap,
        "WRAP": wrap,
        "TPU_TOPOLOGY_ALT": alternative,
        "ALT": alternative,
        "TPU_HOST_BOUNDS": hosts,
        "HOST_BOUNDS": hosts,
        "TPU_CHIPS_PER_HOST_BOUNDS": chips,
        "CHIPS_PER_HOST_BOUNDS": chips,
        "TPU_WORKER_ID": "0",
        "TPU_WORKER_HOSTNAMES": "localhost",
    }.items():
        print(f"{name}={value}")
PYTHON
}

# set_isolation TEXT: `isolated`, or `privileged: why`; `tpuflex status` shows it.
set_isolation() {
    printf '%s' "$1" >"$STATE_DIR/isolation"
    report isolation "$1"
}

is_isolated() {
    [[ $(<"$STATE_DIR/isolation") == isolated ]]
}
