"""``make prove-on-google``: from nothing to a served model and back, with evidence.

However it ends (an error, Ctrl-C, a closed terminal), what was made is taken down; if this machine
goes away, Google ends the run at its longest duration, which the cap has decided.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TextIO

from proof import claims, timeline
from proof.bundle import Bundle
from proof.commands import Commands, StepError
from proof.contract import run_cases
from proof.options import ROOT, Options, options
from proof.scrub import Scrubber
from proof.steps import Steps
from tpuflex.google.endpoints import REHEARSAL_VARIABLE, rehearses
from tpuflex.google.recording import VARIABLE

_TEARDOWN_S = 3600.0
_ATTEMPTS = 3
_REHEARSAL = (
    f"{REHEARSAL_VARIABLE} is set: nothing would reach Google, and nothing be proved. Open a new "
    "shell, or rehearse this: --cloud embedded."
)


class Stopped(BaseException):
    """The run was ended from outside."""


def main(arguments: Sequence[str], environ: Mapping[str, str], terminal: TextIO) -> int:
    """Run; return the exit code: 0 if every step did what it has to."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    # Not below the checkout, whose project would be taken for the run's own.
    given = options(arguments, Path.home() / "tpuflex-proof" / stamp)
    return prove(given, environ, terminal)


def prove(given: Options, environ: Mapping[str, str], terminal: TextIO) -> int:
    """Run what ``given`` says; return the exit code."""
    if given.cloud == "google" and rehearses(environ):
        print(_REHEARSAL, file=terminal)
        return 2
    bundle = Bundle(given.directory)
    (given.directory / "project").mkdir(mode=0o700)
    recorded = {**environ, VARIABLE: str(bundle.wire)}
    commands = Commands(given, bundle, recorded, terminal)
    problem = ""
    with _signals():
        try:
            if given.tier == "free":
                run_cases(given, bundle, recorded, commands.say)
            else:
                _run(Steps(given, commands))
        except StepError as error:
            problem = str(error)
        except Stopped as stopped:
            problem = f"stopped by {stopped}"
    return _report(given, bundle, commands, problem)


def _run(steps: Steps) -> None:
    """All steps; what was begun is taken down whatever happens."""
    steps.prepare()
    try:
        steps.bring_up()
        steps.ask()
        steps.look_at_host()
        steps.reboot()
    finally:
        _tear_down(steps)


def _tear_down(steps: Steps) -> None:
    """Take the stack down, again if it fails, and look whether anything is left.

    Raises:
        StepError: something is left.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            steps.take_down(within=_TEARDOWN_S)
        except StepError as error:
            steps.say(f"{error} (attempt {attempt} of {_ATTEMPTS})")
            steps.mend()
        else:
            return
    raise StepError(
        "IT IS NOT TAKEN DOWN, and may be billed until its run ends. Type: "
        f"cd {steps.project} && tpuflex down --stack {steps.stack}"
    )


def _report(given: Options, bundle: Bundle, commands: Commands, problem: str) -> int:
    entries, say = bundle.entries(), commands.say
    bundle.write("operations.json", timeline.operations(entries))
    bundle.write("states.json", timeline.states(entries))
    shown = claims.judged(bundle.raw)
    bundle.write("claims.json", {"shown": sorted(shown), "problem": problem})
    archive = bundle.scrubbed(Scrubber(_private(given, commands.home)))
    if given.cloud == "google":
        claims.record(shown, evidence=archive.parent.name)
    say("")
    for claim in claims.JUDGEMENTS:
        say(f"  {'shown' if claim in shown else 'not shown':10} {claim}")
    if given.cloud == "embedded":
        say("A rehearsal: nothing of this is proved of Google, and docs/proved.md stays as it is.")
    say(f"Evidence, without names and addresses: {archive}")
    say(f"Not done: {problem}" if problem else "Every step did what it has to.")
    return 1 if problem else 0


def _private(given: Options, state: Path) -> dict[str, str]:
    """What is private in this run, by the word that takes its place."""
    return {
        "STATE": str(state),
        "PROJECT": given.project,
        "USER": os.environ.get("USER", ""),
        "HOME": str(Path.home()),
        "DIRECTORY": str(given.directory),
        "CHECKOUT": str(ROOT),
    }


@contextmanager
def _signals() -> Iterator[None]:
    """Let signals that would end this process take the stack down first; the first one counts."""

    def stop(number: int, _frame: FrameType | None) -> None:
        for other in caught:
            signal.signal(other, signal.SIG_IGN)
        raise Stopped(signal.Signals(number).name)

    caught = {number: signal.getsignal(number) for number in _CAUGHT}
    for number in caught:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in caught.items():
            signal.signal(number, handler)


_CAUGHT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ, sys.stderr))
