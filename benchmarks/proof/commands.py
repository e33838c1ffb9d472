"""tpuflex as its user types it, each command with what it said and how long it took."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from proof.bundle import Bundle
from proof.options import ROOT, Options
from pulumi_plugin.printable import printable


class StepError(Exception):
    """A step did not do what it has to do; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Done:
    """A command that has ended.

    Attributes:
        code: exit code; -1 if it was ended because it took too long.
        out: standard output.
        err: standard error.
        seconds: how long it took.
    """

    code: int
    out: str
    err: str
    seconds: float

    @property
    def document(self) -> dict[str, Any]:
        """The JSON document on standard output; empty if it is none."""
        try:
            document = json.loads(self.out)
        except ValueError:
            return {}
        return document if isinstance(document, dict) else {"items": document}


class Commands:
    """Runs commands in the run's project, and adds them to its evidence.

    Args:
        options: the run.
        bundle: its evidence.
        environ: the environment of every command.
        terminal: where progress is shown.
    """

    def __init__(
        self, options: Options, bundle: Bundle, environ: Mapping[str, str], terminal: TextIO
    ) -> None:
        self._bundle = bundle
        self._environ = dict(environ)
        self._terminal = terminal
        self.project = options.directory / "project"
        self.home = Path(environ.get("TPUFLEX_HOME", ROOT / ".tpuflex"))
        # The engine and the state are this checkout's, so that they outlive the run's directory.
        self._environ["TPUFLEX_HOME"] = str(self.home)

    def say(self, text: str) -> None:
        """Show a line."""
        print(text, file=self._terminal, flush=True)

    def tpuflex(
        self,
        name: str,
        *words: str,
        within: float,
        accepted: Sequence[int] = (0,),
    ) -> Done:
        """Run `tpuflex WORDS`, show what it says of its progress, and keep all of it.

        Args:
            name: the step's name in the evidence.
            words: the words of the command.
            within: seconds that it may take.
            accepted: exit codes that are no failure; all, if empty.

        Raises:
            StepError: it ended with another exit code.
        """
        self.say(f"\n$ tpuflex {' '.join(words)}")
        done = self._run(_tpuflex(words), within)
        self._keep(name, ("tpuflex", *words), done)
        if accepted and done.code not in accepted:
            raise StepError(f"tpuflex {words[0]} ended with exit code {done.code}")
        return done

    def run(self, name: str, command: Sequence[str], *, within: float) -> Done:
        """Run another command, and keep what it says."""
        self.say(f"\n$ {' '.join(command[:1])} … ({name})")
        done = self._run(command, within)
        self._keep(name, command, done)
        return done

    def hold(self, *words: str) -> subprocess.Popen[bytes]:
        """Begin `tpuflex WORDS`, which goes on until it is ended."""
        self.say(f"\n$ tpuflex {' '.join(words)} &")
        return subprocess.Popen(
            _tpuflex(words), cwd=self.project, env=self._environ, stdin=subprocess.DEVNULL
        )

    def _keep(self, name: str, command: Sequence[str], done: Done) -> None:
        """Add to the evidence what a command did."""
        record = {
            "command": list(command),
            "exit_code": done.code,
            "seconds": round(done.seconds, 1),
            "out": done.document or done.out,
            "err": done.err,
        }
        self._bundle.step(name, record)

    def _run(self, command: Sequence[str], within: float) -> Done:
        began = time.monotonic()
        said: list[str] = []
        with subprocess.Popen(
            command,
            cwd=self.project,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            # The terminal's Ctrl-C comes to us alone: twice would mean "at once" to tpuflex.
            start_new_session=True,
        ) as process:
            reader = threading.Thread(target=self._show, args=(process.stderr, said), daemon=True)
            reader.start()
            timer = threading.Timer(within, process.terminate)
            timer.start()
            try:
                out = process.stdout.read() if process.stdout is not None else ""
                code = process.wait()
            except BaseException:
                # Once: it stops after the calls in flight, and leaves its state in order.
                process.terminate()
                process.wait()
                raise
            finally:
                expired = not timer.is_alive()
                timer.cancel()
                reader.join()
        return Done(-1 if expired else code, out, "".join(said), time.monotonic() - began)

    def _show(self, stream: TextIO, said: list[str]) -> None:
        for line in stream:
            said.append(line)
            self.say(f"  {printable(line.rstrip())}")


def _tpuflex(words: Sequence[str]) -> list[str]:
    """The command line of `tpuflex WORDS` of this checkout."""
    return [sys.executable, "-P", "-m", "tpuflex", *words]
