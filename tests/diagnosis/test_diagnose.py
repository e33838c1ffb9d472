"""What is said of an endpoint in each state, read through the APIs of an embedded cloud."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.typing import NOON
from tests.diagnosis.conftest import Endpoint
from tests.embedded_cloud.api import AT_ONCE, RUN_S
from tpuflex.diagnosis.diagnose import deletions
from tpuflex.diagnosis.findings import Certainty
from tpuflex.diagnosis.judge import Diagnosis, State
from tpuflex.operate.endpoint_events import Event

OOM = "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm."


def first(found: Diagnosis) -> tuple[str, Certainty]:
    """The first class, and how sure it is."""
    return found.findings[0].failure.slug, found.findings[0].certainty


def test_a_request_that_waits(endpoint: Endpoint) -> None:
    """Nothing is wrong: exit code 3, with what `status` says to do."""
    endpoint.ask(never=True)
    endpoint.pass_time(5)
    found = endpoint.diagnosed()

    assert (found.state, found.findings, found.exit_code) == (State.WAITS, (), 3)
    assert str(found.remedy).startswith("`tpuflex up` keeps waiting")


def test_a_host_that_boots(endpoint: Endpoint) -> None:
    """Nothing is wrong so far, and what an earlier boot came to is not held against it."""
    endpoint.boot_log().write("health", 9, "phase health", error="container-died: old: " + OOM)
    endpoint.pass_time(5)
    endpoint.runs()
    endpoint.reports("weights")
    found = endpoint.diagnosed()

    assert (found.state, found.findings, found.exit_code) == (State.BOOTS, (), 3)


@pytest.mark.parametrize(
    ("message", "code", "slug", "remedy"),
    [
        (
            'There is no more capacity in the zone "us-east5-a"',
            "RESOURCE_EXHAUSTED",
            "stock-out",
            "requests capacity again",
        ),
        (
            "Quota 'TPUV6EPreemptiblePerProject' exhausted. Limit 64",
            "RESOURCE_EXHAUSTED",
            "quota",
            "tpuflex sweep",
        ),
        (
            "Quota 'TPUV6EPreemptiblePerProject' exhausted. Limit 0",
            "RESOURCE_EXHAUSTED",
            "quota",
            "ask for quota",  # to delete leftovers does not help
        ),
        (
            "Permission 'tpu.nodes.create' denied",
            "PERMISSION_DENIED",
            "permission",
            "tpuflex doctor",
        ),
        (
            "Cloud TPU API has not been used in project 1 before or it is disabled.",
            "PERMISSION_DENIED",
            "api-not-enabled",
            "tpuflex doctor",
        ),
        (
            "Constraint constraints/compute.requireShieldedVm violated.",
            "INVALID_ARGUMENT",
            "secure-boot",
            "secure_boot",
        ),
        (
            "Billing account for project '1' is not found.",
            "FAILED_PRECONDITION",
            "permission",
            "gcloud billing projects link",
        ),
        (
            "FLEX_START is not supported for accelerator",
            "INVALID_ARGUMENT",
            "arguments",
            "tpuflex zones",
        ),
    ],
)
def test_a_request_that_failed(
    endpoint: Endpoint, message: str, code: str, slug: str, remedy: str
) -> None:
    """By the cause that Google's words give, certain, with its line and what helps."""
    endpoint.ask(**AT_ONCE, failure={"code": code, "message": message})
    endpoint.pass_time(5)
    found = endpoint.diagnosed()

    assert first(found) == (slug, Certainty.CERTAIN)
    assert found.findings[0].lines[0].source == "Cloud TPU"
    assert message[:40] in found.findings[0].lines[0].text
    assert remedy in str(found.remedy)


def test_a_run_that_is_over(endpoint: Endpoint) -> None:
    """The end of the run comes first, also where the boot had failed before."""
    endpoint.runs()
    boot = endpoint.boot_log()
    boot.write("health", 9, "phase health", error=f"container-died: of its memory: {OOM}")
    endpoint.pass_time(RUN_S / 60 + 5)
    found = endpoint.diagnosed()

    assert first(found) == ("end-of-run", Certainty.CERTAIN)
    assert "hbm-out-of-memory" in [each.failure.slug for each in found.findings]
    assert "up --new-host" in str(found.remedy)


def test_a_node_that_was_deleted(endpoint: Endpoint) -> None:
    """The slice is lost, and what runs no more is not asked."""
    endpoint.runs()
    answer = endpoint.api.tpu("DELETE", f"nodes/{endpoint.request}")
    endpoint.pass_time(5)

    assert answer.ok, answer.text
    assert first(endpoint.diagnosed()) == ("slice-lost", Certainty.CERTAIN)


@pytest.mark.parametrize(
    ("error", "slug"),
    [
        ("docker: the image of this runtime version has no docker", "docker"),
        ("capacity: the disk has 2 GB free for 40 GB of weights", "disk"),
        ("weights-checksum: model-1.safetensors in the bucket is cut short", "weights"),
        ("secret-403: access to it is refused", "permission"),
        ("secret-400: Secret Manager refuses the version", "secrets"),
        ("image-unknown: the registry has no such image", "image"),
        ("isolation: the server cannot run isolated: no device", "device"),
        ("health: the server does not answer after 3600 s (HTTP 000): Loading", "boot-stuck"),
        (f"container-died: the server died with status 1: x\n{OOM}", "hbm-out-of-memory"),
        ("container-died: the server died with status 137: Killed", "crash-loop"),
        (
            "container-died: the server died with status 2:\n"
            "api_server.py: error: unrecognized arguments: --no-such-flag",
            "arguments",
        ),
        ("metadata: the metadata server did not answer", "unknown"),
        ("phase-image: line 3, f: x ended with status 1", "unknown"),
        ("of-another-version: nobody knows this code", "unknown"),
    ],
)
def test_a_boot_that_failed(endpoint: Endpoint, error: str, slug: str) -> None:
    """By the code of the host's error, or the server's own last words where these say more; where
    neither tells a class, that is said with the line."""
    endpoint.runs()
    endpoint.reports("health", error)
    found = endpoint.diagnosed()

    assert found.findings[0].failure.slug == slug
    assert found.findings[0].lines
    assert found.state is State.FAILS
    assert "host report" in found.evidence.looked_at
    assert str(found.remedy)


@pytest.mark.parametrize(
    ("serving", "slug"),
    [
        (
            {"phase": "failed", "reason": "the server keeps dying, the last time with status 1"},
            "crash-loop",
        ),
        (
            {
                "phase": "failed",
                "reason": "no token came for 60 s while requests ran (3), again within an hour",
            },
            "frozen-engine",
        ),
        ({"phase": "degraded", "reason": "the container is paused"}, "target-down"),
        ({"phase": "draining", "reason": "the run ends at 2026-11-21T15:00:00Z"}, "end-of-run"),
        ({"phase": "draining", "reason": "the slice is to be deleted"}, "slice-lost"),
    ],
)
def test_a_host_that_was_ready(endpoint: Endpoint, serving: dict[str, Any], slug: str) -> None:
    """By what its watch says of the server."""
    endpoint.runs()
    endpoint.reports("READY", serving=serving)

    assert first(endpoint.diagnosed()) == (slug, Certainty.CERTAIN)


@pytest.mark.parametrize(
    "reason",
    [
        "the server died with status 137",
        "no token came for 60 s while requests ran (3); it is started once more",
    ],
)
def test_a_server_that_is_being_started_again(endpoint: Endpoint, reason: str) -> None:
    """It mends itself: exit code 3, ask again in a minute. Where its host goes silent over that, it
    does not; where its last words tell a cause, that is said."""
    endpoint.runs()
    endpoint.reports("READY", serving={"phase": "degraded", "reason": reason})
    found = endpoint.diagnosed()

    assert (found.state, found.findings, found.exit_code) == (State.BOOTS, (), 3)
    assert found.sentence == (f"the host mends itself, its server is being started again: {reason}")
    assert "ask again in a minute" in str(found.remedy)

    endpoint.reports("READY", serving={"phase": "degraded", "reason": f"{reason}: {OOM}"})
    assert first(endpoint.diagnosed()) == ("hbm-out-of-memory", Certainty.CERTAIN)

    endpoint.reports("READY", serving={"phase": "degraded", "reason": reason})
    endpoint.pass_time(5)
    assert endpoint.diagnosed().state is State.FAILS


def test_a_restart_that_somebody_asked_for(endpoint: Endpoint) -> None:
    """It drains, and serves again by itself."""
    endpoint.runs()
    why = "the server is started again, as somebody has asked"
    endpoint.reports("READY", serving={"phase": "draining", "reason": why})
    found = endpoint.diagnosed()

    assert (found.state, found.findings, found.exit_code) == (State.BOOTS, (), 3)


def test_a_silent_host(endpoint: Endpoint) -> None:
    """A policy may keep it silent, or its boot is stuck."""
    endpoint.runs(minutes=30)
    found = endpoint.diagnosed()

    assert [each.failure.slug for each in found.findings] == ["guest-attributes", "boot-stuck"]
    assert first(found) == ("guest-attributes", Certainty.LIKELY)


def test_a_report_that_a_policy_forbids_to_read(endpoint: Endpoint) -> None:
    """The policy is the reason, from the first minute on: whether the host boots is not known."""
    endpoint.runs()
    policies = {"constraints": {"compute.disableGuestAttributesAccess": True}}
    endpoint.api.strict(organization_policies=policies)
    found = endpoint.diagnosed()

    assert (found.state, first(found)) == (State.UNREAD, ("guest-attributes", Certainty.CERTAIN))
    assert [each.source for each in found.evidence.unread] == ["host report"]


def test_a_boot_that_takes_too_long(endpoint: Endpoint) -> None:
    """A phase that lasts longer than the whole boot may."""
    endpoint.runs()
    endpoint.reports("weights")
    endpoint.pass_time(90)

    assert first(endpoint.diagnosed()) == ("boot-stuck", Certainty.CERTAIN)


def test_what_served_and_was_taken_down(endpoint: Endpoint) -> None:
    """That its host drained for that is no failure; a boot that failed and was taken down is one,
    of which its log tells."""
    boot = endpoint.boot_log()
    boot.write("READY", 9, "2026-11-21T12:00:00Z watch: draining: the slice is to be deleted")
    assert endpoint.diagnosed().state is State.ABSENT
    assert "slice-lost" not in [each.failure.slug for each in endpoint.diagnosed().findings]

    endpoint.pass_time(5)
    endpoint.boot_log().write("health", 9, "phase health", error=f"container-died: x\n{OOM}")
    assert "hbm-out-of-memory" in [each.failure.slug for each in endpoint.diagnosed().findings]


def test_a_slice_that_somebody_deleted(endpoint: Endpoint, tmp_path: Path) -> None:
    """The state has it, it is gone, and the events say who deleted it: that is
    no stack that was never up."""
    endpoint.runs()
    project = endpoint.cloud.stack.project
    file = tmp_path / f"state/.pulumi/stacks/{project.name}/dev.json"
    file.parent.mkdir(parents=True)
    id_ = endpoint.node.replace("/nodes/", "/queuedResources/")
    type_ = "tpuflex:tpu:QueuedResource"
    urn = f"urn:pulumi:dev::{project.name}::{type_}::vllm"
    resource = {"urn": urn, "custom": True, "type": type_, "id": id_}
    file.write_text(json.dumps({"version": 3, "checkpoint": {"latest": {"resources": [resource]}}}))
    environ = {**endpoint.cloud.environ, "PULUMI_BACKEND_URL": f"file://{tmp_path / 'state'}"}
    endpoint.cloud = replace(endpoint.cloud, environ=environ)
    assert endpoint.api.tpu("DELETE", f"queuedResources/{endpoint.request}", force="true").ok
    endpoint.pass_time(10)
    found = endpoint.diagnosed()

    assert (found.state, first(found)) == (State.ABSENT, ("slice-lost", Certainty.LIKELY))
    assert f"deleted queuedResources/{endpoint.request} at" in found.findings[0].lines[0].text


@pytest.mark.parametrize(
    ("events", "count"),
    [
        (["up", "created", "deleted"], 1),
        (["up", "created", "down", "deleted"], 0),
        (["down", "up", "created", "deleted"], 1),
        (["up", "deleted", "created"], 0),
    ],
)
def test_whose_deletion_it_was(events: list[str], count: int) -> None:
    """What a `down` deleted or was made again is not lost, nor what the state does not have."""
    happened = [Event(NOON, what, "anna@example.com", "", ("nodes/g1",)) for what in events]

    assert len(deletions(happened, ["g1"])) == count
    assert deletions(happened, ["g2"]) == ()


def test_a_quota_that_flex_start_may_need(endpoint: Endpoint) -> None:
    """Without a slice the doctor's warning of it counts, likely: an `up` that was refused for it
    leaves none."""
    endpoint.api.capacity(quota={"*": {"preemptible": 0, "on_demand": 64}})
    found = endpoint.diagnosed()

    assert (found.state, first(found)) == (State.ABSENT, ("quota", Certainty.LIKELY))
    assert "preemptible 0" in found.findings[0].lines[0].text
    assert "quotas" in str(found.remedy)
    assert found.exit_code == 6


def test_nothing_there(endpoint: Endpoint) -> None:
    """No slice, and nothing in the way of one: exit code 4."""
    found = endpoint.diagnosed()

    assert (found.state, found.findings, found.exit_code) == (State.ABSENT, (), 4)
    assert found.evidence.looked_at == ("Cloud TPU", "Cloud Logging", "events", "doctor")
    assert found.evidence.unread == ()


def test_what_cannot_be_read_is_named(endpoint: Endpoint) -> None:
    """Of events, too, which are of several sources; the others are read all the same."""
    endpoint.api.strict(permissions={"missing": ["logging.logEntries.list"]})
    evidence = endpoint.diagnosed().evidence

    assert evidence.looked_at == ("Cloud TPU", "events", "doctor")
    unread = [each.source for each in evidence.unread]
    assert unread == ["Cloud Logging", "the hosts' logs in Cloud Logging", "Cloud Audit Logs"]


def test_an_api_that_is_off(endpoint: Endpoint) -> None:
    """Nothing can be read: the API is the reason, and its command comes next."""
    endpoint.api.strict(apis={"enforced": True})
    project = f"v1/projects/{endpoint.api.project}/services/tpu.googleapis.com:disable"
    assert endpoint.api.call("POST", project, body={}).ok
    found = endpoint.diagnosed()

    assert found.findings[0].failure.slug == "api-not-enabled"
    assert found.exit_code == 6
    assert "gcloud services enable" in str(found.remedy)


def test_a_permission_that_is_missing(endpoint: Endpoint) -> None:
    """The same of a permission."""
    endpoint.api.strict(permissions={"missing": ["tpu.nodes.list"]})
    found = endpoint.diagnosed()

    assert found.findings[0].failure.slug == "permission"
    assert found.exit_code == 6
