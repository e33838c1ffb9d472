"""`tpuflex library`: what is refused before anything is looked at, and what is shown."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal

import pytest

from tpuflex.cli.cloud import Cloud
from tpuflex.cli.stack import OpenStack
from tpuflex.cli.steps.library import wrong_region
from tpuflex.cli.steps.library_engine import library_stack
from tpuflex.gcp.library import (
    READER_TITLE,
    Reader,
    below,
    listed_and_below,
    programs_title,
    reader_title,
    readers,
)
from tpuflex.gcp.transport import JsonObject
from tpuflex.planning.stack_cost import month_text, storage_per_month
from tpuflex.request.limits import PROJECT_PATTERN

GIB = 2**30
PREFIX = "models/acme-tiny/1"


@pytest.mark.parametrize(
    ("names", "wrong"),
    [
        ((), ""),
        (("us-east5", "europe-west4"), ""),
        (("us-east9",), ""),  # Google numbers new ones
        (("us-east5", "us-esat5"), "us-esat5"),
        (("us-east5-a",), "us-east5-a"),
        (("US",), "US"),
        (("us-east5\n",), "us-east5\n"),
    ],
)
def test_a_region_is_one(names: tuple[str, ...], wrong: str) -> None:
    """Zones, multi-regions and misspelt regions are refused; a region that is new is not."""
    assert wrong_region(names) == wrong


@pytest.mark.parametrize(
    ("size", "region", "dollars", "text"),
    [
        (0, "us-east5", Decimal("0.00"), "$0.00 a month"),
        (1, "us-east5", Decimal("0.00"), "less than $0.01 a month"),
        (100 * GIB, "us-east5", Decimal("2.00"), "$2.00 a month"),
        (100 * GIB, "me-west1", None, "the price of storage in me-west1 was not read"),
    ],
)
def test_what_a_month_costs(size: int, region: str, dollars: Decimal | None, text: str) -> None:
    """By the rate that was read for the region; where none was, no figure is made up."""
    assert storage_per_month(size, region) == dollars
    assert month_text(size, region) == text


def test_each_cloud_has_a_library_of_its_own(stack: OpenStack) -> None:
    """A stack on the embedded cloud and one on Google, of the same project and with their states in
    the same place, do not take each other's library for theirs."""
    google = replace(stack, settings=stack.settings.model_copy(update={"cloud": "google"}))
    project = stack.settings.project

    assert library_stack(Cloud(google, {})) == project
    assert re.fullmatch(PROJECT_PATTERN, project)
    assert not re.fullmatch(PROJECT_PATTERN, library_stack(Cloud(stack, {})))


def binding(role: str, *members: str, title: str = "", expression: str = "") -> JsonObject:
    """A binding of a policy, on a condition if there is an ``expression``."""
    bound: JsonObject = {"role": role, "members": [*members]}
    if expression:
        bound["condition"] = {"title": title, "expression": expression}
    return bound


def test_who_may_read_by_a_policy() -> None:
    """Hosts of endpoints with their prefix; others as they are; who may only add or list, not; an
    account that was deleted is no endpoint any more."""
    viewer = "roles/storage.objectViewer"
    host, gone = "serviceAccount:h@p.iam.gserviceaccount.com", "deleted:serviceAccount:g@p?uid=1"
    own, programs = below("b", PREFIX), listed_and_below("b", "compile-cache/e")
    found = readers(
        {
            "bindings": [
                binding(viewer, host, gone, title=READER_TITLE, expression=own),
                binding(viewer, host, title=reader_title("a1"), expression=own),
                binding(viewer, host, title=programs_title("a1"), expression=programs),
                binding("roles/storage.objectAdmin", "user:a@example.com"),
                binding("roles/storage.objectCreator", "user:b@example.com"),
                binding("roles/storage.legacyBucketReader", "projectViewer:p"),
                binding(viewer, "user:c@example.com", title="until", expression="request.time < x"),
            ]
        }
    )

    assert found == (
        Reader(host, viewer, PREFIX, endpoint=True),
        Reader(gone, viewer, PREFIX, endpoint=False),
        Reader(host, viewer, PREFIX, endpoint=True, owner="a1"),
        Reader(host, viewer, "compile-cache/e", endpoint=True, owner="a1"),
        Reader("user:a@example.com", "roles/storage.objectAdmin", "", endpoint=False),
        Reader("user:c@example.com", viewer, "request.time < x", endpoint=False, plain=False),
    )
