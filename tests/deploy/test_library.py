"""The library: what is refused, who reads it, and what programs are known by."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.doctor.examined import Doctor
from tests.weights.regions import two_regions
from tpuflex.deploy.library import (
    LibraryDown,
    LibraryStatus,
    LibraryUp,
    library_status,
    require_unread,
    wrong_region,
)
from tpuflex.deploy.library_engine import library_stack
from tpuflex.errors import AlreadyExistsError, ConflictError, NotFoundError
from tpuflex.google.transport import JsonObject
from tpuflex.inventory.cloud_resource import CloudResource
from tpuflex.inventory.library import (
    READER_TITLE,
    Reader,
    listed_and_below,
    prefix_condition,
    programs_title,
    reader_title,
    readers,
)
from tpuflex.naming import programs_key
from tpuflex.planning.rates import month_text, storage_per_month
from tpuflex.queued_resource.limits import PROJECT_PATTERN
from tpuflex.stack.connection import Connection
from tpuflex.stack.stack import Stack
from tpuflex.weights.library import (
    ensure_programs_key,
    has_programs_key,
    require_programs_key,
)
from tpuflex.weights.library_contents import Contents

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


def test_each_cloud_has_a_library_of_its_own(stack: Stack) -> None:
    """A stack on the embedded cloud and one on Google, of the same project and with their states in
    the same place, do not take each other's library for theirs."""
    google = replace(stack, settings=stack.settings.model_copy(update={"cloud": "google"}))
    project = stack.settings.project

    assert library_stack(Connection(google, {})) == project
    assert re.fullmatch(PROJECT_PATTERN, project)
    assert not re.fullmatch(PROJECT_PATTERN, library_stack(Connection(stack, {})))


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
    own, programs = prefix_condition("b", PREFIX), listed_and_below("b", "compile-cache/e")
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


@pytest.mark.parametrize(("title", "used"), [(READER_TITLE, True), ("x", False)])
def test_hosts_use_it(title: str, used: bool) -> None:
    """An endpoint's hosts; not any account that may read."""
    condition: JsonObject = {"title": title, "expression": prefix_condition("b", "models/m/1")}
    binding: JsonObject = {
        "role": "roles/storage.objectViewer",
        "members": ["serviceAccount:a@p.iam.gserviceaccount.com"],
        "condition": condition,
    }
    bucket = cast(CloudResource, SimpleNamespace(name="b", location="us-east5"))
    found = Contents(bucket, (), 0, 0, readers({"bindings": [binding]}))
    require_unread([found], with_readers=True)
    if not used:
        require_unread([found], with_readers=False)
        return
    with pytest.raises(ConflictError, match="models/m/1"):
        require_unread([found], with_readers=False)


def test_what_is_told_in_documents() -> None:
    """The documents of `library up` and `library down`."""
    made = LibraryUp("p", changed=True, buckets={"us-east5": "b"})
    gone = LibraryDown(LibraryStatus("p", ()), deleted=False)

    assert made.to_json() == {"project": "p", "changed": True, "buckets": {"us-east5": "b"}}
    assert gone.to_json() == {"project": "p", "deleted": False, "buckets": []}


KEY = programs_key("tpuflex-dev")


@pytest.fixture
def doctor(project: Path, tmp_path: Path) -> Iterator[Doctor]:
    """A stack with zones in two regions, and a library in both."""
    with two_regions(project, tmp_path) as found:
        yield found


def test_what_it_holds(doctor: Doctor) -> None:
    """A bucket in each region, without a model; where there is none, what makes one."""
    found = library_status(doctor.cloud)
    for each in found.buckets:
        doctor.remove(f"storage/v1/b/{each.bucket.name}")
    with pytest.raises(NotFoundError, match="has no library of weights") as missing:
        library_status(doctor.cloud)

    assert [each.region for each in found.buckets] == ["europe-west4", "us-east5"]
    assert found.to_json()["project"] == "tpuflex-dev"
    assert [each.models for each in found.buckets] == [(), ()]
    assert "tpuflex library up --stack dev" in str(missing.value.hint)


def versions(doctor: Doctor) -> int:
    """How many versions the secret has."""
    return len(doctor.call("GET", f"v1/{KEY}/versions").get("versions", []))


def test_a_value_is_added_once(doctor: Doctor) -> None:
    """Where there is one none is added; where there is none, as after a command that was killed,
    one is; and another one where that is asked for."""
    ensure_programs_key(doctor.cloud)
    before = versions(doctor)
    labels = doctor.call("GET", f"v1/{KEY}")["labels"]
    doctor.remove(f"v1/{KEY}")
    parent, _, secret = KEY.rpartition("/")
    body = {"replication": {"automatic": {}}, "labels": labels}
    doctor.call("POST", f"v1/{parent}?secretId={secret}", body)
    without = has_programs_key(doctor.cloud)
    ensure_programs_key(doctor.cloud)
    after = versions(doctor)
    ensure_programs_key(doctor.cloud, anew=True)

    assert (before, without, after) == (1, False, 1)
    assert versions(doctor) == 2


def test_without_one_no_chips_are_asked_for(doctor: Doctor) -> None:
    """A library that lost it has none: the error says what to run, and how to do
    without. A stack that keeps no programs there needs none."""
    doctor.remove(f"v1/{KEY}")
    with pytest.raises(NotFoundError, match="has no key for compiled programs") as missing:
        require_programs_key(doctor.cloud)
    doctor.change("serving", compile_cache="host")
    require_programs_key(doctor.cloud)

    assert "tpuflex library up --stack dev" in str(missing.value.hint)
    assert "compile_cache: host" in str(missing.value.hint)


@pytest.mark.parametrize("verb", ["disable", "destroy"])
def test_a_value_that_hosts_cannot_read_is_told(doctor: Doctor, verb: str) -> None:
    """The latest version is what hosts read: where somebody has disabled it, all would be compiled
    again, and a new one unasked would make that last."""
    doctor.call("POST", f"v1/{KEY}/versions/1:{verb}", {})
    for check in (require_programs_key, ensure_programs_key):
        with pytest.raises(ConflictError, match=rf"versions/1, .* is {verb.upper()}") as told:
            check(doctor.cloud)
        assert "library up --new-programs-key" in str(told.value.hint)
    ensure_programs_key(doctor.cloud, anew=True)
    require_programs_key(doctor.cloud)


def test_a_secret_of_somebody_else_signs_nothing(doctor: Doctor) -> None:
    """Who made the secret knows its value: without the library's marker it is refused."""
    parent, _, secret = KEY.rpartition("/")
    doctor.remove(f"v1/{KEY}")
    doctor.call("POST", f"v1/{parent}?secretId={secret}", {"replication": {"automatic": {}}})
    doctor.call("POST", f"v1/{KEY}:addVersion", {"payload": {"data": "YQ=="}})
    for check in (require_programs_key, ensure_programs_key):
        with pytest.raises(AlreadyExistsError, match="does not carry the marker of the library"):
            check(doctor.cloud)
    assert versions(doctor) == 1
