"""What a user sees who makes a mistake: the reason, the remedy, the exit code."""

from __future__ import annotations

import io
import json
import re
import socket
from pathlib import Path

import pytest

from tests.cli.typing import Captured, TypeIn
from tpuflex import errors
from tpuflex.cli.invocation import Invocation
from tpuflex.errors import Finding, InterruptedByUser, TpuflexError
from tpuflex.stack.progress import require_consent
from tpuflex.terminal.manual import more
from tpuflex.terminal.output import Output


class TestProject:
    def test_no_project(self, project: Path, type_in: TypeIn) -> None:
        """Outside of a project, the error names the option for one."""
        (project / "Pulumi.yaml").unlink()

        typed = type_in("up")

        assert (typed.code, typed.out) == (4, "")
        assert typed.err == (
            f"Error: There is no Pulumi.yaml in {project} or in any directory above it.\n"
            "Change to the project's directory, name it (tpuflex -C DIRECTORY …), or make one:"
            " tpuflex init\n"
        )

    def test_no_stack_file(self, project: Path, type_in: TypeIn) -> None:
        """Without any stack file, the error names the one to write."""
        (project / "stacks" / "Pulumi.dev.yaml").unlink()

        typed = type_in("status")

        assert typed.code == 4
        assert "stacks/Pulumi.dev.yaml does not exist" in typed.err
        assert "Write stacks/Pulumi.dev.yaml" in typed.err

    def test_unknown_stack(self, type_in: TypeIn) -> None:
        """For a misspelt stack, the error suggests the nearest."""
        typed = type_in("up", "--stack", "dve")

        assert typed.code == 4
        assert typed.err == (
            "Error: There is no stack 'dve': stacks/Pulumi.dve.yaml does not exist.\n"
            "Did you mean --stack dev? Stacks of this project: dev.\n"
        )

    @pytest.mark.parametrize("place", ["before", "after", "environment"])
    def test_stack_option(self, type_in: TypeIn, place: str) -> None:
        """--stack may stand before or after the command, or in the environment."""
        option = ("--stack", "dve")
        typed = {
            "before": lambda: type_in(*option, "up"),
            "after": lambda: type_in("up", *option),
            "environment": lambda: type_in("up", TPUFLEX_STACK="dve"),
        }[place]()

        assert "no stack 'dve'" in typed.err


class TestStackFile:
    @pytest.mark.parametrize(("word", "code"), [("up", 5), ("preview", 5), ("status", 9)])
    def test_a_stack_that_can_no_longer_be_deployed(
        self, project: Path, type_in: TypeIn, word: str, code: int
    ) -> None:
        """What only forbids deploying keeps nobody from looking at what runs, or from taking it
        down: a rule that a later version brings must not cost a night of chips."""
        file = project / "stacks" / "Pulumi.dev.yaml"
        text = file.read_text()
        file.write_text(text.replace("    env:\n", "    env:\n      VLLM_SERVER_DEV_MODE: '1'\n"))

        typed = type_in(word)

        assert typed.code == code
        assert ("VLLM_SERVER_DEV_MODE" in typed.err) == (code == 5)

    @pytest.mark.parametrize("catalog", ["prices: [", "models:\n- {name: a, nme: b}\n", None])
    def test_a_broken_catalog_leaves_what_runs_within_reach(
        self, project: Path, type_in: TypeIn, catalog: str | None
    ) -> None:
        """A catalog.yaml with wrong rows, or without the row of the chips that run, forbids `up`,
        and nobody from looking at what runs."""
        file = project / "stacks" / "Pulumi.dev.yaml"
        if catalog is None:
            file.write_text(
                re.sub("accelerator_type: .*", "accelerator_type: v9x-4", file.read_text())
            )
        else:
            (project / "catalog.yaml").write_text(catalog)
        before, after = (
            ("v9x-4", "") if catalog is None else ("catalog.yaml", "Warning: catalog.yaml")
        )

        up, status, memory = type_in("up", "--yes"), type_in("status"), type_in("memory")

        assert (up.code, memory.code, status.code) == (5, 5, 9)
        assert before in up.err
        assert before in memory.err
        assert after in status.err

    def test_all_findings_as_json(self, project: Path, type_in: TypeIn) -> None:
        """With --json the error is a document too."""
        file = project / "stacks" / "Pulumi.dev.yaml"
        text = file.read_text().replace("max_run_duration: 4h", "max_run_duration: 8d")
        file.write_text(text)
        line = text[: text.index(" 8d")].count("\n") + 1

        typed = type_in("preview", "--json")

        assert typed.code == 5
        assert typed.document["error"]["kind"] == "SettingsError"
        assert typed.document["error"]["exit_code"] == 5
        assert typed.document["error"]["findings"] == [
            {
                "key": "tpuflex:slice.max_run_duration",
                "problem": "8d is longer than Flex-start allows",
                "remedy": "Write 7d or less.",
                "file": "",
                "line": line,
                "column": 5,
            }
        ]

    def test_a_zone_spelt_wrong(self, project: Path, type_in: TypeIn) -> None:
        """One problem, with its line and the nearest zones, before anything is started; the list
        does not count as empty."""
        file = project / "stacks" / "Pulumi.dev.yaml"
        text = file.read_text().replace("[us-east5-a]", "[us-est5-a]")
        file.write_text(text)
        line = text[: text.index("us-est5-a")].count("\n") + 1

        typed = type_in("up", "--yes")

        assert (typed.code, typed.out) == (5, "")
        assert not (project / ".tpuflex").exists()
        assert typed.err == (
            "Error: Pulumi.dev.yaml has 1 problem:\n"
            f"  tpuflex:slice.zones[0]: there is no zone 'us-est5-a' (line {line}). "
            "Did you mean us-east5-a or us-west4-a or us-east5-c?\n"
            "More: tpuflex docs settings#tpuflexslice\n"
        )

    def test_google_without_credentials(
        self, project: Path, type_in: TypeIn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Missing credentials are reported before the engine is searched for."""
        for name in ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_OAUTH_ACCESS_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("CLOUDSDK_CONFIG", str(project))
        monkeypatch.setenv("NO_GCE_CHECK", "true")
        (project / "stacks" / "Pulumi.g.yaml").write_text(_ON_GOOGLE)

        typed = type_in("up", "--yes", "--stack", "g", PATH="")

        assert typed.code == 6
        assert typed.err == (
            "Error: no Google Cloud credentials were found\n"
            "Run: gcloud auth application-default login\n"
        )


class TestConsent:
    @pytest.mark.parametrize(
        ("answer", "expected", "reason"),
        [("n\n", "", "you did not agree"), ("prod\n", "dev", "the answer was not 'dev'")],
    )
    def test_no(
        self, monkeypatch: pytest.MonkeyPatch, answer: str, expected: str, reason: str
    ) -> None:
        """No, or another stack's name, is not consent, and is not called an interruption."""
        monkeypatch.setattr("sys.stdin", _Terminal(answer))

        with pytest.raises(InterruptedByUser, match=f"Nothing was done: {reason}"):
            require_consent(Invocation(environ={}).consent, "Go ahead?", expected=expected)

    @pytest.mark.parametrize(("answer", "expected"), [("y\n", ""), ("dev\n", "dev")])
    def test_yes(self, monkeypatch: pytest.MonkeyPatch, answer: str, expected: str) -> None:
        """The right answer goes on."""
        monkeypatch.setattr("sys.stdin", _Terminal(answer))

        require_consent(Invocation(environ={}).consent, "Go ahead?", expected=expected)


class _Terminal(io.StringIO):
    """A terminal on which somebody has typed."""

    def isatty(self) -> bool:
        return True


_ON_GOOGLE = """\
config:
  tpuflex:cloud: google
  tpuflex:project: some-project-1
  tpuflex:slice: {zones: [us-east5-a], accelerator_type: v6e-1, max_run_duration: 4h}
  tpuflex:model: {name: google/gemma-4-E4B-it}
  tpuflex:serving:
    image: gcr.io/p/vllm-tpu@sha256:19a1a0526476f902eb83e1057f3d8938f35b457dd7716a30e9ab4f7bee90d507
"""


class TestUsage:
    def test_unknown_command(self, type_in: TypeIn) -> None:
        """For a misspelt command, the error suggests the nearest."""
        typed = type_in("statsu")

        assert typed.code == 2
        assert "Did you mean 'status'?" in typed.err

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ("validate --nonesuch --json", "No such option"),
            ("--json validate x --changed", "Write files, or --changed."),
            ("nonesuch --json", "No such command"),
            ("client --as curl --show-key -- bench --json", ""),
        ],
    )
    def test_for_scripts(self, type_in: TypeIn, words: str, said: str) -> None:
        """With --json, which is asked of tpuflex and not of its COMMAND, there is a document, also
        where the options could not be read to their end."""
        typed = type_in(*words.split())

        assert (typed.code, bool(typed.out)) == (2, bool(said))
        if said:
            error = typed.document["error"]
            assert (error["kind"], error["exit_code"]) == ("UsageError", 2)
            assert said in error["message"]

    def test_secret_that_the_stack_does_not_use(self, type_in: TypeIn) -> None:
        """For a token without a pinned version, the error names the key to write."""
        typed = type_in("secrets", "put", "tls-certificate")

        assert typed.code == 5
        assert "Write tls_certificate_version: 1." in typed.err

    def test_no_source_of_weights(self, project: Path, type_in: TypeIn) -> None:
        """Without a directory and a source in the stack file, the error names both."""
        file = project / "stacks" / "Pulumi.dev.yaml"
        lines = file.read_text().splitlines(keepends=True)
        file.write_text(
            "".join(line for line in lines if "source:" not in line and "weights:" not in line)
        )

        typed = type_in("weights", "push")

        assert typed.code == 2
        assert "tpuflex:model.weights.source" in typed.err

    @pytest.mark.parametrize("rule", ["{", "3"])
    def test_capacity_rule(self, type_in: TypeIn, rule: str) -> None:
        """A capacity rule that is not a JSON object is a usage error."""
        assert type_in("emulator", "start", "--capacity", rule).code == 2


class TestEmulator:
    @pytest.mark.parametrize(
        "words", [("ask", "hello"), ("status",), ("weights", "ls"), ("emulator", "env")]
    )
    def test_does_not_run(self, type_in: TypeIn, words: tuple[str, ...]) -> None:
        """A command that needs the running embedded cloud says how to start it."""
        typed = type_in(*words)

        assert typed.code == 9
        assert typed.err == (
            "Error: The embedded cloud is not running.\n"
            "Start it with the stack: tpuflex up. On its own: tpuflex emulator start\n"
        )

    def test_status(self, type_in: TypeIn) -> None:
        """A script sees it by the exit code and by the document; to stop what does not run is no
        error."""
        typed = type_in("emulator", "status", "--json")
        assert (typed.code, typed.document) == (9, {"running": False})
        assert type_in("emulator", "stop").out == "The embedded cloud is not running.\n"

    def test_a_file_in_the_way(self, project: Path, type_in: TypeIn) -> None:
        """What the file system refuses is told with the path, and without a traceback."""
        (project / ".tpuflex").mkdir(exist_ok=True)
        (project / ".tpuflex" / "emulator").touch()

        typed = type_in("emulator", "start")

        assert typed.code == 1
        assert typed.err == f"Error: File exists: {project / '.tpuflex' / 'emulator'}\n"

    def test_port_in_use(self, type_in: TypeIn) -> None:
        """The error names a port that is in use."""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            typed = type_in("emulator", "start", "--port", port)

        assert typed.code == 9
        assert port in typed.err


class TestEngine:
    def test_none(self, type_in: TypeIn, tmp_path: Path) -> None:
        """Without an engine, the error lists every place that was searched and the ways out."""
        typed = type_in("engine", PATH=str(tmp_path))

        assert typed.code == 8
        assert "not on PATH" in typed.out
        assert "no Go on PATH" in typed.out
        assert "https://www.pulumi.com/docs/install/" in typed.err

    def test_document(self, type_in: TypeIn, tmp_path: Path) -> None:
        """`tpuflex engine --json` has the same for scripts, in one document."""
        typed = type_in("engine", "--json", PATH=str(tmp_path))

        assert typed.code == 8
        assert json.loads(typed.out)["engine"] is None


def kinds() -> list[type[TpuflexError]]:
    """Every kind of failure."""
    found = [getattr(errors, name) for name in dir(errors)]
    return [kind for kind in found if isinstance(kind, type) and issubclass(kind, TpuflexError)]


@pytest.mark.parametrize("kind", kinds())
def test_exit_code(kind: type[TpuflexError], capsys: Captured) -> None:
    """Each kind has its exit code, and shows its message and hint on separate lines, the section
    that says more on a third."""
    if kind is errors.SettingsError:
        error: TpuflexError = errors.SettingsError("f", (Finding("k", "bad"),), hint="fix it")
    else:
        error = kind("it broke", hint="fix it")

    code = Output(json=False, verbose=False).failure(error)

    assert code == kind.exit_code
    said, _, section = capsys.readouterr().err.partition("More: tpuflex docs ")
    assert (said, section.strip()) == (f"Error: {error.message}\nfix it\n", more(error))
