"""`tpuflex cost` shows a stack's costs in whole, and flags a throughput that cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.typing import TypeIn
from tests.goldens.golden_texts import assert_golden

ROOT = Path(__file__).parents[2]
STACK = "gemma-4-31b-v6e-4"


@pytest.fixture(autouse=True)
def stack(project: Path) -> Path:
    """This checkout's stack of the 31B model."""
    file = project / "stacks" / f"Pulumi.{STACK}.yaml"
    file.write_bytes((ROOT / "stacks" / file.name).read_bytes())
    return file


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("stack", ()),
        ("assumed", ("--tokens-per-second", "5000", "--busy", "40")),
        ("measured", ("--tokens-per-second", "5000", "--basis", "measured on 2026-11-20")),
        ("impossible", ("--tokens-per-second", "463345")),
    ],
)
def test_as_text(type_in: TypeIn, name: str, words: tuple[str, ...]) -> None:
    """The whole output, as people see it."""
    typed = type_in("cost", "--stack", STACK, *words)

    assert (typed.code, typed.err) == (0, "")
    assert_golden(f"cost/{name}.txt", typed.out)


def test_as_json(type_in: TypeIn) -> None:
    """The whole output, as scripts see it, with a throughput and what is said of it."""
    words = ("--json", "cost", "--stack", STACK, "--tokens-per-second", "463345")

    assert_golden("cost/impossible.json", json.dumps(type_in(*words).document, indent=1) + "\n")


def test_renewal(type_in: TypeIn, stack: Path) -> None:
    """A stack that renews its runs pays for the time in which two slices exist."""
    text = stack.read_text()
    stack.write_text(
        text.replace("max_run_duration: 4h", "max_run_duration: 4h\n    renew_before: 1h")
    )
    cost = type_in("--json", "cost", "--stack", STACK).document["cost"]

    assert cost["per_day"]["value"] == 129.6
    assert cost["per_day_renewed"]["value"] == 172.8


def test_the_embedded_cloud_is_free(type_in: TypeIn) -> None:
    """Nothing is bought for a stack on this machine."""
    assert type_in("cost").out == "Stack dev is free: nothing leaves this machine.\n"
    assert type_in("--json", "cost").document["free"] is True


@pytest.mark.parametrize(
    "words",
    [
        ("--tokens-per-second", "0"),
        ("--tokens-per-second", "1", "--busy", "101"),
        ("--busy", "50"),
        ("--basis", "measured"),
    ],
)
def test_refusals(type_in: TypeIn, words: tuple[str, ...]) -> None:
    """A rate of nothing, more than all of the time, and what belongs to a rate without one, are
    refused."""
    assert type_in("cost", "--stack", STACK, *words).code == 2
