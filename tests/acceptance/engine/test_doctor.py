"""`up` refuses what `tpuflex doctor` knows cannot succeed: with the real engine, before it makes
anything, and goes on once that is mended."""

from __future__ import annotations

import io

import pytest
import requests

from embedded_cloud.core.json_types import JsonObject
from tests.engine.embedded import Embedded
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.up.run import run_up
from tpuflex.errors import AccessError, InterruptedByUser, QuotaError, TpuflexError
from tpuflex.project import open_project
from tpuflex.stack.connection import Connection
from tpuflex.stack.stack import Stack

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180)]


def up(embedded: Embedded, *skipped: str) -> None:
    """`tpuflex up`, at a terminal where somebody does not agree."""
    project = open_project(embedded.root, embedded.environ)
    stack = Stack(project, "dev", project.stack_file("dev"), embedded.settings)
    run_up(
        Invocation(environ=embedded.environ),
        Connection(stack, embedded.environ),
        skipped_checks=skipped,
    )


def strict(embedded: Embedded, areas: JsonObject) -> None:
    answer = requests.post(
        f"{embedded.cloud.url}/_emulator/strictness",
        json=areas,
        headers={"Authorization": f"Bearer {embedded.cloud.token}"},
        timeout=30,
    )
    assert answer.ok, answer.text


def policy(value: bool | None) -> JsonObject:
    return {
        "organization_policies": {"constraints": {"compute.disableGuestAttributesAccess": value}}
    }


def test_up_refuses_before_it_makes_anything(
    embedded: Embedded, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A policy that hides the hosts, and a quota of none, end `up` before its question, with
    the doctor's words; nothing is made. Once mended, or skipped by name, the question comes."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    monkeypatch.setattr("click.confirm", lambda *_, **__: False)
    strict(embedded, policy(value=True))
    with pytest.raises(AccessError) as refused:
        up(embedded)
    assert "compute.disableGuestAttributesAccess: in force" in refused.value.message
    assert "disable-enforce compute.disableGuestAttributesAccess" in str(refused.value.hint)
    assert "--skip-check policies" in str(refused.value.hint)
    assert "Go ahead" not in capsys.readouterr().err

    strict(embedded, policy(value=None))
    embedded.set_capacity({"quota": {"*": 0}})
    with pytest.raises(QuotaError) as none_left:
        up(embedded)
    assert "quota in us-east5-a: 1 wanted; preemptible 0" in none_left.value.message

    with pytest.raises(TpuflexError) as asked:
        up(embedded, "quota")
    assert isinstance(asked.value, InterruptedByUser), asked.value
    assert embedded.remaining() == []
