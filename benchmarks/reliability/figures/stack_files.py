"""Figure 11: hostile stack files, through the command line and the host's own reading."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pulumi_plugin.printable import printable
from reliability.figures.figure import Case, Figure, Result
from reliability.hostile_host import HostileHost, canaries
from reliability.hostile_stacks import SECRET, HostileStack, hostile_stack
from tpuflex.boot.config import boot_config
from tpuflex.boot.document import NO_MANIFEST, BootConfig
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.main import run
from tpuflex.errors import Finding, SettingsError
from tpuflex.naming import Names
from tpuflex.settings.load import load_stack_file

CASES = 10_000
#: Exit code of a stack file that is wrong.
_REFUSED = SettingsError.exit_code
_STACK = "hostile"


@dataclass(frozen=True, slots=True)
class Judged:
    """What a stack file led to before a host was asked.

    Attributes:
        result: its problems so far.
        config: what a host would boot with; None if the file was refused.
    """

    result: Result
    config: BootConfig | None


class StackFileRig:
    """A project in a directory, and a host."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.host = HostileHost(directory / "host")
        self.file = directory / "project" / "stacks" / f"Pulumi.{_STACK}.yaml"

    def look(self, name: str, stack: HostileStack) -> Judged:
        """Give the file to the command line, and then to the reader by itself."""
        result = Result(name, struck=stack.blows)
        self.file.write_bytes(stack.text)
        code, said = self._render()
        config = self._check(stack, code, said, result)
        fired = canaries(self.directory)
        result.wanted(not fired, "canary", f"a shell ran a value: {fired}")
        return Judged(result, config)

    def boot(self, looked: Sequence[Judged]) -> None:
        """Let the host read what was accepted, and add what is wrong to the results."""
        accepted = [each for each in looked if each.config is not None]
        configs = [each.config for each in accepted if each.config is not None]
        if not configs:
            return
        for each, problem in zip(accepted, self.host.problems(configs), strict=True):
            kind = "canary" if "ran a value" in problem else "host"
            each.result.wanted(not problem, kind, problem)

    def _render(self) -> tuple[int, str]:
        said = io.StringIO()
        root = str(self.file.parents[1])
        words = ["-C", root, "render", "--part", "config", "--stack", _STACK]
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = run(words, Invocation(environ={"HOME": root, "PATH": "/nowhere"}))
        return code, said.getvalue()

    def _check(
        self, stack: HostileStack, code: int, said: str, result: Result
    ) -> BootConfig | None:
        traceback = "Traceback" in said or "bug in tpuflex" in said
        result.wanted(not traceback, "traceback", said)
        result.wanted(code in (0, _REFUSED), "exit code", f"{code}: {said}")
        result.wanted(said == printable(said, lines=True), "unprintable", repr(said))
        try:
            settings = load_stack_file(self.file).settings
        except SettingsError as error:
            result.wanted(code == _REFUSED, "exit code", f"{code}, but the file is refused")
            result.wanted(SECRET not in said or not _hidden(stack), "secret", said)
            _check_keys(stack, error.findings, said, result)
            return None
        result.wanted(code == 0, "exit code", f"{code}, but the file is accepted: {said}")
        names = Names("project", _STACK, "endpoint")
        return boot_config(settings, names, settings.model.weights.manifest_sha256 or NO_MANIFEST)


def _hidden(stack: HostileStack) -> bool:
    """Whether the secret is in the environment only, whose values are never shown."""
    return bool(stack.places) and all(
        place.startswith("tpuflex:serving.env.") for place in stack.places
    )


def _check_keys(
    stack: HostileStack, findings: Sequence[Finding], said: str, result: Result
) -> None:
    result.wanted(bool(findings), "no key", "refused without a finding")
    flat = " ".join(said.split())
    for finding in findings:
        named = bool(finding.key.strip()) and bool(finding.problem.strip())
        result.wanted(named, "no key", f"a finding without key or problem: {finding}")
        shown = " ".join(printable(finding.key).split())
        result.wanted(shown in flat, "no key", f"{finding.key!r} is not shown: {said}")
    if not stack.places:
        return
    # What was refused is what was changed, or another key of a section that was changed.
    changed = {_section(place) for place in stack.places}
    blamed = {_section(finding.key) for finding in findings}
    about = changed & blamed or any(key in _TOGETHER for key in blamed)
    result.wanted(bool(about), "no key", f"{blamed} for changes in {changed}")


#: Sections that rules about others refer to, so that they are blamed for a change elsewhere.
_TOGETHER = ("tpuflex:slice", "tpuflex:serving", "tpuflex:network")


def _section(key: str) -> str:
    return re.split(r"[.\[]", key, maxsplit=1)[0]


@contextmanager
def rig(home: Path) -> Iterator[StackFileRig]:
    stacks = home / "project" / "stacks"
    stacks.mkdir(parents=True)
    (home / "host").mkdir()
    text = "name: tpuflex\nruntime: python\nstackConfigDir: stacks\n"
    (home / "project" / "Pulumi.yaml").write_text(text)
    yield StackFileRig(home)


def cases(_rig: StackFileRig, seed: int) -> list[Case]:
    """One case for each file."""
    return [Case(f"file {number}", {"seed": seed, "number": number}) for number in range(CASES)]


def judge(rig: StackFileRig, case: Case) -> Result:
    """Make the file, load it, and boot what it makes."""
    stack = hostile_stack(case.facts["seed"], case.facts["number"])
    judged = rig.look(case.name, stack)
    judged.result.values["accepted"] = float(judged.config is not None)
    rig.boot([judged])
    return judged.result


FIGURE = Figure(
    key="11",
    counted=("traceback", "canary", "no key", "host", "secret", "unprintable", "exit code"),
    title="hostile stack files: settings or a refusal that names its key; what is accepted reaches"
    " the host's command line word for word: 0 tracebacks, 0 shell canaries",
    rig=rig,
    cases=cases,
    judge=judge,
    share=20,
)
