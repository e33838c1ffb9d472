"""What an `up` gives to a program, and to scripts."""

from __future__ import annotations

from tests.cli.samples import status
from tests.cli.typing import NOON
from tpuflex.deploy import UpResult
from tpuflex.host.report import HostReport
from tpuflex.planning.cost import cost_in
from tpuflex.stack.stack import Stack


def test_one_that_serves(stack: Stack) -> None:
    """It has the address that clients are given, also in the document."""
    found = status(host=HostReport("READY"), address="127.0.0.1")
    result = UpResult(stack, found, cost_in(stack.settings, found.zone), NOON)

    document = result.to_json()

    assert result.endpoint == stack.settings.url("127.0.0.1")
    assert (document["endpoint"], document["run_over"]) == (result.endpoint, None)


def test_one_whose_run_is_over(stack: Stack) -> None:
    """It has no endpoint and no boot, whatever is left of its slice."""
    left = status(host=HostReport("READY"))
    cost = cost_in(stack.settings, left.zone)

    over = UpResult(stack, left, cost, NOON, "the run is over")
    gone = UpResult(stack, None, cost, NOON, "the run is over")

    assert (over.endpoint, over.to_json()["boot_seconds"]) == (None, {})
    assert over.to_json()["slice"] == left.to_json(stack.name)
    assert (gone.endpoint, gone.to_json()["slice"]) == (None, None)
