"""The commands of an emulated host that are not the machine's own: scripts, as text. Pure.

What is named here is never the machine's: a startup script may install packages, and must not do so
on the machine of the user who runs the embedded cloud.
"""

from __future__ import annotations

import sys

from embedded_cloud.core.strictness import Strictness

_DOCKER = f'#!/bin/sh\nexec "{sys.executable}" -P -m embedded_cloud.machines.docker "$@"\n'

#: A list of rules, the newest last, so that a script can ask for them and set them. They change
#: nothing: what they drop, everything that begins on a container's bridge, has no way out of its
#: network namespace (:mod:`embedded_cloud.machines.docker.shim`). Any other rule is refused.
_IPTABLES = """#!/bin/sh
rules=${TPUFLEX_ROOT:?is not set: this runs only on an emulated host}/run/iptables verb='' rule=''
refuse() { printf 'iptables: %s\\n' "$1" >&2; exit 2; }
for word; do
    case $word in
    --wait) ;;
    *[[:space:]]*) refuse 'this stand-in takes no word with a blank' ;;
    *[!0-9]*) if [ -n "$verb" ]; then rule="$rule $word"; else verb=$word; fi ;;
    esac
done
case $rule in
' DOCKER-USER '* | ' INPUT '*) ;;
*) refuse 'this stand-in knows the chains DOCKER-USER and INPUT' ;;
esac
case $rule in
*' --in-interface '*' --jump DROP') ;;
*) refuse 'this stand-in knows only what drops packets from a bridge' ;;
esac
case $verb in
--check) [ -e "$rules" ] && grep --quiet --line-regexp --fixed-strings -- "${rule# }" "$rules" ;;
--insert) printf '%s\\n' "${rule# }" >>"$rules" ;;
*) refuse "$verb is not a command of this stand-in" ;;
esac
"""

#: 127, as a shell answers for a command that it does not find. The machine may have one.
_NO_DOCKER = """#!/bin/sh
echo 'docker: command not found' >&2
exit 127
"""

_APT_GET = f"""#!/bin/sh
case " $* " in
*' update '*) ;;
*' install '*' docker.io '*) cat >"$0.docker" <<'END_OF_DOCKER'
{_DOCKER}END_OF_DOCKER
    chmod 755 "$0.docker" && mv -f "$0.docker" "${{0%/*}}/docker" ;;
*) echo "E: this stand-in can update, and install docker.io" >&2; exit 100 ;;
esac
"""

#: As with a mirror that cannot be reached.
_NO_MIRROR = """#!/bin/sh
mirror=http://us-east5.gce.archive.ubuntu.com/ubuntu
echo "E: Failed to fetch $mirror/dists/jammy/InRelease  Could not connect, connection timed out" >&2
exit 100
"""

#: Of a file system in memory, on a host without mounts: what is in its directory is on the
#: machine's disk.
_DF = """#!/bin/sh
for place; do :; done
used=$(du --summarize --bytes "$place" | cut --fields=1)
printf '   Avail\\n%s\\n' $((used < {size} ? {size} - used : 0))
"""


#: Never the machine's own: on a host, who runs anything is its root.
_SUDO = """#!/bin/sh
[ -z "${TPUFLEX_NO_SUDO:-}" ] || { echo 'sudo: a password is required' >&2; exit 1; }
exec "$@"
"""


def commands(strictness: Strictness) -> dict[str, str]:
    """The scripts of a TPU VM, by name."""
    docker, hosts = strictness.docker, strictness.hosts
    scripts = {
        "docker": _DOCKER if docker.preinstalled else _NO_DOCKER,
        "apt-get": _APT_GET if docker.installable else _NO_MIRROR,
        "iptables": _IPTABLES,
        "sudo": _SUDO,
    }
    if hosts.shm_bytes is None or hosts.own_mounts:
        return scripts
    return {**scripts, "df": _DF.format(size=hosts.shm_bytes)}
