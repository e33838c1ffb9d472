"""The mutation score: the source that mutmut is given, and how verdicts are counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.mutation.report import Module, Setting, interval, page, table
from tests.mutation.results import shown, survivors, verdicts
from tests.mutation.run import MUTATED, ROOT, sampled
from tests.mutation.undecorated import original_name, undecorated

SOURCE = '''
import functools

def twice(method):
    def call(self):
        return method(self) * 2
    return call

class Thing:
    size = 3

    @property
    def half(self) -> float:
        """Its half."""
        return self.size / 2

    @twice
    def much(
        self,
    ) -> int:
        return self.size

    @staticmethod
    def plain() -> int:
        return 1

    @functools.cache
    @twice
    def both(self) -> int:
        return 5

@functools.cache
def once(x: int) -> list[int]:
    return [x]
'''


def loaded(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(source, names)  # noqa: S102 - the text above
    return names


def test_the_rewritten_source_means_the_same() -> None:
    """Properties, wrappers and caches work as before; only their functions are now visible to
    mutmut, on the same lines."""
    names = loaded(undecorated(SOURCE))
    thing = names["Thing"]()

    assert (thing.half, thing.much(), thing.plain(), thing.both()) == (1.5, 6, 1, 10)
    assert names["Thing"].half.__doc__ == "Its half."
    assert names["once"](1) is names["once"](1)
    assert names["Thing"]._much_plain(thing) == 3
    assert len(undecorated(SOURCE).splitlines()) == len(SOURCE.splitlines())


@pytest.mark.parametrize(
    "path", [path for part in MUTATED for path in sorted((ROOT / "infra" / part).glob("*.py"))]
)
def test_every_module_can_be_shown(path: Path) -> None:
    """The source written for mutmut compiles and has as many lines as the module."""
    text = undecorated(path.read_text())

    compile(text, str(path), "exec")
    assert len(text.splitlines()) == len(path.read_text().splitlines())


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("x_due", "due"),
        ("x__top", "_top"),
        ("xǁWatchǁpoll", "Watch.poll"),
        ("xǁWatchǁ_age_plain", "Watch.age"),
        ("xǁRaceǁ__init__", "Race.__init__"),
        ("x___annotations_plain", "_annotations"),
    ],
)
def test_names_are_those_of_the_source(mangled: str, name: str) -> None:
    """mutmut's names, and those of rewritten functions, are shown as in the source."""
    assert shown(mangled) == name
    assert original_name("_x_plain") == "x"
    assert original_name("explain") == "explain"


def test_each_verdict_counts_once() -> None:
    """Killed by a test or by pytest, timed out or crashed, survived, never reached; for a sample,
    only the mutants that were drawn."""
    codes = {"a": 1, "b": 3, "c": 0, "d": 33, "e": 36, "f": -11, "g": None}

    module = Module.of("m", codes)

    assert module == Module("m", total=7, killed=2, timeouts=2, survived=1, untested=1)
    assert (module.noticed, module.measured) == (4, 6)
    assert Module.of("m", codes, frozenset("ac")).measured == 2
    assert table([module, module])[-1] == "| **all** | 14 | 12 | 4 | 4 | 2 | 2 | 66.7% |"


def test_the_interval_is_wilsons() -> None:
    """Matches values from the literature; a share of 0 or 1 has an interval, too."""
    assert interval(85, 100) == pytest.approx((0.7672, 0.9069), abs=1e-3)
    assert interval(10, 10)[0] == pytest.approx(0.7225, abs=1e-3)
    assert interval(0, 0) == (0.0, 1.0)


def test_the_page_tells_how_it_was_measured() -> None:
    """Numerator and denominator and, for a sample, its seed and interval."""
    modules = [Module("m", total=200, killed=80, timeouts=5, survived=10, untested=5)]

    part = page(modules, Setting(sample=0.5, seed=7, command="make mutation"))
    cut = page(modules, Setting(sample=1, seed=7, command="make mutation"))
    every = [Module("m", total=100, killed=80, timeouts=5, survived=10, untested=5)]
    whole = page(every, Setting(sample=1, seed=7, command="make mutation"))

    assert "**85/100 noticed: 85.0%.** 100 of 200 mutants, drawn by seed 7" in part
    assert "76.7% to 90.7%" in part
    assert "Only 100 of 200 mutants: the run was cut short." in cut
    assert "All 100 mutants." in whole


def test_a_sample_is_drawn_by_module() -> None:
    """The same seed draws the same mutants, whatever other modules have; no module is left out."""
    found: dict[str, dict[str, int | None]] = {
        "a": {f"a{number}": None for number in range(30)},
        "b": {"b0": 1},
    }

    drawn = sampled(found, 0.1, 1, [])

    assert drawn == sampled(found, 0.1, 1, [])
    assert len(drawn) == 4
    assert drawn[:3] == sampled({"a": found["a"]}, 0.1, 1, [])
    assert sampled(found, 0.1, 1, ["b"]) == ["b0"]
    assert drawn != sampled(found, 0.1, 2, [])


def test_survivors_are_shown_with_their_change(tmp_path: Path) -> None:
    """The name, whether a test reaches it at all, and the line before and after."""
    folder = tmp_path / "mutants/src/tpuflex/provider"
    folder.mkdir(parents=True)
    (folder / "patch.py").write_text(
        "def x_f__mutmut_orig(a):\n    return a + 1\n"
        "def x_f__mutmut_1(a):\n    return a - 1\n"
        "def x_f__mutmut_2(a):\n    return a + 2\n"
    )
    codes = {"tpuflex.provider.patch.x_f__mutmut_1": 1, "tpuflex.provider.patch.x_f__mutmut_2": 33}
    (folder / "patch.py.meta").write_text(json.dumps({"exit_code_by_key": codes}))

    assert verdicts(tmp_path) == {"patch": codes}
    assert list(survivors(tmp_path)) == [
        "patch.f 2 (no test reaches it)",
        "    -    return a + 1",
        "    +    return a + 2",
    ]
