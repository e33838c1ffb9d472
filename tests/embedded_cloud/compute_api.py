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
