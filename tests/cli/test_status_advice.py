"""What `status` and a failed `up` advise, so that nobody goes on paying by following it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from tests.cli.samples import status
from tests.unit.stack_sections import sections
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.stack import OpenStack
from tpuflex.cli.steps.boot_failure import after_failed_boot
from tpuflex.cli.steps.status import advice_text, run_status, with_last_known, zone_text
from tpuflex.codes import Code
from tpuflex.errors import (
    AccessError,
    FailedBootError,
    IncompleteTeardownError,
    ServiceDisabledError,
)
from tpuflex.host.boot_wait import SILENT
from tpuflex.request.outcomes import ACCEPTED
from tpuflex.request.states import Lifecycle
from tpuflex.settings.load import parse


class Stack:
    """The part of an :class:`OpenStack` that is read."""

    def __init__(self, **slice_: str) -> None:
        changes: Any = {f"slice.{key}": value for key, value in slice_.items()}
        self.name = "dev"
        self.settings = parse(sections(changes), "test")
        self.names = None


def test_a_refusal_does_not_hide_what_may_be_billed() -> None:
    """Where reading is refused, the slice that the state last knew is named with its zone; the
    kind of the refusal, and what mends it, stay."""
    refusal = ServiceDisabledError("off", hint="gcloud", code=Code.PERMISSION)

    told = with_last_known(refusal, ("g1 in us-east5-a",))

    assert type(told) is ServiceDisabledError
    assert (told.hint, told.code) == ("gcloud", Code.PERMISSION)
    assert told.message == (
        "off\nThe stack's state last knew of g1 in us-east5-a: it may still run, and be billed."
    )
    assert with_last_known(refusal, ()) is refusal


def test_status_reads_the_state_where_the_cloud_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """`status` that may not read the cloud ends with what the state knows."""

    def refused(*_: object, **__: object) -> None:
        raise AccessError("403")

    steps = "tpuflex.cli.steps.status"
    monkeypatch.setattr(f"{steps}.slice_status", refused)
    monkeypatch.setattr(f"{steps}.recorded_requests", lambda _: ("g1 in us-east5-a",))
    cloud: Any = type("Cloud", (), {"stack": Stack(), "tpu": None, "recorded_zones": None})

    with pytest.raises(AccessError, match="g1 in us-east5-a: it may still run"):
        run_status(Invocation(environ={}), cloud)


def test_a_run_that_ended_elsewhere_needs_no_rerun() -> None:
    """A run is over and the region has moved: both lines say that `up` starts a new run there."""
    stack = Stack()
    over = status(
        zone="europe-west4-a", state="SUSPENDED", lifecycle=Lifecycle.ENDED, node_state=""
    )
    there = stack.settings.slice.zones

    assert zone_text(over, there).endswith(f"`tpuflex up` starts a new run in {there[0]}")
    assert "rerun" not in advice_text(over, cast("OpenStack", stack))
    assert "rerun" in advice_text(replace(over, zone=there[0]), cast("OpenStack", stack))
    assert "replaces the slice" in zone_text(status(zone="europe-west4-a"), there)
    assert zone_text(replace(over, zone=there[0]), there) == ""


def test_an_accepted_end_asks_for_nothing() -> None:
    """Where the stack file accepts the end of a run, `status` says that `up` succeeds without a
    slice; what brings one back stays named."""
    over = status(state="SUSPENDED", lifecycle=Lifecycle.ENDED, node_state="")

    accepted = advice_text(over, cast("OpenStack", Stack(on_run_end="accept")))
    kept = advice_text(over, cast("OpenStack", Stack()))

    assert accepted == ACCEPTED.text
    assert accepted.endswith(kept)


@pytest.mark.parametrize("on_run_end", ["keep", "delete", "accept"])
def test_an_end_that_is_renewed_asks_for_an_up(on_run_end: str) -> None:
    """Where the stack file renews, a plain `up` starts the next run: nothing has to be changed,
    whatever on_run_end says, and wherever the run was."""
    over = status(state="SUSPENDED", lifecycle=Lifecycle.ENDED, node_state="")
    stack = cast("OpenStack", Stack(renew_before="1h", on_run_end=on_run_end))

    for each in (over, replace(over, zone="europe-west4-a")):
        advice = advice_text(each, stack)
        assert "`tpuflex up` starts the next run" in advice
        assert "rerun" not in advice
    assert advice_text(status(), stack) == status().advice


@pytest.mark.parametrize(("on_boot_failure", "told"), [("delete", True), ("keep", False)])
def test_a_booting_host_says_who_would_delete_it(on_boot_failure: str, told: bool) -> None:
    """With on_boot_failure: delete, only the `up` that was granted the slice deletes it."""
    stack = cast("OpenStack", Stack(on_boot_failure=on_boot_failure))

    assert ("`tpuflex down` does" in advice_text(status(host=None), stack)) is told
    assert "on_boot_failure" not in advice_text(status(), stack)


def test_a_deletion_that_failed_names_the_command_that_deletes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where `up` could not delete a slice whose boot failed, `down` is named, and no second one,
    nor an `up` that would only wait."""
    error = IncompleteTeardownError("not gone", hint="Run `tpuflex down` again: it goes on.")

    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr("tpuflex.cli.steps.boot_failure.slice_status", fails)
    cloud: Any = type("Cloud", (), {"stack": Stack(on_boot_failure="delete"), "tpu": None})
    failure = FailedBootError("silent", hint=f"The host's log: there\n{SILENT}")

    hint = after_failed_boot(cast("Any", None), cloud, cast("Any", None), failure, None).hint

    assert hint.startswith(
        "The slice was not deleted, and is billed, because that failed: not gone"
    )
    assert (
        "\n`tpuflex down` deletes it; a later `tpuflex up` does not: it ran before that.\n" in hint
    )
    assert "again" not in hint
    assert "The host's log: there" in hint
