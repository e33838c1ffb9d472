"""JSON calls on an embedded cloud over HTTP."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

PROJECT = "my-project"
ZONE = "us-east5-a"
#: The token of the clouds of tests.
TOKEN = "ya29.tpuflex-embedded.of-the-tests"
RUN_S = 7200
#: Capacity rules under which a request waits for nothing.
AT_ONCE: Any = {"admission_s": 0, "grant_after_s": 0, "provisioning_s": 0, "suspending_s": 0}

#: The body of ``POST queuedResources`` as gcloud 528 sends it.
FLEX_START: dict[str, Any] = {
    "provisioningModel": "FLEX_START",
    "runDuration": {"maxRunDuration": f"{RUN_S}s"},
    "tpu": {
        "nodeSpec": [
            {
                "parent": f"projects/{PROJECT}/locations/{ZONE}",
                "nodeId": "n1",
                "node": {
                    "acceleratorType": "v6e-4",
                    "runtimeVersion": "v2-alpha-tpuv6e",
                    "labels": {"tpuflex-owner": "me"},
                    "metadata": {"x": "y"},
                    "networkConfig": {"network": "n", "subnetwork": "s"},
                    "serviceAccount": {"email": "sa@x"},
                },
            }
        ]
    },
}


@dataclass(frozen=True)
class Api:
    """Calls on the cloud at ``url``, in one project and zone."""

    url: str
    project: str = PROJECT
    zone: str = ZONE
    version: str = "v2alpha1"
    token: str = TOKEN

    def call(self, method: str, path: str, *, body: Any = None, **query: str) -> requests.Response:
        """One call with a bearer token; ``path`` from the root of the server."""
        return requests.request(
            method,
            f"{self.url}/{path.lstrip('/')}",
            params=query,
            json=body,
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=30,
        )

    def tpu(self, method: str, path: str, *, body: Any = None, **query: str) -> requests.Response:
        """One call of the TPU API in this project and zone: ``tpu("GET", "nodes/n1")``."""
        place = f"/{self.version}/projects/{self.project}/locations/{self.zone}"
        separator = "" if path.startswith(":") or not path else "/"
        return self.call(method, f"{place}{separator}{path}", body=body, **query)

    def get(self, path: str, **query: str) -> Any:
        """The body of a TPU GET, which must succeed."""
        answer = self.tpu("GET", path, **query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def create(self, queued_id: str = "q1", body: Any = None, **query: str) -> requests.Response:
        """``queuedResources.create``, by default of :data:`FLEX_START`."""
        return self.tpu(
            "POST",
            "queuedResources",
            body=flex_start() if body is None else body,
            queuedResourceId=queued_id,
            **query,
        )

    def capacity(self, **rules: Any) -> None:
        """Set the capacity rules of all zones."""
        answer = self.call("POST", "/_emulator/capacity", body=rules)
        assert answer.status_code == 200, answer.text

    def strict(self, **areas: Any) -> None:
        """Make areas of the cloud as strict as they say."""
        answer = self.call("POST", "_emulator/strictness", body=areas)
        assert answer.status_code == 200, answer.text

    def state(self, queued_id: str = "q1") -> str:
        """State of a queued resource; ``GONE`` when there is none."""
        answer = self.tpu("GET", f"queuedResources/{queued_id}")
        if answer.status_code == 404:
            return "GONE"
        assert answer.status_code == 200, answer.text
        return str(answer.json()["state"]["state"])

    def node_state(self, node_id: str = "n1") -> str:
        """State of a node; ``GONE`` when there is none."""
        answer = self.tpu("GET", f"nodes/{node_id}")
        return "GONE" if answer.status_code == 404 else str(answer.json()["state"])


def with_token(state_dir: Path) -> Path:
    """``state_dir`` as if a cloud with :data:`TOKEN` ran there."""
    state_dir.mkdir(parents=True, exist_ok=True)
    path = state_dir / "token"
    path.touch(mode=0o600)
    path.write_text(TOKEN)
    return state_dir


def flex_start(**node: Any) -> dict[str, Any]:
    """:data:`FLEX_START` with other node fields; ``None`` removes one."""
    body = copy.deepcopy(FLEX_START)
    spec = body["tpu"]["nodeSpec"][0]
    for key, value in node.items():
        if value is None:
            spec["node"].pop(key)
        else:
            spec["node"][key] = value
    return body


def eventually(holds: Callable[[], bool], within: float = 60.0) -> None:
    """Wait for other processes to do something."""
    deadline = time.monotonic() + within
    while not holds():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def error_of(answer: requests.Response) -> tuple[int, str, str]:
    """(HTTP status, canonical code, message) of an error answer."""
    error = answer.json()["error"]
    assert error["code"] == answer.status_code
    return answer.status_code, error["status"], error["message"]
