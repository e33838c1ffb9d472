"""Small forms that much else is built on: durations, models, configuration, reasons."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pulumi
import pytest

from pulumi_plugin.values import UNKNOWN, Value
from tests.components.pulumi_plan import run_program
from tests.goldens.golden_texts import assert_golden
from tests.loopback import overrides
from tests.provider.fakes import NAME, args, missing, queued
from tpuflex import __version__
from tpuflex.errors import (
    AccessError,
    AlreadyExistsError,
    ApiError,
    ConflictError,
    QuotaError,
    TpuflexError,
)
from tpuflex.naming import VLLM_ENDPOINT
from tpuflex.provider.call import UnreadyError, elapsed, pause_for
from tpuflex.provider.configuration import Configuration, configuration, endpoints
from tpuflex.provider.schema import package_schema
from tpuflex.provider.zone_attempts import ZoneAttempt, reason
from tpuflex.queued_resource.model import QueuedResource as Found
from tpuflex.queued_resource.name import RequestName
from tpuflex.queued_resource.rows import moment
from tpuflex.queued_resource.snapshot import Snapshot
from tpuflex.tpu import Provider, QueuedResource

NAMED = RequestName.parse(NAME)
LOOPBACK = overrides("http://127.0.0.1:1")


def lines(value: object, path: str = "") -> Iterator[str]:
    """``value``, a line for everything that has no object inside."""
    inner = [item for item in value.values() if item] if isinstance(value, dict) else []
    if isinstance(value, dict) and any(isinstance(item, dict) for item in inner):
        for key, item in value.items():
            yield from lines(item, f"{path}/{key}")
    else:
        yield f"{path[1:]} {json.dumps(value)}"


def test_the_package_schema_is_as_it_was_reviewed() -> None:
    """What SDKs and the registry are made from: every token, type, text and requirement. What the
    component takes are the settings, reviewed in docs/stack.schema.json."""
    schema = json.loads(package_schema())
    del schema["resources"][VLLM_ENDPOINT]["inputProperties"]
    sections = VLLM_ENDPOINT.removesuffix("VllmEndpoint")
    types = schema["types"].items()
    schema["types"] = {token: type_ for token, type_ in types if not token.startswith(sections)}

    assert schema.pop("version") == __version__
    assert_golden("package-schema.txt", "\n".join(lines(schema)) + "\n")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"),
        (0, "0s"),
        (0.4, "0s"),
        (1, "1s"),
        (599, "9m59s"),
        (599.6, "10m"),
        (600, "10m"),
        (601, "10m"),
        (659, "10m"),
        (660, "11m"),
        (7500, "2h5m"),
    ],
)
def test_spans_show_seconds_only_while_they_matter(seconds: float, text: str) -> None:
    """From ten minutes on, whole minutes are enough; a span is never negative."""
    assert elapsed(seconds) == text


@pytest.mark.parametrize(
    ("age", "jitter", "pause"),
    [(0, 0.5, 0.5), (5, 0.5, 0.5), (10, 0.5, 1), (300, 0.5, 30), (9999, 0.5, 30), (100, 0, 8),
     (100, 1, 12)],
)  # fmt: skip
def test_pauses_grow_with_the_wait(age: float, jitter: float, pause: float) -> None:
    """A tenth of what it has lasted, at least half a second and at most half a minute, spread by
    a fifth to either side."""
    assert pause_for(age, jitter) == pytest.approx(pause)


@pytest.mark.parametrize("text", ["2026-12-01T08:00:00Z", "2026-12-01t10:00:00+02:00"])
def test_moments_are_the_same_everywhere(text: str) -> None:
    """A time with its zone is one point in time, however it is written."""
    assert moment(text).isoformat() == "2026-12-01T08:00:00+00:00"


@pytest.mark.parametrize(
    "text",
    [
        "2026-12-01 08:00:00Z",
        "2026-12-01T08:00:00",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        "soon",
        "",
    ],
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    """Without its zone, in another form, or in no year of UTC, it would be another time elsewhere,
    or none."""
    with pytest.raises(ValueError, match=r"^not a time such as 2026-12-01T08:00:00Z \(RFC 3339\)$"):
        moment(text)


@pytest.mark.parametrize(
    ("embedded", "environ", "message", "hint"),
    [
        (
            True,
            {},
            "this stack runs on the embedded cloud, but the API endpoints point to Google",
            'Run: eval "$(tpuflex emulator env)"',
        ),
        (
            False,
            LOOPBACK,
            "this stack runs on Google Cloud, but the API endpoints point to this machine",
            "Unset the CLOUDSDK_API_ENDPOINT_OVERRIDES_* variables; for the embedded cloud set the"
            " provider's embedded to true.",
        ),
    ],
)
def test_the_wrong_cloud_is_refused(
    embedded: bool, environ: dict[str, str], message: str, hint: str
) -> None:
    """A stack for one cloud never talks to the other."""
    with pytest.raises(AccessError) as refused:
        endpoints(Configuration(embedded=embedded), environ)

    assert (refused.value.message, str(refused.value.hint)) == (message, hint)


@pytest.mark.parametrize(
    ("embedded", "environ"), [(None, {}), (None, LOOPBACK), (True, LOOPBACK), (False, {})]
)
def test_the_right_cloud_is_taken(embedded: bool | None, environ: dict[str, str]) -> None:
    """Where nothing is wanted, the environment decides."""
    found = endpoints(Configuration(embedded=embedded), environ)

    assert found.tpu == ("http://127.0.0.1:1" if environ else "https://tpu.googleapis.com")


@pytest.mark.parametrize(
    ("project", "embedded", "read"),
    [
        ("p", True, Configuration("p", embedded=True)),
        ("", "true", Configuration(None, embedded=True)),
        (None, "false", Configuration(None, embedded=False)),
        (7, 1, Configuration(None, embedded=None)),
        (UNKNOWN, None, Configuration(None, embedded=None)),
    ],
)
def test_configuration_comes_as_text_or_as_values(
    project: Value, embedded: Value, read: Configuration
) -> None:
    """Unknown values, and values of another type, are ignored."""
    assert configuration({"project": project, "embedded": embedded}) == read


def unready(state: str | None, **more: Any) -> UnreadyError:
    """A request in ``state``, or one that cannot be found."""
    found = None if state is None else Found.model_validate(queued(state, **more))
    return UnreadyError("no", snapshot=Snapshot(NAMED, found))


STOCK_OUT = {"error": {"code": 8, "message": "There is no more capacity in the zone"}}


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (unready("FAILED", failedData=STOCK_OUT), "stock-out"),
        (unready("SUSPENDED"), "SUSPENDED"),
        (unready(None), "cannot be found"),
        (AlreadyExistsError("x"), "name taken"),
        (QuotaError("Limit 64 in zone"), "quota 0 of 64"),
        (AccessError("x"), "permission"),
        (ConflictError("x"), "not deletable"),
        (ApiError("x", status=503), "no answer (status 503)"),
        (ApiError("v6e-4 is not supported", status=400), "unsupported"),
        (missing(), "unsupported"),
    ],
)
def test_why_a_zone_is_out(error: TpuflexError, words: str) -> None:
    """Each reason in a few words, as the line about all zones has it."""
    attempt = ZoneAttempt.in_zone(args(zones=["us-east5-a", "us-east5-b"]), "us-east5-b")
    attempt.give_up(error)

    assert reason(error) == words
    assert attempt.summary() == f"us-east5-b {words}"
    assert attempt.exists is isinstance(error, UnreadyError)
    assert not attempt.not_asked
    assert attempt.args.zones == ("us-east5-b",)


def test_an_explicit_provider_says_what_it_was_told() -> None:
    """Project and cloud reach the engine, and the version by which it finds the plugin."""

    def program() -> None:
        told = Provider("mine", project="p", embedded=True)
        QueuedResource(
            "slice",
            zones=["us-east5-a"],
            runtime_version="v",
            service_account="a@b",
            project="p",
            queued_resource_id_prefix="slice",
            opts=pulumi.ResourceOptions(provider=told, protect=True),
        )

    plan = run_program(program)

    assert plan.inputs["pulumi:providers:tpuflex mine"] == {"project": "p", "embedded": True}
    assert plan.requests["pulumi:providers:tpuflex mine"].version == __version__
    slice_ = plan.requests["tpuflex:tpu:QueuedResource slice"]
    assert slice_.version == __version__
    assert slice_.protect
    assert "mine" in slice_.provider
