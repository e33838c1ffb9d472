"""`tpuflex zones` as it is typed: for the stack, for a project, at a narrow terminal, as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embedded_cloud.server import EmbeddedCloud
from embedded_cloud.services.tpu.capacity import Capacity
from tests.cli.typing import TypeIn
from tests.embedded_cloud.api import Api, flex_start
from tpuflex.stack.connection import Connection


@pytest.fixture
def running(tmp_path: Path) -> Iterator[EmbeddedCloud]:
    """An embedded cloud."""
    with EmbeddedCloud(tmp_path / "emulator") as cloud:
        yield cloud


@pytest.fixture
def shell(running: EmbeddedCloud) -> dict[str, str]:
    """The variables of a shell that points at it, with a narrow terminal."""
    return {**running.environ(), "COLUMNS": "80"}


def test_a_project_without_a_stack(
    type_in: TypeIn, running: EmbeddedCloud, shell: dict[str, str]
) -> None:
    """A row per zone with offer, quota, price and what was last seen of Flex-start, within 80
    columns; what was requested in the project stands in place of the catalog's word."""
    quota: Any = {"us-east5-b": {"preemptible": 2, "on_demand": 8}}
    running.cloud.capacity.set(Capacity.from_json({"quota": quota, "never": True}))
    token = shell["GOOGLE_OAUTH_ACCESS_TOKEN"]
    Api(running.url, "tpuflex-dev", "us-east5-a", token=token).create(body=flex_start())

    typed = type_in("zones", "v6e-4", "--project", "tpuflex-dev", **shell)

    lines = typed.out.splitlines()
    assert (typed.code, max(map(len, lines)) <= 80) == (0, True)
    assert lines[0] == "v6e-4 (4 chips) in project tpuflex-dev, the embedded cloud"
    rows = {words[0]: words[1:] for line in lines if (words := line.split())}
    assert rows["us-east5-a"] == ["yes", "64", "64", "5.40", "[1]", "waiting", "here"]
    assert rows["us-east5-b"] == ["yes", "2", "<", "4", "8", "5.40", "[1]", "documented", "[2]"]
    assert "us-east5-a: q1 (v6e-4), requested 20" in typed.out
    assert "only a request tells" in " ".join(lines)


def test_a_refusal_of_every_zone_stands_once(
    type_in: TypeIn, running: EmbeddedCloud, shell: dict[str, str]
) -> None:
    """What may not be read is shown with all zones that it is about, not once for each."""
    token = shell["GOOGLE_OAUTH_ACCESS_TOKEN"]
    Api(running.url, token=token).strict(permissions={"missing": ["tpu.nodes.list"]})

    typed = type_in("zones", "v6e-4", "--project", "tpuflex-dev", **shell)

    assert typed.code == 0
    assert "  every zone: 403 PERMISSION_DENIED: Permission 'tpu.nodes.list'" in typed.out


def test_a_stack(
    type_in: TypeIn, monkeypatch: pytest.MonkeyPatch, cloud: Connection, shell: dict[str, str]
) -> None:
    """Accelerator, runtime version and project are the stack's, and its zones are marked."""
    monkeypatch.setattr("tpuflex.stack.connection.connect", lambda *_args, **_how: cloud)

    found = type_in("zones", "--json", **shell).document

    assert (found["accelerator"], found["project"]) == ("v6e-1", "tpuflex-dev")
    assert [each["zone"] for each in found["zones"] if each["chosen"]] == ["us-east5-a"]
    assert found["best"][0] == "us-east5-a"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--project", "tpuflex-dev"), 2, "write an accelerator type"),
        (("v6e-4", "--project", "My Project"), 2, "write the id of a project"),
        (("v6e-4", "--project", "tpuflex-dev", "--stack", "dev"), 2, "--project or --stack"),
        (("v6e-5", "--project", "tpuflex-dev"), 4, "Nearest: "),
        (("v6e-4", "--stack", "none"), 4, "none"),
    ],
)
def test_what_cannot_be_asked(
    type_in: TypeIn, shell: dict[str, str], words: tuple[str, ...], code: int, said: str
) -> None:
    """It is refused with what to write instead."""
    typed = type_in("zones", *words, **shell)

    assert (typed.code, typed.out) == (code, "")
    assert said in typed.err


def test_no_stack_and_no_project(type_in: TypeIn, project: Path) -> None:
    """The error names the way that needs no stack."""
    (project / "stacks" / "Pulumi.dev.yaml").unlink()

    typed = type_in("zones", "v6e-4")

    assert typed.code == 4
    assert "tpuflex zones v6e-4 --project my-project-id" in typed.err
