"""S17: files of a checkout that is not one's own are read within bounds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from textwrap import indent

import pytest

from tpuflex.errors import SettingsError
from tpuflex.project import open_project
from tpuflex.settings.load import load_stack_file

LEVELS = "abcdefghijkl"
#: Ten of ten of ten …: 600 bytes, a million million values.
BOMB = "a: &a [x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{below}'] * 10)}]\n" for below, name in pairwise(LEVELS)
)
#: The same with merge keys, which the loader copies into each other.
MERGES = "a: &a {x: 1}\n" + "".join(
    f"{name}: &{name} {{<<: [{', '.join([f'*{below}'] * 10)}]}}\n"
    for below, name in pairwise(LEVELS)
)
#: Each list holds the one before twice, and all hold the last.
CYCLE = "a: &a [*a, *a]\n"
DEEP = "a: " + "[" * 50_000
LONG = "a: 1\n" + "# x\n" * 100_000
SEXAGESIMAL = "a: 1" + ":1" * 5_000 + ".5\n"


def read_stack(root: Path, text: str) -> object:
    (root / "Pulumi.dev.yaml").write_text(f"config:\n{indent(text, '  ')}")
    return load_stack_file(root / "Pulumi.dev.yaml")


def read_project(root: Path, text: str) -> object:
    (root / "Pulumi.yaml").write_text(text)
    return open_project(root, {})


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (BOMB, "stands for more than 20000 values"),
        (MERGES, "stands for more than 20000 values"),
        (CYCLE, "contains itself"),
        (DEEP, "nested too deeply"),
        (LONG, "is longer than"),
        (SEXAGESIMAL, "cannot be read"),
    ],
    ids=["aliases", "merges", "cycle", "deep", "long", "sexagesimal"],
)
@pytest.mark.parametrize("read", [read_stack, read_project])
def test_a_bomb_is_refused_at_once(
    tmp_path: Path, read: Callable[[Path, str], object], text: str, problem: str
) -> None:
    """S17: aliases are counted before anything is built, and length and depth are bounded, in
    stack files and in Pulumi.yaml; the error says what is wrong with the file."""
    with pytest.raises(SettingsError) as refused:
        read(tmp_path, text)

    assert problem in refused.value.message


def test_aliases_as_people_use_them(tmp_path: Path) -> None:
    """S17: an anchor that is named a few times is still read."""
    root = Path(__file__).parents[2]
    text = (root / "stacks" / "Pulumi.dev.yaml").read_text()
    place = tmp_path / "Pulumi.dev.yaml"
    place.write_text(
        f"{text}  other:labels: &labels {{team: x}}\n  other:more: [*labels, *labels]\n"
    )

    assert load_stack_file(place).settings.cloud == "embedded"
