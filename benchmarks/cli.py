"""How long `--help`, `status` and `preview` take, beside the nearest commands of other tools.

Run with ``.venv/bin/python benchmarks/cli.py [--runs 5] [--write]``; ``--write`` puts the table
into docs/speed.md. Every command is run once to warm up, then all of them in turn, so that a busy
machine slows all alike; the table has the medians, and the ratio to ours of the same kind.

    aim: fastest of all but a bare script

Ours works on the embedded cloud with hosts that run nothing; its endpoint is up. No other tool has
an account here: what one of them does without is said beside it.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from peers import DSTACK, PEERS, SKYPILOT, TPU_RUNNER, XPK, Peer, dstack_server, skypilot_server
from reliability.rig import StackRig
from startup import EMPTY_PREVIEW
from tpuflex import __version__

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "speed.md"
TPUFLEX = str(Path(sys.executable).parent / "tpuflex")
KINDS = ("--help", "status", "preview")


@dataclass(slots=True)
class Case:
    """A command that is measured.

    Attributes:
        kind: which of ours it is compared with.
        who: the tool.
        shown: the command, as it is typed.
        words: what is run.
        remark: what it does, as far as it is not the same.
        code: the exit code that it has to end with.
        wall: seconds that passed, of each run.
        cpu: seconds of the processors, of each run; without servers.
    """

    kind: str
    who: str
    shown: str
    words: list[str]
    environ: Mapping[str, str]
    directory: Path
    remark: str = ""
    code: int = 0
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def run(self, *, kept: bool = True) -> None:
        """Run it once.

        Raises:
            SystemExit: it ended otherwise than it has to.
        """
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            self.words,
            cwd=self.directory,
            env=dict(self.environ),
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode != self.code:
            sys.exit(f"{self.shown} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        if kept:
            self.wall.append(wall)
            self.cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def ours(rig: StackRig) -> Iterator[Case]:
    """Ours, and what cannot be done without: Python with click, the engine on an empty program."""
    environ = {**os.environ, **rig.environ()}
    bare = [sys.executable, "-P", "-c"]
    texts = {
        "--help": "",
        "status": "of an endpoint that is up, on the embedded cloud",
        "preview": "of the same stack: the plan, its policy and its cost",
    }
    for kind in KINDS:
        words = [TPUFLEX, *([kind] if kind == "--help" else [kind, "--stack", "dev"])]
        shown = f"tpuflex {kind}"
        yield Case(kind, f"tpuflex {__version__}", shown, words, environ, rig.home, texts[kind])
    python = f"Python {platform.python_version()}"
    click = [*bare, "import click"]
    yield Case(
        "--help", python, 'python -c "import click"', click, environ, rig.home, "a bare script"
    )
    engine = {**environ, "PATH": f"{rig.engine().path.parent}{os.pathsep}{environ['PATH']}"}
    remark = "a bare preview: a program without resources, by Pulumi's Automation API"
    empty = [*bare, EMPTY_PREVIEW]
    yield Case("preview", "Pulumi", "pulumi preview", empty, engine, rig.home, remark)


def _of(peer: Peer, kind: str, line: str, remark: str = "", code: int = 0) -> Case:
    words = [peer.path, *line.split()]
    who = f"{peer.name} {peer.version}"
    shown = f"{peer.program} {line}"
    return Case(kind, who, shown, words, peer.environ, peer.home, remark, code)


_CLUSTER = "--project=my-project-id --zone=us-east5-a"
THEIRS = (
    *((peer, "--help", "--help", "") for peer in PEERS),
    (XPK, "status", f"cluster list {_CLUSTER} --dry-run", "prints the gcloud command; asks nobody"),
    (DSTACK, "status", "ps", "its own server on this machine, which has no runs"),
    (SKYPILOT, "status", "status", "its own server on this machine, which has no clusters"),
    (
        XPK,
        "preview",
        f"cluster create {_CLUSTER} --cluster=x --tpu-type=v6e-1 --num-slices=1 --flex --dry-run",
        "prints the commands that it would run; asks nobody",
    ),
)
#: What was not measured, and why.
LEFT_OUT = (
    (
        TPU_RUNNER,
        "status",
        "reads Firestore of a Google Cloud project; without one it ends at once",
    ),
    (TPU_RUNNER, "preview", "has none"),
    (
        DSTACK,
        "preview",
        "`dstack apply` shows a plan only where its server has a back-end's account",
    ),
    (SKYPILOT, "preview", "`sky launch --dryrun` needs a cloud's account"),
)


def measure(runs: int) -> list[Case]:
    """All cases, measured."""
    for peer in PEERS:
        peer.install()
    with ExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory(prefix="tpuflex-bench-"))
        rig = stack.enter_context(StackRig(Path(home)))
        if rig.run("up").exit_code != 0:
            sys.exit(f"`up` failed:\n{rig.said[-1].stdout}{rig.said[-1].stderr}")
        stack.enter_context(dstack_server())
        stack.enter_context(skypilot_server())
        cases = [*ours(rig), *(_of(*row) for row in THEIRS)]
        for case in cases:
            case.run(kept=False)
        for _ in range(runs):
            for case in cases:
                case.run()
        rig.run("down")
    return cases


def table(cases: list[Case]) -> str:
    """The figures as Markdown, fastest first."""
    lines = [
        "| command | tool | seconds | to ours | of the processor | what it does here |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for kind in KINDS:
        chosen = sorted((each for each in cases if each.kind == kind), key=_median)
        mine = next(_median(each) for each in chosen if each.shown.startswith("tpuflex "))
        lines += [
            f"| `{each.shown}` | {each.who} | {_median(each):.2f} | {_median(each) / mine:.1f} "
            f"| {statistics.median(each.cpu):.2f} | {each.remark} |"
            for each in chosen
        ]
    return "\n".join(lines)


def _median(case: Case) -> float:
    return statistics.median(case.wall)


def page(cases: list[Case], runs: int) -> str:
    """The page of documentation."""
    day = datetime.now(UTC).date().isoformat()
    cores = os.cpu_count()
    left_out = "\n".join(f"- {peer.name}, {kind}: {reason}." for peer, kind, reason in LEFT_OUT)
    return f"""# How quick the command line is

Written by `.venv/bin/python benchmarks/cli.py --runs {runs} --write` on {day}; do not edit.

Runs of each command: {runs}, all commands in turn after one to warm up; the median counts. On
{platform.system()} with {cores} cores and Python {platform.python_version()}, among other work:
what holds is the ratio to ours. The others come from PyPI, each in an environment of its own, with
an empty home and without an account. The nearest command of each is compared, and none of them does
the same as ours. Seconds of the processor leave out servers and daemons, which run already: the
embedded cloud, and those of dstack and SkyPilot.

The aim is to be the quickest of all but a bare script. It does not hold of a command of ours that
stands below somebody else's.

{table(cases)}

Not measured:

{left_out}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="write docs/speed.md")
    options = parser.parse_args()
    cases = measure(options.runs)
    print(table(cases))
    if options.write:
        PAGE.write_text(page(cases, options.runs), "utf-8")


if __name__ == "__main__":
    main()
