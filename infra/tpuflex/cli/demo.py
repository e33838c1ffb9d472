"""`tpuflex demo`: a tour of the commands on the embedded cloud, typed as a user would."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click

from pulumi_plugin.printable import printable
from tpuflex.advice import Advice
from tpuflex.cli.examples import ExampleCommand
from tpuflex.errors import IncompleteTeardownError, TpuflexError
from tpuflex.project import HOME_VARIABLE, open_project
from tpuflex.settings.load import load_stack_file

#: Grants and provisions the demo's slice in half a second each, whatever rule an earlier experiment
#: left behind: long enough for both states to be seen.
GRANTED = '{"grant_after_s": 0.5, "provisioning_s": 0.5}'
QUESTION = "In one sentence, what is the capital of France?"
#: The stack of this project whose weights are in a library, so that a second demo pushes none;
#: projects that `tpuflex init` made have the other one.
WITH_LIBRARY, OWN_BUCKET = "demo", "dev"

#: What is prepared side by side: the engine, which is compiled while the rest is downloaded, and
#: the cloud once it is there; and the model to be served with what serves it.
PREPARED = (
    (
        ("engine", "engine", "--install"),
        ("embedded cloud", "emulator", "start", "--capacity", GRANTED),
    ),
    (("vLLM image", "emulator", "image"), ("model", "weights", "hash")),
)
PUSHED = ("weights", "weights", "push", "--yes")
TOUR = (
    ("up", "up", "--yes"),
    ("ask", "ask", QUESTION),
    ("down", "down", "--yes"),
    ("stop", "emulator", "stop"),
)


@dataclass(frozen=True, slots=True)
class Step:
    """One command of the tour and how long it took, in seconds."""

    title: str
    seconds: float


class DemoError(TpuflexError):
    """A command of the tour failed; its own message stands above."""


@click.command(
    cls=ExampleCommand,
    examples=("tpuflex demo",),
)
def demo() -> None:
    """Bring up a small stack, ask it a question, take it down, and show that nothing is left.

    Runs on the embedded cloud: no cloud account, nothing leaves this machine. The first run
    installs the engine and vLLM under .tpuflex/. The stack is `demo`, whose weights stay in a
    library for the next run; or `dev`, where there is none.
    """
    began = time.perf_counter()
    project = open_project(Path.cwd(), os.environ)
    shared = WITH_LIBRARY in project.stack_names()
    stack = WITH_LIBRARY if shared else OWN_BUCKET
    require_embedded(project.stack_file(stack), stack)
    run = partial(run_step, stack)
    with ThreadPoolExecutor() as beside:
        chains = beside.map(lambda chain: [run(step) for step in chain], PREPARED)
        steps = [step for chain in chains for step in chain]
    steps += map(run, (PUSHED, *TOUR) if shared else TOUR)
    left = list(processes_left(project.home))
    show(steps, time.perf_counter() - began, left)
    if left:
        raise IncompleteTeardownError("processes are left: " + ", ".join(left))


def require_embedded(file: Path, stack: str) -> None:
    """Refuse a stack of the user's own that runs on Google: the tour asks for chips, and destroys
    what there is, without a question.

    Raises:
        DemoError: the stack is not on the embedded cloud.
    """
    if load_stack_file(file, deploying=False).settings.cloud != "embedded":
        raise DemoError(
            f"The tour runs stack {stack}, and here that is one for Google Cloud ({file}): it would"
            " ask for chips, and then destroy it, without a question. Nothing was done.",
            hint="Run it in another project: tpuflex init DIRECTORY --cloud embedded",
        )


def run_step(stack: str, named: tuple[str, ...]) -> Step:
    """Run one command of a stack, which follows its title, as a user would: what it prints goes
    straight to the terminal.

    Raises:
        DemoError: the command's exit code was not 0.
    """
    title, *arguments = named
    shown = shlex.join(arguments)
    click.secho(f"\n$ tpuflex --stack {stack} {shown}", bold=True)
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tpuflex", "--stack", stack, *arguments], check=False
    )
    if done.returncode != 0:
        raise DemoError(
            f"`tpuflex {shown}` ended with exit code {done.returncode}",
            hint=Advice(
                "Its own message is above. `{down} --yes` removes what was created, and"
                " `tpuflex emulator stop` ends the embedded cloud."
            ),
        )
    return Step(title, time.perf_counter() - began)


def processes_left(state: Path) -> Iterator[str]:
    """Names of running processes that work in the state directory ``state``.

    Other projects may start the engine from there, so its path alone proves nothing.
    """
    import psutil

    for process in psutil.process_iter(["pid", "name", "cmdline", "cwd", "environ"]):
        info = process.info
        if info["pid"] == os.getpid():
            continue
        text = "\0".join([*(info["cmdline"] or ()), info["cwd"] or ""])
        ours = (info["environ"] or {}).get(HOME_VARIABLE) == str(state)
        if ours or str(state / "emulator") in text:
            yield f"{printable(info['name'])} ({info['pid']})"


def show(steps: list[Step], total: float, left: list[str]) -> None:
    """Print how the time was spent."""
    click.secho("\nWhere the time went", bold=True)
    longest = max(step.seconds for step in steps)
    for step in steps:
        bar = "█" * round(40 * step.seconds / longest)
        click.echo(f"  {step.title:16}{step.seconds:7.1f} s  {bar}")
    click.echo(f"  {'total':16}{total:7.1f} s")
    click.echo(f"\nProcesses left: {', '.join(left) or 'none'}")
