"""An API answers only where it is enabled, and only some time after."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from embedded_cloud.core.clock import ManualClock
from embedded_cloud.core.projects import project_number
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import PROJECT, TOKEN, ZONE, Api, error_of

_NUMBER = project_number(PROJECT)
_SERVICES = f"v1/projects/{PROJECT}/services"
_NODES = f"v2/projects/{PROJECT}/locations/{ZONE}/nodes"
_STRICT: Any = {"apis": {"enforced": True, "answers_after_s": 60}}


@pytest.fixture
def cloud(tmp_path: Path, clock: ManualClock) -> Iterator[EmbeddedCloud]:
    """An embedded cloud where APIs have to be enabled."""
    strict = EmbeddedCloud(tmp_path / "emulator", token=TOKEN, clock=clock, strictness=_STRICT)
    with strict as running:
        yield running


def _enable(api: Api, *names: str) -> None:
    ids = [f"{name}.googleapis.com" for name in names]
    answer = api.call("POST", f"{_SERVICES}:batchEnable", body={"serviceIds": ids})
    assert answer.status_code == 200, answer.text


def test_a_disabled_api_refuses_in_googles_words(api: Api) -> None:
    """The whole body, which clients and people read."""
    url = (
        "https://console.developers.google.com/apis/api/tpu.googleapis.com/overview"
        f"?project={_NUMBER}"
    )
    message = (
        f"Cloud TPU API has not been used in project {_NUMBER} before or it is disabled. Enable it"
        f" by visiting {url} then retry. If you enabled this API recently, wait a few minutes for"
        " the action to propagate to our systems and retry."
    )
    answer = api.call("GET", _NODES)
    assert answer.status_code == 403
    assert answer.json() == {
        "error": {
            "code": 403,
            "message": message,
            "status": "PERMISSION_DENIED",
            "errors": [
                {
                    "message": message,
                    "domain": "usageLimits",
                    "reason": "accessNotConfigured",
                    "extendedHelp": url,
                }
            ],
            "details": [
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "SERVICE_DISABLED",
                    "domain": "googleapis.com",
                    "metadata": {
                        "service": "tpu.googleapis.com",
                        "serviceTitle": "Cloud TPU API",
                        "consumer": f"projects/{_NUMBER}",
                        "containerInfo": _NUMBER,
                        "activationUrl": url,
                    },
                },
                {
                    "@type": "type.googleapis.com/google.rpc.LocalizedMessage",
                    "locale": "en-US",
                    "message": message,
                },
                {
                    "@type": "type.googleapis.com/google.rpc.Help",
                    "links": [
                        {
                            "description": "Google developers console API activation",
                            "url": url,
                        }
                    ],
                },
            ],
        }
    }


def test_an_enabled_api_answers_a_minute_later(api: Api, cloud: EmbeddedCloud) -> None:
    """Enabled at once, answering after 60 s; disabled again, it stops at once."""
    _enable(api, "tpu")
    assert api.call("GET", f"{_SERVICES}/tpu.googleapis.com").json()["state"] == "ENABLED"
    cloud.advance(59)
    assert error_of(api.call("GET", _NODES))[0] == 403
    _enable(api, "tpu")
    cloud.advance(1)
    assert api.call("GET", _NODES).status_code == 200
    assert api.call("POST", f"{_SERVICES}/tpu.googleapis.com:disable", body={}).status_code == 200
    assert error_of(api.call("GET", _NODES))[0] == 403


_DISABLED = [
    ("compute", f"compute/v1/projects/{PROJECT}/global/networks"),
    ("compute", f"compute/v1/projects/{_NUMBER}"),
    ("secretmanager", f"v1/projects/{PROJECT}/secrets"),
    ("iam", f"v1/projects/{PROJECT}/serviceAccounts"),
    ("iam", f"v1/projects/-/serviceAccounts/abcdef@{PROJECT}.iam.gserviceaccount.com"),
    ("cloudresourcemanager", f"v1/projects/{PROJECT}"),
    ("dns", f"dns/v1/projects/{PROJECT}/managedZones"),
]


@pytest.mark.parametrize(("service", "path"), _DISABLED)
def test_every_api_has_to_be_enabled(api: Api, service: str, path: str) -> None:
    """Resource Manager among them; the one that is off is named by its service."""
    code, _, message = error_of(api.call("GET", path))
    assert (code, f"/apis/api/{service}.googleapis.com/" in message) == (403, True)


def test_the_project_that_is_charged_counts(api: Api, cloud: EmbeddedCloud) -> None:
    """The quota project that a caller names, not the one that the call is about."""
    _enable(api, "tpu")
    cloud.advance(60)
    headers = {"Authorization": f"Bearer {TOKEN}", "X-Goog-User-Project": "another-project"}
    answer = requests.get(f"{cloud.url}/{_NODES}", headers=headers, timeout=60)
    assert f"project {project_number('another-project')} before" in error_of(answer)[2]


def test_a_bare_project_enables_its_first_api(api: Api) -> None:
    """Nothing is on, storage neither; Service Usage answers whoever names no quota project."""
    url = f"storage/v1/b?project={PROJECT}"
    assert api.call("GET", url).status_code == 200
    bare = {"apis": {"bare_projects": True}}
    assert api.call("POST", "_emulator/strictness", body=bare).status_code == 200
    assert api.call("GET", _SERVICES, filter="state:ENABLED").json().get("services", []) == []
    assert error_of(api.call("GET", url))[0] == 403
    _enable(api, "serviceusage", "storage")


def test_a_bucket_belongs_to_the_project_that_made_it(api: Api) -> None:
    """The project of a bucket is not in its path."""
    made = api.call("POST", "storage/v1/b", body={"name": "bk-1"}, project=PROJECT)
    assert made.status_code == 200, made.text
    api.call("POST", f"{_SERVICES}/storage.googleapis.com:disable", body={})
    code, _, message = error_of(api.call("GET", "storage/v1/b/bk-1/o"))
    assert (code, _NUMBER in message) == (403, True)
