"""What a node's hosts say of themselves, read through the Cloud TPU API."""

from __future__ import annotations

from typing import Protocol

from tpuflex.errors import NotFoundError
from tpuflex.host.report import NAMESPACE, HostReport, host_report


class GuestAttributes(Protocol):
    """The part of :class:`tpuflex.google.queued_resources.TpuClient` that is used here."""

    def guest_attributes(self, node: str, namespace: str) -> tuple[dict[str, str], ...]:
        """What each host of the node wrote."""


def observe_host(node: str, tpu: GuestAttributes) -> HostReport | None:
    """The report of the first host of ``node``, its full name; None when it has written none yet.

    Raises:
        AccessError, ApiError: the API refuses, or does not answer.
    """
    try:
        hosts = tpu.guest_attributes(node, NAMESPACE)
    except NotFoundError:
        return None
    return host_report(hosts[0]) if hosts else None
