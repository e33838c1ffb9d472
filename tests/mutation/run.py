"""``make mutation``: makes thousands of small changes to the provider; counts what tests see.

``python -m tests.mutation.run [--sample 0.25] [--seed 1] [--modules race,waiting] [--workers 2]
[--resume] [--survivors]``. Writes docs/mutation.md if every module was measured. Exits with 1 if
the score is below the threshold.

mutmut works on a copy below `.tpuflex/mutation`, in which only the provider and the pure modules
that it builds on (`tpuflex/request`) are mutated. For each mutant, the tests that reach it run in a
separate process, forked from one that has already imported everything; only loopback sockets are
open to it.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.mutation.report import Module, Setting, page, table
from tests.mutation.results import survivors, verdicts
from tests.mutation.undecorated import undecorated

ROOT = Path(__file__).parents[2]
WORK = ROOT / ".tpuflex" / "mutation"
DOCUMENT = ROOT / "docs" / "mutation.md"
#: The packages that are mutated.
MUTATED = (Path("tpuflex", "provider"), Path("tpuflex", "request"))
#: The run fails below this share of noticed mutants.
THRESHOLD = 0.85
#: The module run first, so that mutmut records all mutants before any are chosen.
_FIRST = "tpuflex.provider.configuration"


def main(arguments: Sequence[str]) -> int:
    """Run; return the exit code."""
    given = _parser().parse_args(arguments)
    if not given.resume:
        shutil.rmtree(WORK, ignore_errors=True)
    lay_out(WORK)
    chosen = given.modules.split(",") if given.modules else []
    names: list[str] = []
    if given.survivors:
        names = _again(WORK)
    elif chosen or given.sample < 1:
        if not verdicts(WORK):
            _mutmut(given.workers, [f"{_FIRST}.*"])
        names = sampled(verdicts(WORK), given.sample, given.seed, chosen)
    _mutmut(given.workers, names)
    found = verdicts(WORK)
    drawn = frozenset(names) if given.sample < 1 else None
    modules = [Module.of(name, codes, drawn) for name, codes in sorted(found.items())]
    for line in survivors(WORK):
        print(line)
    print("\n".join(table(modules)))
    if not chosen:
        setting = Setting(sample=given.sample, seed=given.seed, command=_command(given))
        DOCUMENT.write_text(page(modules, setting))
    measured = sum(module.measured for module in modules)
    noticed = sum(module.noticed for module in modules)
    return 0 if measured and noticed / measured >= THRESHOLD else 1


def lay_out(work: Path) -> None:
    """Lay the project out as mutmut needs it: the package below `src`, its tests beside it. An
    unchanged file is left alone, because mutmut then keeps its verdicts."""
    source = ROOT / "infra"
    for path in sorted(source.rglob("*.py")):
        inside = path.relative_to(source)
        text = path.read_text()
        _write(work / "src" / inside, undecorated(text) if inside.parent in MUTATED else text)
    shutil.copytree(ROOT / "startup", work / "src/tpuflex/startup", dirs_exist_ok=True)
    for copy in (work / "src", work / "mutants" / "src"):
        for path in copy.rglob("*.py*"):
            module = path.relative_to(copy).with_name(path.name.partition(".")[0] + ".py")
            if not ((source / module).exists() or "__pycache__" in path.parts):
                path.unlink()  # its module is gone
    for tests in (work / "tests", work / "mutants/tests"):
        shutil.rmtree(tests, ignore_errors=True)
    shutil.copytree(ROOT / "tests", work / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(ROOT / "pyproject.toml", work / "pyproject.toml")


def sampled(
    found: dict[str, dict[str, int | None]], share: float, seed: int, modules: Sequence[str]
) -> list[str]:
    """Names of the mutants to run: the ``share`` of each of ``modules`` (of all, if empty), drawn
    by ``seed`` and the module's name, so that a change in one module affects no other's draw."""
    names: list[str] = []
    for module, results in found.items():
        if not modules or module in modules:
            draw = random.Random(f"{seed} {module}")  # noqa: S311 - repeatable on purpose
            names += draw.sample(sorted(results), math.ceil(len(results) * share))
    return names


def _again(work: Path) -> list[str]:
    """The mutants that the last run did not notice."""
    return [
        name
        for results in verdicts(work).values()
        for name, code in results.items()
        if code in (0, 33)
    ]


def _mutmut(workers: int, names: Iterable[str]) -> None:
    command = [str(Path(sys.executable).with_name("mutmut")), "run", "--max-children", str(workers)]
    environ = {**os.environ, "HYPOTHESIS_STORAGE_DIRECTORY": str(WORK / "hypothesis")}
    subprocess.run([*command, *names], cwd=WORK, env=environ, check=True)


def _write(path: Path, text: str) -> None:
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _command(given: argparse.Namespace) -> str:
    """The command that reproduces these figures from scratch."""
    if given.sample == 1:
        return "make mutation"
    return f'make mutation ARGS="--sample {given.sample} --seed {given.seed}"'


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tests.mutation.run", description=__doc__)
    parser.add_argument("--sample", type=float, default=1.0, help="share of each module's mutants")
    parser.add_argument("--seed", type=int, default=1, help="what the sample is drawn by")
    parser.add_argument("--modules", default="", help="only these modules, with commas")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--resume", action="store_true", help="keep the verdicts of the last run")
    parser.add_argument(
        "--survivors", action="store_true", help="with --resume: only what was not noticed"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
