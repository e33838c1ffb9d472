"""What the making of a component leaves behind."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from tpuflex.remote import construct


class _Leaves:
    """A servicer that looks at one failure, as the SDK does, and not at each future that has it."""

    async def Construct(self, request: object, context: object) -> Any:  # noqa: N802
        del request, context
        asyncio.get_running_loop().create_future().set_exception(RuntimeError("no capacity"))
        gc.collect()
        return "answer"


def test_failures_that_nobody_looks_at_print_no_traceback(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """A failed part would otherwise fill the user's terminal with one for each future."""
    gc.collect()  # what tests before this one have left
    caplog.clear()
    answer: object = asyncio.run(construct._construct(None, _Leaves()))  # type: ignore[arg-type]
    gc.collect()

    assert answer == "answer"
    assert caplog.records == []
    assert capfd.readouterr() == ("", "")
