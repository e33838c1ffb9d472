"""A failed operation of the engine becomes one error of ours."""

from __future__ import annotations

import pytest

from tpuflex.engine.events import Note
from tpuflex.engine.failure import ProgramFailures, failure, without_traceback
from tpuflex.errors import (
    AccessError,
    BootError,
    CapacityError,
    ConflictError,
    EngineError,
    IncompleteTeardownError,
    NotFoundError,
    QuotaError,
    SettingsError,
    TpuflexError,
)
from tpuflex.request.outcomes import PROTECTED, STUCK_DOWN, STUCK_UP, TABLE, Condition, Outcome


def error(text: str, name: str = "") -> Note:
    return Note("error", text, name)


class TestKind:
    @pytest.mark.parametrize(
        ("text", "kind"),
        [
            ("projects/p/…/r is not active after 24h: in the queue", CapacityError),
            ("r FAILED: no more capacity in the zone (cause: stock-out)", CapacityError),
            ("r FAILED: Quota limit 'TPUV6EPreemptible' (cause: quota)", QuotaError),
            ("Quota 'CPUS' exceeded", QuotaError),
            ("r FAILED: missing (cause: permission)", AccessError),
            ("googleapi: Error 403: PERMISSION_DENIED", AccessError),
            ("the name is taken", EngineError),
        ],
    )
    def test_of_the_providers_words(self, text: str, kind: type[TpuflexError]) -> None:
        """What the provider says decides the kind, and so the exit code."""
        found = failure("up", [error(text, "endpoint")], "")

        assert type(found) is kind
        assert found.message == f"endpoint: {text}"

    def test_waiting_says_that_the_request_is_kept(self) -> None:
        """A wait that timed out loses nothing, and the hint says how to go on."""
        found = failure("up", [error("r is not active after 1h: queued")], "")

        assert "run `tpuflex up` again to go on waiting" in found.hint

    @pytest.mark.parametrize(
        ("operation", "command", "hint"),
        [
            ("up", "up", "Repair the state first: tpuflex recover"),
            ("destroy", "down", "Repair the state first: tpuflex recover"),
            ("preview", "preview", "Nothing was changed: run it again."),
        ],
    )
    def test_a_plugin_that_died(self, operation: str, command: str, hint: str) -> None:
        """The engine keeps nothing of what it had begun, so the next command is `recover`; what the
        plugin printed at its end is shown."""
        told = (
            "Detected that /home/me/.pulumi/plugins/gcp-v9/pulumi-resource-gcp exited prematurely. "
            "\n       This is *always* a bug in the provider. Please report the issue to the "
            "provider author as appropriate.\n       To assist with debugging we have dumped the "
            "STDOUT and STDERR streams of the plugin:\npanic: nil\n"
        )

        found = failure(
            operation, [error("error reading from server: EOF", "net"), error(told)], ""
        )

        assert type(found) is EngineError
        assert found.message.startswith(
            f"pulumi-resource-gcp ended in the middle of `{command}`: it crashed or was killed"
            " (out of memory, for example).\npanic: nil"
        )
        assert ("in the cloud but not in the state" in found.message) is (operation != "preview")
        assert found.hint == hint

    @pytest.mark.parametrize(("operation", "outcome"), [("up", STUCK_UP), ("destroy", STUCK_DOWN)])
    def test_what_does_not_go(self, operation: str, outcome: Outcome) -> None:
        """A teardown that has to leave something is incomplete; an `up` is in conflict. Neither
        is taken for deletion protection."""
        text = f"g1 is not gone after 3h (DELETING: being deleted)\n{outcome.text}"

        found = failure(operation, [error(text)], "")

        assert found.exit_code == outcome.exit_code
        assert "deletion_protection" not in found.hint

    def test_locked(self) -> None:
        """A locked stack names the command that breaks the lock of a killed run."""
        stderr = (
            "error: the stack is currently locked by 1 lock(s). Either wait for the other …\n"
            "  file:///b/locks/1.json: created by jo@desk (pid 812) at 2026-11-21T12:02:04Z\n"
        )
        found = failure("up", [], stderr)

        assert type(found) is EngineError
        assert "process 812 of jo on desk, since 2026-11-21T12:02:04Z" in found.message
        assert "tpuflex recover" in found.hint

    def test_removed_meanwhile(self) -> None:
        """An `up` whose stack a `down` removes meanwhile says so."""
        found = failure("up", [], "error: no stack named 'dev' found")

        assert type(found) is NotFoundError
        assert "a `tpuflex down` that ran meanwhile has removed it" in found.message
        assert "tpuflex up" in found.hint

    def test_a_teardown_that_runs_out_of_time_is_incomplete(self) -> None:
        """What is not gone at its deadline is left, and `down` says how to go on; in an `up` it
        is a conflict, as the table says."""
        late = [error("r is not gone after 3h (cannot be deleted yet: PROVISIONING: …)", "slice")]

        assert type(failure("destroy", late, "")) is IncompleteTeardownError
        assert "`tpuflex down` again" in failure("destroy", late, "").hint
        assert type(failure("up", late, "")) is ConflictError

    def test_a_run_that_is_over(self) -> None:
        """The end of a run has the exit code of a host that does not serve, and the way on."""
        for text in (
            "r: the run is over and nothing is bought again unasked",
            "the run of r is over",
        ):
            found = failure("up", [error(text)], "")

            assert type(found) is BootError
            assert "tpuflex:slice.rerun" in found.hint

    @pytest.mark.parametrize(
        "text", [f"r is not active after 1h\n{TABLE[Condition.WAITING].up.text}", PROTECTED.text]
    )
    def test_what_the_provider_says_to_do_is_not_said_twice(self, text: str) -> None:
        """The provider's own advice stands alone."""
        assert failure("up", [error(text)], "").hint == ""

    def test_keys_of_a_run_that_is_over(self) -> None:
        """The provider names the keys, the hint where they are written."""
        found = failure("up", [error(TABLE[Condition.ENDED].up.text)], "")

        assert found.hint == "These are keys of tpuflex:slice in the stack file."

    def test_after_a_killed_run(self) -> None:
        """A failure that follows a killed run points to the command that repairs its state."""
        warning = Note(
            "warning",
            "Attempting to deploy or update resources with 1 pending operations from previous "
            "deployment.",
        )
        found = failure("up", [warning, error("Error 409: already exists", "net")], "")

        assert found.message == "net: Error 409: already exists"
        assert "tpuflex recover" in found.hint

    def test_state_that_was_cut_short(self) -> None:
        """So does a state that a kill left unreadable."""
        found = failure("stack select", [], "error: failed to load checkpoint: EOF")

        assert "tpuflex recover" in found.hint


class TestMessage:
    def test_echoes_and_repetitions_are_left_out(self) -> None:
        """`update failed`, and the same text twice, say nothing new."""
        notes = [
            error("1 error occurred:\n\t* boom\n\n", "a"),
            error("update failed"),
            error("boom", "a"),
        ]

        assert failure("up", notes, "").message == "a: boom"

    def test_without_notes_the_end_of_stderr(self) -> None:
        """When the engine gave no diagnostics, what it printed is shown."""
        found = failure("preview", [], "error: no Pulumi.yaml found\n")

        assert found.message == "pulumi preview failed:\nerror: no Pulumi.yaml found"

    def test_no_traceback(self) -> None:
        """A traceback is reduced to its last line."""
        text = (
            "python inline source runtime error: boom\nTraceback (most recent call last):\n"
            '  File "a.py", line 1, in <module>\n    f()\nValueError: boom'
        )

        assert (
            without_traceback(text) == "python inline source runtime error: boom\nValueError: boom"
        )


class TestProgramFailures:
    def test_keeps_our_error(self) -> None:
        """An error of ours in the program is kept whole; the engine gets one line."""
        from pulumi import RunError

        failures = ProgramFailures()
        mine = SettingsError("Pulumi.dev.yaml", ())

        def program() -> None:
            raise mine

        with pytest.raises(RunError):
            failures.guard(program)()

        assert failures.errors == [mine]

    async def test_keeps_our_error_from_a_coroutine(self) -> None:
        """The same for what runs between the resources."""
        from pulumi import RunError

        failures = ProgramFailures()

        async def prepare() -> None:
            raise CapacityError("none")

        with pytest.raises(RunError):
            await failures.guard_async(prepare)()

        assert [type(found) for found in failures.errors] == [CapacityError]


def test_crash_of_the_program() -> None:
    """An exception that is not of our error tree is reported as a bug, in one line."""
    text = (
        "python inline source runtime error: no attribute 'x'\nTraceback (most recent call last):\n"
        "  File \"a.py\", line 1, in <module>\n    f()\nAttributeError: no attribute 'x'"
    )

    found = failure("preview", [error(text), error(f"an unhandled error occurred: {text}")], "")

    assert found.message == "The Pulumi program failed: no attribute 'x'"
    assert "bug" in found.hint
