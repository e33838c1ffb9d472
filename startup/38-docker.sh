#!/usr/bin/env bash
# Startup of a serving host, part 38: have docker. Google documents it for the runtime versions of
# TPUs (https://cloud.google.com/tpu/docs/runtimes); images of Compute Engine for TPUs have none.
set -Eeuo pipefail

have_docker() {
    has_docker || install_docker
    wait_for_docker
}

# 127: there is no such command.
has_docker() {
    local status=0
    docker --version >/dev/null 2>&1 || status=$?
    ((status != 127))
}

# install_docker: the distribution's own package. Its mirrors are not Google's: Ubuntu's for Compute
# Engine, REGION.gce.archive.ubuntu.com, has public addresses.
install_docker() {
    local delay unreached=0
    detail 'installing docker, which the image of this runtime version lacks'
    for delay in 10 20 40 0; do
        if apt_get update && apt_get install --yes --no-install-recommends docker.io; then
            has_docker || fail docker 'docker.io was installed, and there is still no docker'
            return 0
        fi
        # Twice, because the network may come up late; what is closed stays closed, and is billed.
        no_mirror_reached && ((++unreached > 1)) && fail docker "the image of this runtime version \
has no docker, and the host reaches no mirror to install it from; Google has none: write \
\`egress: internet\` in tpuflex:network, or a runtime version with docker at \
tpuflex:slice.runtime_version, such as v2-alpha-tpuv6e: $(apt_problem 300)"
        detail "docker could not be installed: $(apt_problem 300)"
        pause "$delay"
    done
    fail docker "the image of this runtime version has no docker, and apt-get cannot install it: \
$(apt_problem 600)"
}

# apt_get ARGUMENT...: not asking anybody, and not for ever; the first boot's own upgrades may hold
# its lock.
apt_get() {
    (
        umask 022
        DEBIAN_FRONTEND=noninteractive timeout --kill-after=10 300 apt-get --quiet \
            -o DPkg::Lock::Timeout=120 -o APT::Update::Error-Mode=any \
            -o Acquire::Retries=2 -o Acquire::http::Timeout=20 "$@"
    ) </dev/null >"$STATE_DIR/apt.problem" 2>&1
}

# In apt's own words: methods/connect.cc of its source.
no_mirror_reached() {
    grep -Eq 'Could not connect|Unable to connect|Could not resolve|Temporary failure resolving|timed out' \
        "$STATE_DIR/apt.problem"
}

# apt_problem BYTES: what apt complained of last.
apt_problem() {
    { grep '^[EW]: ' "$STATE_DIR/apt.problem" || cat "$STATE_DIR/apt.problem"; } | tail --bytes="$1"
}

wait_for_docker() {
    wait_begin
    until docker info >"$STATE_DIR/docker.problem" 2>&1; do
        detail 'waiting for docker'
        ! wait_over 180 || fail docker "docker does not answer: $(tail --bytes=300 "$STATE_DIR/docker.problem")"
        pause 3
    done
}
