"""A queued resource as a Pulumi dynamic provider, as one writes it in an afternoon.

A yardstick for the reliability figures, and no part of tpuflex: see README.md beside this file.
"""

from __future__ import annotations

import os
import secrets
import time
from typing import Any

import google.auth
import pulumi
import requests
from google.auth.transport.requests import AuthorizedSession
from google.oauth2.credentials import Credentials
from pulumi.dynamic import CreateResult, DiffResult, ReadResult, Resource, ResourceProvider
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

Json = dict[str, Any]

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_OVER = ("FAILED", "SUSPENDING", "SUSPENDED")
#: What is sent with a call is given up after these seconds (connect, read).
_TIMEOUT = (10, 60)


class QueuedResourceProvider(ResourceProvider):
    """Create, read, delete; whatever changes replaces.

    The class is pickled by name into the state, so it holds nothing.
    """

    # There is nothing secret in a class's name; encrypting it costs every command a second.
    serialize_as_secret_always = False

    def create(self, props: Json) -> CreateResult:
        """Ask for capacity and wait for it."""
        id_ = props.get("queued_resource_id") or f"{props['name']}-{secrets.token_hex(4)}"
        parent = f"projects/{props['project']}/locations/{props['zone']}"
        name = f"{parent}/queuedResources/{id_}"
        node = {
            "acceleratorType": props["accelerator_type"],
            "runtimeVersion": props["runtime_version"],
            "networkConfig": {"enableExternalIps": False},
        }
        body = {
            "tpu": {"nodeSpec": [{"parent": parent, "nodeId": id_, "node": node}]},
            "provisioningModel": "FLEX_START",
            "runDuration": {"maxRunDuration": props["max_run_duration"]},
        }
        session = _session()
        where = _url(f"{parent}/queuedResources")
        asked = session.post(where, params={"queuedResourceId": id_}, json=body, timeout=_TIMEOUT)
        asked.raise_for_status()
        while True:
            found = session.get(_url(name), timeout=_TIMEOUT)
            found.raise_for_status()
            state = found.json()["state"]["state"]
            if state == "ACTIVE":
                return CreateResult(name, {**props, "queued_resource_id": id_, "state": state})
            if state in _OVER:
                raise RuntimeError(f"{name} is {state}")
            time.sleep(props["poll_seconds"])

    def read(self, id_: str, props: Json) -> ReadResult:
        """What there is now; no id if it is gone."""
        found = _session().get(_url(id_), timeout=_TIMEOUT)
        if found.status_code == requests.codes.not_found:
            return ReadResult(None, {})
        found.raise_for_status()
        return ReadResult(id_, {**props, "state": found.json()["state"]["state"]})

    def diff(self, _id: str, _olds: Json, _news: Json) -> DiffResult:
        """Any changed argument replaces."""
        changed = [key for key, value in _news.items() if _olds.get(key) != value]
        return DiffResult(changes=bool(changed), replaces=changed, delete_before_replace=True)

    def delete(self, _id: str, _props: Json) -> None:
        """Delete, its node included, and wait until it is gone."""
        session = _session()
        asked = session.delete(_url(_id), params={"force": "true"}, timeout=_TIMEOUT)
        if asked.status_code == requests.codes.not_found:
            return
        asked.raise_for_status()
        while True:
            found = session.get(_url(_id), timeout=_TIMEOUT)
            if found.status_code == requests.codes.not_found:
                return
            found.raise_for_status()
            time.sleep(_props["poll_seconds"])


class QueuedResource(Resource, module="tpu", name="QueuedResource"):
    """A Flex-start queued resource with one node.

    Args:
        name: Pulumi's name, and the beginning of the queued resource's.
        project: Google Cloud project.
        zone: such as ``us-east5-a``.
        accelerator_type: such as ``v6e-4``.
        runtime_version: the node's image.
        max_run_duration: such as ``14400s``.
        queued_resource_id: the queued resource's name; by default ``name`` and eight random
            hexadecimal digits, as Pulumi names things.
        poll_seconds: between two looks.
    """

    queued_resource_id: pulumi.Output[str]
    state: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        project: str,
        zone: str,
        accelerator_type: str,
        runtime_version: str,
        max_run_duration: str,
        queued_resource_id: str | None = None,
        poll_seconds: float = 10.0,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        props: Json = {
            "name": name,
            "project": project,
            "zone": zone,
            "accelerator_type": accelerator_type,
            "runtime_version": runtime_version,
            "max_run_duration": max_run_duration,
            "queued_resource_id": queued_resource_id,
            "poll_seconds": poll_seconds,
            "state": None,
        }
        super().__init__(QueuedResourceProvider(), name, props, opts)


def _session() -> AuthorizedSession:
    """A session that renews its token, and tries GET and DELETE again as everybody does."""
    token = os.environ.get("GOOGLE_OAUTH_ACCESS_TOKEN")
    if token:
        credentials: Any = Credentials(token)  # type: ignore[no-untyped-call]
    else:
        credentials, _ = google.auth.default(scopes=[_SCOPE])
    session: AuthorizedSession = AuthorizedSession(credentials)  # type: ignore[no-untyped-call]
    again = Retry(total=5, backoff_factor=0.5, status_forcelist=(429, 500, 502, 503, 504))
    adapter = HTTPAdapter(max_retries=again)
    session.mount("https://", adapter)
    session.mount("http://", adapter)
    return session


def _url(path: str) -> str:
    given = os.environ.get("CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU", "https://tpu.googleapis.com/")
    return f"{given.rstrip('/')}/v2alpha1/{path}"
