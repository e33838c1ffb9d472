"""`tpuflex down` of a stack whose state has a resource that is gone."""

from __future__ import annotations

from typing import cast

import pytest

from tpuflex.cli.stack_run import StackRun
from tpuflex.cli.steps.ours import Ours
from tpuflex.cli.steps.teardown import Planned, destroyed
from tpuflex.engine.events import EnginePlan, Note
from tpuflex.engine.failure import failure
from tpuflex.errors import EngineError, TpuflexError
from tpuflex.gcp.inventory import Inventory

GONE = "googleapi: Error 404: The specified bucket does not exist., notFound"


#: Nothing in particular, of which nothing is kept.
PLANNED = Planned(Ours({}, {}, frozenset()), True, EnginePlan(()), Inventory(()), ())


class Run:
    """A stack run whose destroys fail one after the other, as listed."""

    def __init__(self, *failures: TpuflexError) -> None:
        self.failures = list(failures)
        self.steps: list[str] = []

    def destroy(self, _plan: EnginePlan, **_options: bool) -> None:
        self.steps.append("destroy")
        if self.failures:
            raise self.failures.pop(0)

    def refresh(self) -> None:
        self.steps.append("refresh")


def gone() -> TpuflexError:
    return failure("destroy", [Note("error", GONE, "vllm-weights")], "")


def test_the_state_is_read_again_and_the_rest_deleted() -> None:
    """D3: a bucket whose delete answer was lost does not stop `down` for good."""
    run, said = Run(gone()), list[str]()

    assert destroyed(cast("StackRun", run), PLANNED, said.append)

    assert run.steps == ["destroy", "refresh", "destroy"]
    assert said == [f"vllm-weights: {GONE}\nIt is gone already: reading the state again."]


def test_a_second_failure_points_to_recover() -> None:
    """D3: it is not repeated for ever."""
    run = Run(gone(), gone())

    with pytest.raises(EngineError) as caught:
        destroyed(cast("StackRun", run), PLANNED, lambda _: None)

    assert run.steps == ["destroy", "refresh", "destroy"]
    assert "`tpuflex recover`, then `tpuflex down` again" in caught.value.hint


def test_another_failure_is_not_repeated() -> None:
    """Only what is gone makes the state worth reading again."""
    run = Run(EngineError("boom"))

    with pytest.raises(EngineError, match="boom"):
        destroyed(cast("StackRun", run), PLANNED, lambda _: None)

    assert run.steps == ["destroy"]
