"""Calls that need no quota for chips and cost nothing, and what Google is said to answer.

Each case cleans up after itself. Sources: the error reference of the TPU API and the public
discovery documents; docs/proved.md calls them `free-calls`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Api = Literal["tpu", "storage", "secretmanager", "compute", "dns"]


@dataclass(frozen=True, slots=True)
class Call:
    """One request and what is expected of the answer.

    Attributes:
        method: HTTP method.
        api: which API.
        path: path and query, with ``{project}``, ``{zone}``, ``{region}`` and ``{name}``.
        status: HTTP status; None where it is not known beforehand, and is to be recorded.
        reason: ``error.status`` of Google's error model, where the call is to fail.
        body: JSON body, with the same names in its strings.
        again: whether the call is repeated until it is answered as expected.
    """

    method: str
    api: Api
    path: str
    status: int | None
    reason: str = ""
    body: Mapping[str, Any] | None = None
    again: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """Some calls in a row.

    Attributes:
        name: what it is about.
        calls: the calls.
        cleanup: calls that leave nothing behind; whatever they answer.
    """

    name: str
    calls: tuple[Call, ...]
    cleanup: tuple[Call, ...] = field(default=())


_ZONE = "/v2alpha1/projects/{project}/locations/{zone}"
_REQUEST = "{name}"
_NODE = {
    "acceleratorType": "v6e-1",
    "runtimeVersion": "v2-alpha-tpuv6e",
    "networkConfig": {"network": "no-such-network-{name}", "enableExternalIps": False},
}


def _request(zone: str, node: Mapping[str, Any] = _NODE) -> Call:
    """A request for one chip for ten minutes that is taken back at once, and expires after one: its
    network does not exist, so that it cannot be granted either."""
    parent = f"projects/{{project}}/locations/{zone}"
    spec = {"parent": parent, "nodeId": _REQUEST, "node": node}
    body = {
        "tpu": {"nodeSpec": [spec]},
        "provisioningModel": "FLEX_START",
        "runDuration": "600s",
        "queueingPolicy": {"validUntilDuration": "60s"},
    }
    path = f"/v2alpha1/{parent}/queuedResources?queuedResourceId={_REQUEST}"
    return Call("POST", "tpu", path, None, body=body)


def _withdraw(zone: str) -> Call:
    path = f"/v2alpha1/projects/{{project}}/locations/{zone}/queuedResources/{_REQUEST}?force=true"
    return Call("DELETE", "tpu", path, None)


_BUCKET = "/storage/v1/b/{project}-{name}"
_SECRET = "/v1/projects/{project}/secrets/{name}"  # noqa: S105 - a path

CASES = (
    Case(
        "missing node",
        (
            Call("GET", "tpu", f"{_ZONE}/nodes/{{name}}", 404, "NOT_FOUND"),
            Call("POST", "tpu", f"{_ZONE}/nodes/{{name}}:getGuestAttributes", 404, "NOT_FOUND", {}),
            Call("DELETE", "tpu", f"{_ZONE}/nodes/{{name}}", 404, "NOT_FOUND"),
        ),
    ),
    Case(
        "missing queued resource",
        (
            Call("GET", "tpu", f"{_ZONE}/queuedResources/{{name}}", 404, "NOT_FOUND"),
            Call("DELETE", "tpu", f"{_ZONE}/queuedResources/{{name}}", 404, "NOT_FOUND"),
        ),
    ),
    Case(
        "what a zone offers",
        (
            Call("GET", "tpu", f"{_ZONE}/acceleratorTypes?pageSize=1", 200),
            Call("GET", "tpu", f"{_ZONE}/runtimeVersions?pageSize=1", 200),
            Call("GET", "tpu", f"{_ZONE}/acceleratorTypes/v6e-1", None),
            Call("GET", "tpu", f"{_ZONE}/acceleratorTypes/v99-1", 404, "NOT_FOUND"),
        ),
    ),
    Case(
        "no such zone",
        (Call("GET", "tpu", "/v2alpha1/projects/{project}/locations/no-zone1-z/nodes", None),),
    ),
    Case("refused zone", (_request("us-central1-b"),), (_withdraw("us-central1-b"),)),
    Case(
        "unknown accelerator type",
        (_request("{zone}", {**_NODE, "acceleratorType": "v99-1"}),),
        (_withdraw("{zone}"),),
    ),
    Case(
        "life of a bucket",
        (
            Call("GET", "storage", _BUCKET, 404),
            Call(
                "POST",
                "storage",
                "/storage/v1/b?project={project}",
                200,
                body={"name": "{project}-{name}", "location": "{region}"},
            ),
            Call("PATCH", "storage", _BUCKET, 200, body={"labels": {"made-by": "proof"}}),
            Call("GET", "storage", f"{_BUCKET}/o", 200),
            Call("GET", "storage", f"{_BUCKET}/o/nothing", 404),
            Call("DELETE", "storage", _BUCKET, 204),
            Call("GET", "storage", _BUCKET, 404, again=True),
        ),
        (Call("DELETE", "storage", _BUCKET, None),),
    ),
    Case(
        "life of a secret",
        (
            Call("GET", "secretmanager", _SECRET, 404, "NOT_FOUND"),
            Call(
                "POST",
                "secretmanager",
                "/v1/projects/{project}/secrets?secretId={name}",
                200,
                body={"replication": {"automatic": {}}},
            ),
            Call("GET", "secretmanager", f"{_SECRET}/versions/latest", 404, "NOT_FOUND"),
            Call(
                "POST",
                "secretmanager",
                f"{_SECRET}:addVersion",
                200,
                body={"payload": {"data": "bm90IHNlY3JldA=="}},
            ),
            Call("GET", "secretmanager", f"{_SECRET}/versions/latest:access", 200),
            Call("DELETE", "secretmanager", _SECRET, 200),
            Call("GET", "secretmanager", _SECRET, 404, "NOT_FOUND", again=True),
        ),
        (Call("DELETE", "secretmanager", _SECRET, None),),
    ),
)
