"""A client for each of Google's services that a stack uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tpuflex.google.endpoints import Endpoints
    from tpuflex.google.transport import Api


@dataclass(frozen=True, slots=True)
class Apis:
    """One client per service."""

    tpu: Api
    storage: Api
    secretmanager: Api
    compute: Api
    iam: Api
    resourcemanager: Api
    dns: Api
    monitoring: Api
    serviceusage: Api
    cloudkms: Api


def apis(endpoints: Endpoints, connect: Callable[[str], Api]) -> Apis:
    """The clients for ``endpoints``; ``connect`` makes one for a base URL."""
    return Apis(
        tpu=connect(endpoints.tpu),
        storage=connect(endpoints.storage),
        secretmanager=connect(endpoints.secretmanager),
        compute=connect(endpoints.compute),
        iam=connect(endpoints.iam),
        resourcemanager=connect(endpoints.resourcemanager),
        dns=connect(endpoints.dns),
        monitoring=connect(endpoints.monitoring),
        serviceusage=connect(endpoints.serviceusage),
        cloudkms=connect(endpoints.cloudkms),
    )
