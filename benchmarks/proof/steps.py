"""The steps of a run: each is a command that a user would type, and what it has to show."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from proof.budget import WANTED, affordable_run
from proof.commands import Commands, Done, StepError
from proof.options import ROOT, Options
from tpuflex.gcloud_commands import on_host
from tpuflex.planning.cost import run_cost
from tpuflex.scaffold.shipped_stacks import shipped_stack
from tpuflex.settings.load import load_stack_file

#: Ten questions; the first has one right answer.
QUESTIONS = (
    "In one sentence, what is the capital of France?",
    *(f"Name one thing that begins with the letter {letter}." for letter in "ABCDEFGHI"),
)
_HOST_FACTS = Path(__file__).with_name("host_facts.sh")
_READY_S = 3600.0
_PORT = 18471


class Steps:
    """One run on one stack.

    Args:
        given: what was asked for.
        commands: runs commands.
        poll_s: seconds between two looks at a host that boots.
    """

    def __init__(self, given: Options, commands: Commands, *, poll_s: float = 15.0) -> None:
        self._given = given
        self._commands = commands
        self._poll_s = poll_s
        self.stack = "proof"
        self.project = commands.project
        self.say = commands.say

    def prepare(self) -> None:
        """Make the project, see what it costs, and have the doctor look: nothing is created.

        Raises:
            StepError: the money is not enough, or something that is needed is missing.
        """
        self._init(WANTED)
        file = self.project / "stacks" / f"Pulumi.{self.stack}.yaml"
        per_hour = run_cost(load_stack_file(file).settings).per_hour
        try:
            affordable = affordable_run(self._given.cap_usd, per_hour)
        except ValueError as error:
            raise StepError(str(error)) from error
        if affordable < WANTED:
            file.unlink()
            self._init(affordable)
        minutes = affordable.seconds // 60 or 60
        self.say(f"Chips cost ${per_hour} per hour; Google ends the run after {minutes} minutes.")
        self._commands.tpuflex("doctor", "doctor", *self._stack, "--json", within=300)
        self._commands.tpuflex("preview", "preview", *self._stack, "--json", within=600)

    def bring_up(self) -> None:
        """Ask for the slice, and wait until it serves.

        Raises:
            StepError: it does not.
        """
        self._commands.tpuflex("up", "up", *self._stack, "--yes", "--json", within=8 * _READY_S)
        self._status("status")

    def ask(self) -> None:
        """Ask as a user does, and ten questions through one tunnel.

        Raises:
            StepError: a question has no answer, or the first one a wrong one.
        """
        answer = self._ask("ask", QUESTIONS[0])
        if "Paris" not in str(answer.get("answer", answer)):
            raise StepError("the model does not know the capital of France")
        with self._reached() as endpoint:
            for number, question in enumerate(QUESTIONS, 1):
                self._ask(f"request-{number:02}", question, *endpoint)

    def look_at_host(self) -> None:
        """Read versions, devices, container and log on the host; not on the embedded cloud, whose
        hosts are processes of this machine."""
        if self._given.cloud == "embedded":
            # A host that is a stand-in has none.
            self._commands.tpuflex("logs", "logs", *self._stack, within=120, accepted=())
            return
        facts = self._on_host("host", _HOST_FACTS.read_text("utf-8"), within=600)
        if facts.code != 0:
            raise StepError(f"the host cannot be looked at: gcloud ended with {facts.code}")

    def reboot(self) -> None:
        """Restart the host, and wait until it serves again, from the weights that it still has or
        fetches again.

        Raises:
            StepError: it does not.
        """
        before = self._ready_since()
        if self._given.cloud == "embedded":
            self._reboot_emulated()
        else:
            # The connection ends with the host: gcloud's exit code says nothing.
            self._on_host("reboot", "sudo systemctl reboot", within=300)
        give_up = time.monotonic() + _READY_S
        while self._ready_since() <= before:
            if time.monotonic() > give_up:
                raise StepError("the host does not serve again after a reboot")
            time.sleep(self._poll_s)
        self._status("status-after-reboot")
        self._ask("ask-after-reboot", QUESTIONS[0])

    def take_down(self, *, within: float) -> None:
        """Delete everything, and look whether anything is left.

        Raises:
            StepError: something is.
        """
        self._commands.tpuflex("down", "down", *self._stack, "--yes", "--json", within=within)
        left = self._commands.tpuflex("sweep", "sweep", *self._stack, "--json", within=600)
        if left.document.get("leftovers") or not left.document.get("complete"):
            raise StepError("`tpuflex sweep` still finds something, or could not look everywhere")

    def mend(self) -> None:
        """Put the state in order after an operation that was killed."""
        self._commands.tpuflex("recover", "recover", *self._stack, within=600, accepted=())

    @property
    def _stack(self) -> tuple[str, str]:
        return ("--stack", self.stack)

    def _init(self, longest: timedelta) -> None:
        given = self._given
        words = ["init", *self._stack, "--name", "tpuflex-proof", "--yes"]
        words += ["--template", given.template, "--zone", given.zone, "--project", given.project]
        words += ["--run", f"{int(longest.total_seconds()) // 60}m"]
        words += ["--set", f"slice.give_up_after={given.give_up_after}"]
        if weights := given.weights or _weights_in_checkout(given.template):
            words += ["--weights", weights]
        self._commands.tpuflex("init", *words, within=120)

    def _status(self, name: str) -> dict[str, Any]:
        done = self._commands.tpuflex(name, "status", *self._stack, "--json", within=120)
        return done.document

    def _look(self) -> dict[str, Any]:
        """The status, whatever it is."""
        done = self._commands.tpuflex(
            "look", "status", *self._stack, "--no-tunnel", "--json", within=120, accepted=()
        )
        return done.document

    def _ready_since(self) -> float:
        """When the host became READY in its present boot; 0 if it is not."""
        host = self._look().get("slice", {}).get("host") or {}
        ready = host.get("phase") == "READY"
        return float(host.get("timeline", {}).get("READY", 0.0)) if ready else 0.0

    def _node(self) -> str:
        node = self._look().get("slice", {}).get("node", "")
        if not node:
            raise StepError("the slice has no node")
        return str(node)

    def _on_host(self, name: str, command: str, *, within: float) -> Done:
        """Run a command on the slice's first host."""
        words = on_host(self._node(), command).words
        gcloud = shutil.which(words[0]) or words[0]
        return self._commands.run(name, (gcloud, *words[1:]), within=within)

    def _ask(self, name: str, question: str, *more: str) -> dict[str, Any]:
        words = ("ask", *self._stack, *more, "--max-tokens", "32", "--json", question)
        return self._commands.tpuflex(name, *words, within=300).document

    @contextmanager
    def _reached(self) -> Iterator[tuple[str, ...]]:
        """The words with which `ask` goes through one tunnel, while it is open."""
        if self._given.cloud == "embedded":
            yield ()
            return
        tunnel = self._commands.hold("tunnel", *self._stack, "--port", str(_PORT))
        try:
            time.sleep(self._poll_s)
            if tunnel.poll() is not None:
                raise StepError(f"the tunnel ended with exit code {tunnel.returncode}")
            yield ("--url", f"http://127.0.0.1:{_PORT}/v1")
        finally:
            tunnel.terminate()
            try:
                tunnel.wait(timeout=30)
            except subprocess.TimeoutExpired:
                tunnel.kill()

    def _reboot_emulated(self) -> None:
        """Restart the emulated host, by the embedded cloud's own control API."""
        from tpuflex.stack.emulator import Daemon

        body = {"name": self._node(), "mishap": "rebooted"}
        Daemon(self._commands.home).call("POST", "mishap", body)


def _weights_in_checkout(template: str) -> str:
    """The directory that ``template`` takes weights from, below this checkout, where README has
    them put; empty if it takes them from elsewhere."""
    source = shipped_stack(template).sections["model"].get("weights", {}).get("source", "")
    return str(ROOT / source) if source and "://" not in source else ""
