"""M7: the deletion of a slice whose boot has failed is tried again where that may help."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.provider.fakes import FakeTime
from tpuflex.cli.steps.boot_failure import delete_slice
from tpuflex.errors import AccessError, EngineError, IncompleteTeardownError, TpuflexError


def deleted(*ends: TpuflexError | None) -> tuple[FakeTime, list[str], TpuflexError | None]:
    """The time it took, what was said and how it ended, where attempts end like ``ends``."""
    time, left = FakeTime(), [*ends]
    said: list[str] = []

    def destroy_slice() -> None:
        if (end := left.pop(0)) is not None:
            raise end

    cloud: Any = SimpleNamespace(timing=time.timing())
    stack_run: Any = SimpleNamespace(destroy_slice=destroy_slice)
    output: Any = SimpleNamespace(progress=said.append)
    try:
        delete_slice(cloud, stack_run, output)
    except TpuflexError as error:
        return time, said, error
    assert left == []
    return time, said, None


@pytest.mark.parametrize(
    "first", [EngineError("it died"), IncompleteTeardownError("not gone after 30 min")]
)
def test_m7_what_may_pass_is_tried_again(first: TpuflexError) -> None:
    """An engine that died, and a slice that was not gone yet: the next attempt deletes it."""
    time, said, end = deleted(first, None)

    assert end is None
    assert time.pauses == [30.0]
    assert said == [
        f"It could not be deleted: {first.message}",
        "Trying again in 30 s (1 of 2) …",
    ]


def test_m7_three_attempts_are_all() -> None:
    """The last failure is the one that is reported."""
    failures = [EngineError(f"death {number}") for number in range(3)]

    time, _, end = deleted(*failures)

    assert end is failures[-1]
    assert time.pauses == [30.0, 30.0]


def test_m7_a_missing_permission_is_final() -> None:
    """Another attempt would be billed and refused."""
    refused = AccessError("no")

    assert deleted(refused)[2] is refused
