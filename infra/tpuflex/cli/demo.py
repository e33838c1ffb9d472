"""`tpuflex demo`: a tour of the commands on the embedded cloud, typed as a user would."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from pulumi_plugin.printable import printable
from tpuflex.cli.examples import ExampleCommand
from tpuflex.errors import IncompleteTeardownError, TpuflexError
from tpuflex.project import HOME_VARIABLE, home, project_root

#: Grants the demo's slice after 2 seconds, whatever rule an earlier experiment left behind.
GRANTED = '{"grant_after_s": 2}'
QUESTION = "In one sentence, what is the capital of France?"


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
    """Bring up the dev stack, ask it a question, take it down, and show that nothing is left.

    Runs on the embedded cloud: no cloud account, nothing leaves this machine. The first run
    installs the engine and vLLM under .tpuflex/.
    """
    began = time.perf_counter()
    tour = (
        ("engine", "engine", "--install"),
        ("vLLM image", "emulator", "image"),
        ("embedded cloud", "emulator", "start", "--capacity", GRANTED),
        ("up", "up", "--yes"),
        ("ask", "ask", QUESTION),
        ("down", "down", "--yes"),
        ("stop", "emulator", "stop"),
    )
    steps = [run_step(title, arguments) for title, *arguments in tour]
    left = list(processes_left(home(project_root(Path.cwd()), os.environ)))
    show(steps, time.perf_counter() - began, left)
    if left:
        raise IncompleteTeardownError("processes are left: " + ", ".join(left))


def run_step(title: str, arguments: list[str]) -> Step:
    """Run one command as a user would, with its output going straight to the terminal.

    Raises:
        DemoError: the command's exit code was not 0.
    """
    shown = shlex.join(arguments)
    click.secho(f"\n$ tpuflex --stack dev {shown}", bold=True)
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tpuflex", "--stack", "dev", *arguments], check=False
    )
    if done.returncode != 0:
        raise DemoError(
            f"`tpuflex {shown}` ended with exit code {done.returncode}",
            hint="Its own message is above. `tpuflex down --yes` removes what was created.",
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
