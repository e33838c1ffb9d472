"""Calls on Compute, and bodies for its tests."""

from __future__ import annotations

from typing import Any

import requests

from tests.embedded_cloud.api import PROJECT, Api

ROOT = f"compute/v1/projects/{PROJECT}"
GLOBAL = f"{ROOT}/global"
REGION = f"{ROOT}/regions/us-east5"
NETWORK = {"name": "net-1", "autoCreateSubnetworks": False}
SUBNETWORK = {"name": "sub-1", "network": "global/networks/net-1", "ipCidrRange": "10.0.0.0/24"}
FIREWALL = {
    "name": "fw-1",
    "network": "global/networks/net-1",
    "allowed": [{"IPProtocol": "TCP", "ports": ["22", "8000-8010"]}],
    "sourceRanges": ["35.235.240.0/20"],
    "targetTags": ["tpu"],
}


def insert(api: Api, collection: str, body: dict[str, Any], **query: str) -> Any:
    """Insert ``body``, which must be accepted; gives the operation."""
    answer = api.call("POST", collection, body=body, **query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refusal(answer: requests.Response) -> tuple[int, str]:
    """(HTTP status, reason) of a refusal."""
    return answer.status_code, answer.json()["error"]["errors"][0]["reason"]


ZONE_PATH = f"{ROOT}/zones/us-east5-a"
INSTANCES = f"{ZONE_PATH}/instances"
IMAGE = "projects/debian-cloud/global/images/family/debian-12"


def instance(name: str = "vm-1", **fields: Any) -> dict[str, Any]:
    """The body of ``instances.insert``: a small machine in ``sub-1``; ``None`` removes a field."""
    body = {
        "name": name,
        "machineType": "zones/us-east5-a/machineTypes/e2-small",
        "disks": [{"boot": True, "autoDelete": True, "initializeParams": {"sourceImage": IMAGE}}],
        "networkInterfaces": [{"subnetwork": "regions/us-east5/subnetworks/sub-1"}],
        **fields,
    }
    return {key: value for key, value in body.items() if value is not None}
