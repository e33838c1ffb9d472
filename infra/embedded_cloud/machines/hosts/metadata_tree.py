"""A host's metadata, a pure function of the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from embedded_cloud.core.clock import Clock
from embedded_cloud.machines.hosts.spec import HostSpec

#: A token is given again until so much of its life is left
#: (https://cloud.google.com/compute/docs/access/authenticate-workloads#applications).
_RENEWED_BEFORE_S = 300.0


@dataclass(frozen=True, slots=True)
class HostToken:
    """A token, as the metadata server gives it.

    Attributes:
        text: the token.
        expires_in: seconds that are left of it.
    """

    text: str
    expires_in: int


class HostTokens:
    """The token of one host, another one before it expires.

    Args:
        issue: makes a token that lives for so many seconds.
        clock: the cloud's time.
        lifetime_s: how long tokens live now.
    """

    def __init__(
        self, issue: Callable[[float], str], clock: Clock, lifetime_s: Callable[[], float]
    ) -> None:
        self._issue = issue
        self._clock = clock
        self._lifetime_s = lifetime_s
        self._text = ""
        self._expires = 0.0

    def current(self) -> HostToken:
        """A token that has not expired."""
        now, lifetime = self._clock.now(), self._lifetime_s()
        left = self._expires - now
        if not min(_RENEWED_BEFORE_S, lifetime / 2) < left <= lifetime:
            self._text, self._expires, left = self._issue(lifetime), now + lifetime, lifetime
        return HostToken(self._text, int(left))


#: A directory (mapping), a list, a JSON leaf or a text leaf.
Tree: TypeAlias = "dict[str, Tree] | list[str] | str | int"


def metadata_tree(spec: HostSpec, token: HostToken) -> dict[str, Tree]:
    """Everything under ``/computeMetadata/v1/`` except guest attributes.

    Args:
        spec: the host.
        token: access token of its service account.
    """
    zone = f"projects/{spec.project_number}/zones/{spec.zone}"
    return {
        "instance": {
            "id": spec.instance_id,
            "name": spec.name,
            "hostname": f"{spec.name}.{spec.zone}.c.{spec.project}.internal",
            "zone": zone,
            "machine-type": f"projects/{spec.project_number}/machineTypes/{spec.machine_type}",
            "description": spec.description or spec.tpu.node_id,
            "attributes": dict[str, Tree](attributes(spec)),
            "network-interfaces": {"0": {"ip": spec.address}},
            "service-accounts": _accounts(spec, token),
        },
        "project": {
            "project-id": spec.project,
            "numeric-project-id": spec.project_number,
        },
    }


def attributes(spec: HostSpec) -> Mapping[str, str]:
    """The node's metadata, and what its service adds to it."""
    return {
        **spec.metadata,
        "accelerator-type": spec.tpu.accelerator_type,
        "agent-worker-number": str(spec.worker),
        "instance-id": spec.instance_id,
        "worker-network-endpoints": ",".join(
            f"unknown:unknown:{address}" for address in spec.tpu.addresses
        ),
        "tpu-env": tpu_env(spec),
    }


def tpu_env(spec: HostSpec) -> str:
    """The ``tpu-env`` attribute: lines of ``KEY: 'value'`` that libtpu's callers read."""
    values = {
        "ACCELERATOR_TYPE": spec.tpu.accelerator_type,
        "ALT": "false",
        "CONSUMER_PROJECT_ID": spec.project,
        "CONSUMER_PROJECT_NUMBER": spec.project_number,
        "NODE_ID": spec.tpu.node_id,
        "TOPOLOGY": spec.tpu.topology,
        "WORKER_ID": str(spec.worker),
        "ZONE": spec.zone,
    }
    return "\n".join(f"{key}: '{value}'" for key, value in values.items())


def _accounts(spec: HostSpec, token: HostToken) -> dict[str, Tree]:
    """The directory of service accounts."""
    account: dict[str, Tree] = {
        "aliases": ["default"],
        "email": spec.service_account,
        "scopes": list(spec.scopes),
        "token": _token(token),
    }
    return {"default": account, spec.service_account: account}


def find(tree: dict[str, Tree], path: str) -> Tree | None:
    """The node at ``path``, or ``None``."""
    node: Tree = tree
    for part in filter(None, path.split("/")):
        if not isinstance(node, dict) or part not in node:
            return None
        node = node[part]
    return node


def render(node: Tree) -> tuple[str, str]:
    """``node`` as text, and its content type."""
    if isinstance(node, dict):
        if "access_token" in node:
            return _token_text(node), "application/json"
        entries = (
            f"{key}/" if isinstance(value, dict) and "access_token" not in value else key
            for key, value in node.items()
        )
        return "".join(f"{entry}\n" for entry in entries), "application/text"
    if isinstance(node, list):
        return "".join(f"{entry}\n" for entry in node), "application/text"
    return str(node), "application/text"


def _token(token: HostToken) -> dict[str, Tree]:
    return {
        "access_token": token.text,
        "expires_in": token.expires_in,
        "token_type": "Bearer",
    }


def _token_text(token: dict[str, Tree]) -> str:
    return (
        f'{{"access_token":"{token["access_token"]}",'
        f'"expires_in":{token["expires_in"]},"token_type":"Bearer"}}'
    )
