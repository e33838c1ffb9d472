"""Whether an embedded cloud that answers is the one of this version, by what its health says."""

from __future__ import annotations

import importlib.metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embedded_cloud.json_types import JsonObject

#: What this version serves, as the health answer names it.
SERVICES = frozenset(
    {
        "tpu.v2alpha1",
        "tpu.v2",
        "tpu.v1",
        "storage.v1",
        "secretmanager.v1",
        "iam.v1",
        "iamcredentials.v1",
        "cloudresourcemanager.v1",
        "serviceusage.v1",
        "serviceusage.v1beta1",
        "cloudbilling.v1",
        "orgpolicy.v2",
        "dns.v1",
        "cloudkms.v1",
        "logging.v2",
        "artifactregistry.v1",
        "compute.v1",
        "oslogin.v1",
        "oslogin.v1beta",
        "oslogin.v1alpha",
    }
)


def outdated(health: JsonObject) -> str:
    """Why what gave the answer ``health`` is not of this version; empty if it is."""
    own, there = importlib.metadata.version("tpuflex"), health.get("version")
    if there != own:
        return f"is of tpuflex {there}, and this is {own}"
    served = health.get("services")
    lacking = SERVICES.difference(map(str, served if isinstance(served, list) else ()))
    if lacking:
        return f"is of another version of tpuflex: it does not serve {', '.join(sorted(lacking))}"
    return ""
