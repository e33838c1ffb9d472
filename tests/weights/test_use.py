"""Who uses a set of weights now: by the bucket's policy, and by what slices boot with."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from tpuflex.errors import (
    AccessError,
    ApiError,
    NotFoundError,
    ServiceDisabledError,
    TpuflexError,
)
from tpuflex.google.queued_resources import NodeListing, QueuedResourceListing
from tpuflex.host.report import CONFIG_KEY
from tpuflex.inventory.library import READER_TITLE, prefix_condition, reader_title
from tpuflex.queued_resource.model import Node, NodeSpec, QueuedResource, QueuedResourceState, Tpu
from tpuflex.stack.connection import Connection
from tpuflex.stack.stack import Stack
from tpuflex.weights.stack_weights import StackWeights
from tpuflex.weights.use import User, Uses, weights_uses

PREFIX = "models/acme-tiny/1"
HOST = "serviceAccount:h@p.iam.gserviceaccount.com"
ANYWHERE = "-"


@dataclass
class Slices:
    """What Cloud TPU answers, by zone."""

    nodes: dict[str, NodeListing] = field(default_factory=dict)
    requests: dict[str, QueuedResourceListing] = field(default_factory=dict)
    errors: dict[str, TpuflexError] = field(default_factory=dict)

    def list_nodes(self, _project: str, zone: str) -> NodeListing:
        if zone in self.errors:
            raise self.errors[zone]
        return self.nodes.get(zone, NodeListing((), ()))

    def list_queued_resources(self, _project: str, zone: str) -> QueuedResourceListing:
        return self.requests.get(zone, QueuedResourceListing((), ()))


class Policy:
    """A bucket whose policy lets one endpoint's hosts read, and the caller do what is ``held``;
    or which may not be read."""

    def __init__(
        self,
        prefix: str = "",
        error: TpuflexError | None = None,
        title: str = READER_TITLE,
        also: str = "",
        held: tuple[str, ...] = ("storage.objects.delete",),
    ) -> None:
        self._prefix, self._error, self._title, self._also = prefix, error, title, also
        self._held = list(held)

    def call(self, *_words: object, **_query: object) -> dict[str, object]:
        if self._error is not None:
            raise self._error
        condition = {
            "title": self._title,
            "expression": prefix_condition("b", self._prefix) + self._also,
        }
        reading = {
            "role": "roles/storage.objectViewer",
            "members": [HOST],
            "condition": condition,
        }
        return {"bindings": [reading] if self._prefix else [], "permissions": self._held}


def uses_of(stack: Stack, slices: Slices, policy: Policy) -> tuple[list[str], list[str]]:
    """The users of the set, and what could not be looked at."""
    cloud = Connection(stack, {})
    vars(cloud)["tpu"] = slices
    vars(cloud)["apis"] = lambda: SimpleNamespace(storage=policy)
    found = weights_uses(StackWeights(cloud))
    return [*found.of(PREFIX)], [*found.unlisted]


def node(stack: Stack, name: str, prefix: str = PREFIX, bucket: str = "") -> Node:
    """A node that boots with the set at ``prefix``."""
    weights = {"bucket": bucket or Connection(stack, {}).bucket, "prefix": prefix}
    weights["manifest_sha256"] = "5a" * 32
    path = f"projects/p/locations/{name}"
    return Node(name=path, metadata={CONFIG_KEY: json.dumps({"weights": weights})})


def request(stack: Stack, name: str, state: str) -> QueuedResource:
    """A request whose node would."""
    return QueuedResource(
        name=f"projects/p/locations/{name}",
        tpu=Tpu(node_spec=(NodeSpec(node=node(stack, name)),)),
        state=QueuedResourceState(state=state),
    )


def test_an_endpoint_that_may_read(stack: Stack) -> None:
    """Whether or not its slice is there: its next `up` finds the weights."""
    users, unlisted = uses_of(stack, Slices(), Policy(PREFIX))
    assert (users, unlisted) == ([f"{HOST} may read it, an endpoint's account"], [])
    assert uses_of(stack, Slices(), Policy("models/other/1")) == ([], [])


def test_slices_that_boot_with_it(stack: Stack) -> None:
    """Nodes and live requests in any zone, each once; requests that are over, and what boots with
    other weights, do not."""
    zone = stack.settings.slice.zones[0]
    here = node(stack, f"{zone}/nodes/one")
    others = (
        node(stack, f"{zone}/nodes/two", "models/other/1"),
        node(stack, f"{zone}/nodes/three", bucket="elsewhere"),
        Node(name="projects/p/locations/z/nodes/somebodys"),
    )
    waiting = request(stack, f"{zone}/queuedResources/four", "WAITING_FOR_RESOURCES")
    over = request(stack, f"{zone}/queuedResources/five", "SUSPENDED")
    slices = Slices(
        {zone: NodeListing((here, *others), ()), ANYWHERE: NodeListing((here,), ())},
        {zone: QueuedResourceListing((waiting, over), ())},
    )

    assert uses_of(stack, slices, Policy()) == (
        [f"{zone}/nodes/one boots with it", f"{zone}/queuedResources/four boots with it"],
        [],
    )


def test_an_endpoint_is_told_from_the_others() -> None:
    """By the marker of its slice and by its account; a slice without a marker is another's."""
    mine = (User("my slice", owner="a1"), User("my account", member=HOST))
    theirs = (
        User("theirs", owner="b2"),
        User("another", member="serviceAccount:x"),
        User("?", "-"),
    )
    uses = Uses({PREFIX: (*mine, *theirs)})

    assert uses.others(PREFIX, "a1", HOST) == ("theirs", "another", "?")
    assert uses.others("models/other/1", "a1", HOST) == ()


def test_endpoints_of_one_account_are_told_apart(stack: Stack) -> None:
    """An account of the user's own serves several: each has a binding whose title names it."""
    cloud = Connection(stack, {})
    vars(cloud)["tpu"] = Slices()
    policy = Policy(PREFIX, title=reader_title("b2"))
    vars(cloud)["apis"] = lambda: SimpleNamespace(storage=policy)
    uses = weights_uses(StackWeights(cloud))

    assert len(uses.others(PREFIX, "a1", HOST)) == 1
    assert uses.others(PREFIX, "b2", HOST) == ()


def test_a_request_that_is_granted_meanwhile_is_seen(stack: Stack) -> None:
    """Its node is made between the two lists that are asked for: it is in one of them."""
    place = stack.settings.slice.zones[0]
    made = node(stack, f"{place}/nodes/one")

    class Granted(Slices):
        asked = 0

        def list_nodes(self, _project: str, zone: str) -> NodeListing:
            self.asked += 1
            return NodeListing((made,) if zone == place and self.asked > 1 else (), ())

        def list_queued_resources(self, _project: str, zone: str) -> QueuedResourceListing:
            self.asked += 1
            state = "ACTIVE" if self.asked > 1 else "PROVISIONING"
            there = request(stack, f"{place}/queuedResources/one", state)
            return QueuedResourceListing((there,) if zone == place else (), ())

    assert uses_of(stack, Granted(), Policy())[0] != []


DENIED = AccessError("denied")


@pytest.mark.parametrize(
    ("slices", "policy", "unlisted"),
    [
        (Slices(errors={ANYWHERE: ApiError("no such zone", status=400)}), Policy(), 1),
        (Slices(errors={ANYWHERE: NotFoundError("none")}), Policy(), 1),
        (Slices(errors={"us-east5-a": NotFoundError("none")}), Policy(), 0),
        (Slices(errors={ANYWHERE: ServiceDisabledError("TPU is off")}), Policy(), 0),
        (Slices(errors={ANYWHERE: DENIED}), Policy(), 1),
        (Slices(errors={ANYWHERE: ApiError("down", status=503)}), Policy(), 1),
        (Slices({ANYWHERE: NodeListing((), ("projects/p/locations/asia-east1-c",))}), Policy(), 0),
        (Slices({ANYWHERE: NodeListing((), ("projects/p/locations/us-east5-c",))}), Policy(), 1),
        (Slices(), Policy(error=DENIED), 1),
        (Slices(), Policy("models/acme-tiny", also=" || resource.name == 'x'"), 1),
        (Slices({ANYWHERE: NodeListing((Node(metadata={CONFIG_KEY: "{}"}),), ())}), Policy(), 1),
    ],
)
def test_what_could_not_be_looked_at_is_told(
    stack: Stack, slices: Slices, policy: Policy, unlisted: int
) -> None:
    """Unless it cannot matter: hosts of another region do not read this bucket, and a zone that is
    not there has none. Nor is an endpoint's binding understood that somebody has changed."""
    assert stack.settings.region == "us-east5"
    assert len(uses_of(stack, slices, policy)[1]) == unlisted
