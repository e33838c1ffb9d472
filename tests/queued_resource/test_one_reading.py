"""Different states in several zones: every reader finds the same slice."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import permutations
from types import SimpleNamespace
from typing import Any

import pytest

from tests.provider.fakes import (
    INPUTS,
    FakeTime,
    JsonObject,
    Sent,
    args,
    missing,
    node,
    queued,
    scripted,
)
from tests.provider.fakes import Answer as Reply
from tests.unit.stack_sections import sections
from tpuflex.errors import NotFoundError
from tpuflex.naming import ENDPOINT_NAME, LABEL_OWNER, QUEUED_RESOURCE, Names
from tpuflex.operate.endpoint_connection import serving_slice
from tpuflex.operate.slice import SliceStatus, slice_status
from tpuflex.provider.read import ReadResult, read
from tpuflex.queued_resource.outcomes import Condition
from tpuflex.queued_resource.states import NOT_FOUND
from tpuflex.recovery.look import CloudLook, Presence
from tpuflex.settings.load import parse

NAMES = Names("acme", "dev", ENDPOINT_NAME)
PROJECT = "acme-serving"
ZONES = ("us-east5-a", "us-east5-b", "us-east5-c")
LABELS = {LABEL_OWNER: NAMES.owner}
ASKED: dict[str, Any] = {**INPUTS, "project": PROJECT, "zones": [*ZONES], "labels": LABELS}
SETTINGS = parse(sections({"slice.zones": [*ZONES]}), "test")
#: Where Google itself says when the run of a node ends.
SAID_TO_END = ZONES[1]
ENDING = {"schedulingConfig": {"terminationTimestamp": "2027-01-02T09:30:00Z"}}
#: The clock of the reading, long after every run in the table.
NOW = datetime(2027, 1, 2, tzinfo=UTC)


@dataclass(frozen=True)
class Held:
    """What a zone holds: a queued resource and a node in these states, or none."""

    condition: Condition
    request: str = ""
    node: str = ""


#: In the order in which they are the slice: docs/adr/0012-one-reading-of-a-slice.md.
CASES = (
    Held(Condition.ACTIVE, "ACTIVE", "READY"),
    Held(Condition.PROVISIONING, "PROVISIONING"),
    Held(Condition.WAITING, "WAITING_FOR_RESOURCES"),
    Held(Condition.ENDED, "SUSPENDED"),
    Held(Condition.FAILED, "FAILED"),
    Held(Condition.NODE_MISSING, "ACTIVE", "PREEMPTED"),
    Held(Condition.ORPHANED, "", "READY"),
    Held(Condition.DELETING, "DELETING", "DELETING"),
)
#: Both are lost: the first zone counts.
EQUAL = {Condition.NODE_MISSING, Condition.ORPHANED}


@dataclass(frozen=True)
class Zones:
    """The TPU API over zones that hold different things, each node with times of its own."""

    held: tuple[Held, ...]

    def __call__(self, sent: Sent) -> Reply:
        place, collection = sent.path.split("/")[3], sent.path.split("/")[4]
        read = self.request if collection == "queuedResources" else self.node
        if sent.path.endswith(collection):
            places = ZONES if place == "-" else (place,)
            return {collection: [here for zone in places if (here := read(zone)) is not None]}
        found: JsonObject | None = read(place)
        if found is None or sent.path.endswith(":getGuestAttributes"):
            return missing(sent.path)
        return found

    def request(self, zone: str) -> Any:
        here = self.held[ZONES.index(zone)]
        if not here.request:
            return None
        name = f"projects/{PROJECT}/locations/{zone}/queuedResources/slice-g1"
        return {**queued(here.request, asked(zone)), "name": name}

    def node(self, zone: str) -> Any:
        index = ZONES.index(zone)
        if not self.held[index].node:
            return None
        return node(
            self.held[index].node,
            asked(zone),
            name=f"projects/{PROJECT}/locations/{zone}/nodes/slice-g1",
            createTime=f"2027-01-0{index + 1}T08:00:00Z",
            networkEndpoints=[{"ipAddress": f"10.0.{index}.2"}],
            **(ENDING if zone == SAID_TO_END else {}),
        )


def asked(zone: str) -> Any:
    return args(**{**ASKED, "zones": [zone]})


def provider(zones: Zones) -> ReadResult:
    call, _, _ = scripted(zones, FakeTime(now=NOW.timestamp() - 1.8e9))
    names = [f"projects/{PROJECT}/locations/{zone}/queuedResources/slice-g1" for zone in ZONES]
    found = read(call, names[0], ASKED, {"requests": [*names]})
    assert found is not None
    return found


def status(zones: Zones) -> SliceStatus:
    call, _, _ = scripted(zones)
    return slice_status(SETTINGS, NAMES, call.client, now=NOW)


def question(zones: Zones) -> str:
    """The URL that `ask` would call, or what it says of the slice that has none."""
    call, _, _ = scripted(zones)
    stack = SimpleNamespace(name="dev", embedded=False, settings=SETTINGS, names=NAMES)
    cloud: Any = SimpleNamespace(stack=stack, tpu=call.client, recorded_zones=())
    try:
        return SETTINGS.url(serving_slice(cloud).address)
    except NotFoundError as error:
        return error.message


def recovered(zones: Zones) -> tuple[str, ...]:
    """Full name of what `recover` takes for the request, and of all that it knows of."""
    _, script, _ = scripted(zones)
    apis: Any = SimpleNamespace(tpu=script, of=lambda _kind: script)
    look = CloudLook(apis)
    finding = look(QUEUED_RESOURCE, ASKED)
    assert finding.presence in (Presence.OURS, Presence.ABSENT)
    return finding.id, *(each.id for each in look.generations(ASKED))


@pytest.mark.parametrize(
    "held",
    list(permutations(CASES, 3)),
    ids=lambda held: "-".join(each.condition.value for each in held),
)
def test_all_read_the_same_slice(held: tuple[Held, ...]) -> None:
    """Provider, `status`, `ask`, cost and `recover` agree which request is the slice, in what
    condition it is and when its run ends."""
    zones = Zones(held)
    where = {each: 5 if each.condition in EQUAL else CASES.index(each) for each in held}
    best = min(held, key=lambda each: where[each])
    zone = ZONES[held.index(best)]

    found, shown = provider(zones), status(zones)

    assert found.outputs["zone"] == shown.zone == zone
    assert found.seen.condition(LABELS) == shown.condition == best.condition
    assert found.outputs["lifecycle"] == shown.lifecycle == found.seen.lifecycle
    assert len(found.seen.also) == len(shown.others) == 2
    assert shown.expires == found.seen.expires
    # A node alone does not tell how long its run was to be, unless Google says when it ends.
    assert (shown.expires is not None) is bool(best.node and (best.request or zone == SAID_TO_END))
    if shown.expires is not None:
        assert found.outputs["expireTime"] == shown.expires.strftime("%Y-%m-%dT%H:%M:%SZ")

    address = f"10.0.{ZONES.index(zone)}.2"
    told = question(zones)
    assert address in told if best.node else f"slice-g1 is {best.request or NOT_FOUND}" in told

    # Whatever has a node is billed since it was made, whichever request is the slice.
    made = [datetime(2027, 1, day, 8, tzinfo=UTC) for day, each in enumerate(held, 1) if each.node]
    hours = [max(0, (NOW - since) // timedelta(hours=1)) for since in made]
    assert shown.cost(Decimal(1), NOW) == Decimal(sum(hours))

    name = str(found.seen.name)
    taken, *known = recovered(zones)
    assert set(known) == {name, *map(str, found.seen.also)}
    if best.request:  # it looks for requests; what is left of one is only in the list
        assert taken == name
