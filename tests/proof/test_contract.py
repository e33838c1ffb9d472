"""The calls that cost nothing, on the embedded cloud: as is said of Google, and as was recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from embedded_cloud.server import EmbeddedCloud
from proof.cases import CASES
from proof.contract import Caller, differences, recordings
from tpuflex.google.endpoints import Endpoints
from tpuflex.google.session import authorized_session

PROJECT = "tpuflex-dev"


@contextmanager
def calling(cloud: EmbeddedCloud) -> Iterator[Caller]:
    """One who calls ``cloud``, and waits for nothing."""
    endpoints = Endpoints.from_environ(cloud.environ())
    names = {"project": PROJECT, "zone": "us-east5-a", "region": "us-east5", "name": "proof-1"}
    with authorized_session(endpoints, cloud.environ(), PROJECT, renews=True) as session:
        yield Caller(session, endpoints, names, pause=lambda _: None)


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Every call of every case, with the embedded cloud's answer."""
    with EmbeddedCloud(tmp_path_factory.mktemp("cloud")) as cloud, calling(cloud) as caller:
        calls = [call for case in CASES for call in caller.record(case)]
        left = cloud.cloud.inventory()
    kinds = ("queuedResources", "nodes", "buckets", "secrets")
    assert not [kind for found in left.values() for kind in kinds if found.get(kind)]
    return calls


@pytest.mark.parametrize("case", [case.name for case in CASES])
def test_the_embedded_cloud_answers_as_is_said_of_google(
    answered: list[dict[str, Any]], case: str
) -> None:
    """Status and reason of every call are those of the case."""
    calls = [call for call in answered if call["case"] == case]

    assert calls
    assert [call for call in calls if not call["as_expected"]] == []


def test_a_case_that_is_refused_is_cleaned_up(tmp_path: Path) -> None:
    """What was made before something went wrong is deleted."""
    (bucket,) = (case for case in CASES if case.name == "life of a bucket")
    with EmbeddedCloud(tmp_path / "cloud") as cloud, calling(cloud) as caller:
        calls = caller.record(bucket)
        next(calls), next(calls)
        made = cloud.cloud.inventory()["storage"]["buckets"]
        calls.close()  # type: ignore[attr-defined]
        left = cloud.cloud.inventory().get("storage", {}).get("buckets")

    assert (len(made), left) == (1, None) or (len(made), left) == (1, [])


def test_what_differs_from_a_recording_is_named(answered: list[dict[str, Any]]) -> None:
    """Another status, another reason, another field, a call more: each is a line."""
    other = [dict(call) for call in answered[:-1]]
    other[0]["status"], other[1]["reason"] = 400, "INTERNAL"
    other[2]["shape"] = {"error": {"code": "int"}}

    found = differences(answered, other)

    assert differences(answered, answered) == []
    assert any("status 404 is recorded, 400 is answered" in line for line in found)
    assert any("reason NOT_FOUND is recorded, INTERNAL is answered" in line for line in found)
    assert any("is recorded, None is answered" in line for line in found)


def test_the_embedded_cloud_answers_as_google_did(answered: list[dict[str, Any]]) -> None:
    """Status, reason and names in every answer are those of each recording in data/google."""
    recorded = list(recordings())
    if not recorded:
        pytest.skip("nobody has recorded Google yet: make prove-on-google TIER=free")

    assert [line for calls in recorded for line in differences(calls, answered)] == []
