"""An acceptable value for every input of a queued resource, and Google's own schema of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pulumi_plugin.values import Properties
from tests.provider.fakes import INPUTS
from tpuflex.queued_resource.check import with_defaults

URN = "urn:pulumi:dev::shop::tpuflex:tpu:QueuedResource::slice"
RESERVATION = "projects/p/locations/us-east5-a/reservations/r"
DISK = "projects/p/zones/us-east5-a/disks/d"

#: For every input another acceptable value, none of them the default, with what it needs beside
#: it; None takes an input away.
OTHER: dict[str, dict[str, Any]] = {
    "queuedResourceId": {"queuedResourceId": "slice-g2"},
    "queuedResourceIdPrefix": {"queuedResourceIdPrefix": "other"},
    "project": {"project": "other-project"},
    "zones": {"zones": ["us-east5-b"]},
    "acceleratorType": {"acceleratorType": "v6e-8"},
    "acceleratorConfig": {
        "acceleratorType": None,
        "acceleratorConfig": {"type": "V6E", "topology": "2x4"},
    },
    "runtimeVersion": {"runtimeVersion": "v2-alpha-tpuv5-lite"},
    "serviceAccount": {"serviceAccount": "other@cloud-project.iam.gserviceaccount.com"},
    "maxRunDuration": {"maxRunDuration": "7200s"},
    "terminationTime": {"maxRunDuration": None, "terminationTime": "2026-12-01T08:00:00Z"},
    "network": {"network": "n"},
    "subnetwork": {"subnetwork": "s"},
    "canIpForward": {"canIpForward": True},
    "queueCount": {"queueCount": 4},
    "networkConfigs": {
        "networkConfigs": [
            {
                "network": "a",
                "subnetwork": "b",
                "externalIps": True,
                "canIpForward": True,
                "queueCount": 2,
            },
            {"network": "c"},
        ]
    },
    "cidrBlock": {"cidrBlock": "10.240.0.0/29"},
    "scopes": {"scopes": ["https://www.googleapis.com/auth/devstorage.read_only"]},
    "tags": {"tags": ["vllm"]},
    "labels": {"labels": {"tpuflex-owner": "ffff"}},
    "metadata": {"metadata": {"note": "x"}},
    "description": {"description": "for people"},
    "onBootChange": {"onBootChange": "update"},
    "externalIps": {"externalIps": True},
    "secureBoot": {"secureBoot": True},
    "autocheckpointEnabled": {"autocheckpointEnabled": True},
    "dataDisks": {"dataDisks": [{"sourceDisk": DISK, "mode": "READ_ONLY", "workerIds": ["0"]}]},
    "bootDisk": {
        "bootDisk": {
            "diskSizeGb": 200,
            "sourceImage": "projects/p/global/images/i",
            "provisionedIops": 3000,
            "provisionedThroughput": 140,
            "storagePool": "projects/p/zones/us-east5-a/storagePools/s",
            "enableConfidentialCompute": True,
            "kmsKeyName": "projects/p/locations/us-east5/keyRings/r/cryptoKeys/k",
        }
    },
    "provisioningModel": {"provisioningModel": "SPOT", "maxRunDuration": None},
    "reservationName": {
        "provisioningModel": "RESERVATION_BOUND",
        "reservationName": RESERVATION,
        "maxRunDuration": None,
    },
    "bestEffort": {"provisioningModel": "STANDARD", "bestEffort": True, "maxRunDuration": None},
    "guaranteed": {
        "provisioningModel": "STANDARD",
        "guaranteed": {"minDuration": "3600s", "reserved": True},
        "maxRunDuration": None,
    },
    "validUntilDuration": {"validUntilDuration": "3600s"},
    "validUntilTime": {"validUntilTime": "2026-12-02T08:00:00Z"},
    "validAfterDuration": {"validAfterDuration": "1800s"},
    "validAfterTime": {"validAfterTime": "2026-11-30T08:00:00Z"},
    "validInterval": {
        "validInterval": {"startTime": "2026-11-29T08:00:00Z", "endTime": "2026-11-29T09:00:00Z"}
    },
    "multiNode": {
        "multiNode": {
            "nodeCount": 3,
            "nodeIdPrefix": "np",
            "workloadType": "AVAILABILITY_OPTIMIZED",
        }
    },
    "strategy": {"strategy": "ordered"},
    "queueTimeout": {"queueTimeout": "3600s"},
    "provisioningTimeout": {"provisioningTimeout": "3600s"},
    "deleteTimeout": {"deleteTimeout": "3600s"},
    "drainTimeout": {"drainTimeout": "0s"},
    "readyTimeout": {"readyTimeout": "600s"},
    "firstReportTimeout": {"firstReportTimeout": "60s"},
    "renewBefore": {"renewBefore": "600s"},
    "rerun": {"rerun": "again"},
    "onRunEnd": {"onRunEnd": "delete"},
    "onBootFailure": {"onBootFailure": "delete"},
    "replace": {"replace": "delete_first"},
    "deletionProtection": {"deletionProtection": True},
}

#: Where an input lands: below `QueuedResource` in the request, or in its address.
LANDS = {
    "acceleratorType": "tpu.nodeSpec.node.acceleratorType",
    "acceleratorConfig": "tpu.nodeSpec.node.acceleratorConfig",
    "runtimeVersion": "tpu.nodeSpec.node.runtimeVersion",
    "serviceAccount": "tpu.nodeSpec.node.serviceAccount.email",
    "scopes": "tpu.nodeSpec.node.serviceAccount.scope",
    "maxRunDuration": "runDuration.maxRunDuration",
    "terminationTime": "runDuration.terminationTime",
    "network": "tpu.nodeSpec.node.networkConfig.network",
    "subnetwork": "tpu.nodeSpec.node.networkConfig.subnetwork",
    "canIpForward": "tpu.nodeSpec.node.networkConfig.canIpForward",
    "queueCount": "tpu.nodeSpec.node.networkConfig.queueCount",
    "externalIps": "tpu.nodeSpec.node.networkConfig.enableExternalIps",
    "networkConfigs": "tpu.nodeSpec.node.networkConfigs",
    "cidrBlock": "tpu.nodeSpec.node.cidrBlock",
    "tags": "tpu.nodeSpec.node.tags",
    "labels": "tpu.nodeSpec.node.labels",
    "metadata": "tpu.nodeSpec.node.metadata",
    "description": "tpu.nodeSpec.node.description",
    "secureBoot": "tpu.nodeSpec.node.shieldedInstanceConfig.enableSecureBoot",
    "autocheckpointEnabled": "tpu.nodeSpec.node.autocheckpointEnabled",
    "dataDisks": "tpu.nodeSpec.node.dataDisks",
    "bootDisk": "tpu.nodeSpec.node.bootDiskConfig",
    "provisioningModel": "provisioningModel",
    "reservationName": "reservationName",
    "bestEffort": "bestEffort",
    "guaranteed": "guaranteed",
    "validUntilDuration": "queueingPolicy.validUntilDuration",
    "validUntilTime": "queueingPolicy.validUntilTime",
    "validAfterDuration": "queueingPolicy.validAfterDuration",
    "validAfterTime": "queueingPolicy.validAfterTime",
    "validInterval": "queueingPolicy.validInterval",
    "multiNode": "tpu.nodeSpec.multiNodeParams",
    "queuedResourceId": "tpu.nodeSpec.nodeId",
    "project": "tpu.nodeSpec.parent",
    "zones": "tpu.nodeSpec.parent",
}
#: The time at which all of the above is acceptable.
NOW = "2026-11-28T08:00:00Z"


def changed(*keys: str) -> dict[str, Any]:
    """The other values of ``keys``, all together."""
    together: dict[str, Any] = {}
    for key in keys:
        together |= OTHER[key]
    return together


def given(**changes: Any) -> dict[str, Any]:
    """The small request's inputs with ``changes``; None takes an input away."""
    return {key: value for key, value in {**INPUTS, **changes}.items() if value is not None}


def filled(**changes: Any) -> Properties:
    """As :func:`given`, with defaults."""
    return with_defaults(given(**changes), urn=URN, project=None)


def google_schemas() -> dict[str, Any]:
    """Google's schemas of the Cloud TPU API v2alpha1, by name."""
    spec = find_spec("googleapiclient")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "discovery_cache" / "documents"
    schemas: dict[str, Any] = json.loads((folder / "tpu.v2alpha1.json").read_text())["schemas"]
    return schemas


def at(body: Any, path: str) -> Any:
    """What ``body`` holds at ``path``; the first item stands for a list on the way."""
    for part in path.split("."):
        if isinstance(body, list):
            body = body[0]
        if part not in body:
            return None
        body = body[part]
    return body


def leaves(value: Any) -> Iterator[str]:
    """Every single value inside of ``value``, as text: Google writes 64-bit numbers so."""
    if isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    else:
        yield str(value)
