"""What `tpuflex up` ends with."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.cli.samples import status
from tests.cli.typing import NOON
from tests.unit.test_cost import priced
from tpuflex.cli.cloud import Cloud
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.stack import OpenStack
from tpuflex.cli.steps.up import show_result
from tpuflex.settings.load import parse


@pytest.mark.parametrize(
    ("zone", "price"), [("us-east5-a", "$4.00 per hour"), ("europe-west4-a", "$8.00 per hour")]
)
def test_the_price_is_that_of_the_zone_that_granted(
    stack: OpenStack, capsys: pytest.CaptureFixture[str], zone: str, price: str
) -> None:
    """While it waited for capacity in two regions, the dearer one was said; now it is known."""
    settings = parse(priced(us_east5="1", europe_west4="2"), "test")
    cloud = Cloud(replace(stack, settings=settings), {})
    show_result(Invocation({}, now=lambda: NOON), cloud, status(zone=zone))
    text = capsys.readouterr().out
    scripts = Invocation({}, now=lambda: NOON)
    scripts.json = True
    show_result(scripts, cloud, status(zone=zone))

    assert f"price     {price}, at most" in text
    document = json.loads(capsys.readouterr().out)
    assert document["usd_per_hour"] == float(price.removeprefix("$").partition(" ")[0])
