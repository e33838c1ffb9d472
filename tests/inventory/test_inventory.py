"""Everything that is an endpoint's, by marker and by name, over answers of the services."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from pydantic import JsonValue

from tests.operate.marked_things import Api
from tests.provider.fakes import FakeTime
from tpuflex.deploy.teardown_proof import prove_empty
from tpuflex.errors import (
    AccessError,
    ApiError,
    IncompleteTeardownError,
    NotFoundError,
    ServiceDisabledError,
    TpuflexError,
)
from tpuflex.google.apis import Apis
from tpuflex.inventory.inventory import Inventory, Item, Scope, take_inventory
from tpuflex.inventory.listing import Unlisted
from tpuflex.naming import ENDPOINT_NAME, Names

NAMES = Names("tpuflex", "dev", ENDPOINT_NAME)
SCOPE = Scope("p", ("us-east5-a", "us-east5-b"), NAMES)
ZONE = "/v2alpha1/projects/p/locations/us-east5-a"
Answer = dict[str, JsonValue] | TpuflexError


def inventory(answers: Mapping[str, Answer]) -> Inventory:
    """``answers`` are by path, with ``#TOKEN`` for a page; any other path has nothing."""
    methods = {path: "POST" if "Policy" in path else "GET" for path in answers}
    api = Api({f"{methods[path]} {path}": answer for path, answer in answers.items()})
    return take_inventory(SCOPE, Apis(**dict.fromkeys(Apis.__annotations__, api)))


def labels(owner: str = NAMES.owner) -> dict[str, JsonValue]:
    return {"tpuflex-owner": owner}


def shown(found: Inventory) -> tuple[Item, ...]:
    """What is listed, without the reasons why some of it is not proved to be ours."""
    return tuple(replace(item, foreign="") for item in found.items)


def test_d2_places_that_only_the_state_names_are_looked_at() -> None:
    """After a change of region, what is in the old one is listed, by its name, too."""
    zone, region = "projects/p/locations/us-west1-c", "projects/p/regions/us-west1"
    node: dict[str, JsonValue] = {
        "name": f"{zone}/nodes/g1",
        "labels": labels(),
        "queuedResource": f"{zone}/queuedResources/g1",
    }
    net: dict[str, JsonValue] = {"name": NAMES.compute("subnet"), "description": "somebody's"}
    api = Api(
        {
            f"GET /v2alpha1/{zone}/nodes": {"nodes": [node]},
            f"GET /compute/v1/{region}/subnetworks": {"items": [net]},
        }
    )
    known = {f"{zone}/queuedResources/g1", f"{region}/subnetworks/{NAMES.compute('subnet')}"}
    clients = Apis(**dict.fromkeys(Apis.__annotations__, api))

    found = take_inventory(replace(SCOPE, known=frozenset(known)), clients)

    assert {(item.kind, item.location) for item in found.ours} == {
        ("node", "us-west1-c"),
        ("subnetwork", "us-west1"),
    }
    assert take_inventory(SCOPE, clients).items == ()


class TestOwnership:
    def test_by_label(self) -> None:
        """A resource with our owner label is ours, whatever its name."""
        name = "projects/p/locations/us-east5-a/nodes/odd"
        node: dict[str, JsonValue] = {"name": name, "labels": labels(), "state": "READY"}
        bucket: dict[str, JsonValue] = {"name": "b", "location": "US-EAST5", "labels": labels()}
        found = inventory(
            {f"{ZONE}/nodes": {"nodes": [node]}, "/storage/v1/b": {"items": [bucket]}}
        )

        assert shown(found) == (
            Item("node", "odd", "us-east5-a", "READY"),
            Item("bucket", "b", "us-east5"),
        )

    def test_a_foreign_label_beats_our_name(self) -> None:
        """A resource that carries another marker is not ours, even under our name."""
        name = NAMES.bucket("p", "us-east5")
        bucket: dict[str, JsonValue] = {"name": name, "labels": labels("somebody")}

        assert inventory({"/storage/v1/b": {"items": [bucket]}}).empty

    def test_by_exact_name(self) -> None:
        """A resource without a marker is ours by its exact name only."""
        name = NAMES.compute("net")
        networks: list[JsonValue] = [{"name": name}, {"name": f"{name}-2"}]
        found = inventory({"/compute/v1/projects/p/global/networks": {"items": networks}})

        assert [item.name for item in found.items] == [name]

    @pytest.mark.parametrize("generation", [1, 2, 97])
    def test_every_generation_by_name(self, generation: int) -> None:
        """A node without labels is ours under the name of any generation, and of none other."""
        mine = f"{ZONE.removeprefix('/v2alpha1/')}/nodes/{NAMES.queued_resource_id(generation)}"
        nodes: list[JsonValue] = [{"name": mine}, {"name": f"{mine}0x"}, {"name": f"{mine}-g1"}]
        found = inventory({f"{ZONE}/nodes": {"nodes": nodes}})

        assert [item.name for item in found.items] == [NAMES.queued_resource_id(generation)]

    def test_by_description(self) -> None:
        """What cannot carry labels is ours by its description."""
        router: dict[str, JsonValue] = {"name": "r", "description": NAMES.description()}
        found = inventory({"/compute/v1/projects/p/regions/us-east5/routers": {"items": [router]}})

        assert shown(found) == (Item("router", "r", "us-east5"),)

    def test_queued_resource(self) -> None:
        """A queued resource is marked by the labels of its node spec."""
        request: dict[str, JsonValue] = {
            "name": "projects/p/locations/us-east5-a/queuedResources/q",
            "state": {"state": "WAITING_FOR_RESOURCES"},
            "tpu": {"nodeSpec": [{"node": {"labels": labels()}}]},
        }
        found = inventory({f"{ZONE}/queuedResources": {"queuedResources": [request]}})

        assert shown(found) == (
            Item("queued resource", "q", "us-east5-a", "WAITING_FOR_RESOURCES"),
        )

    def test_a_node_is_whose_request_holds_it(self) -> None:
        """The labels of the node are anybody's; the request's are nobody's to change."""
        spec = {"nodeSpec": [{"node": {"labels": labels()}}]}
        id_ = NAMES.queued_resource_id()
        request: dict[str, JsonValue] = {
            "name": f"projects/p/locations/us-east5-a/queuedResources/{id_}",
            "tpu": spec,  # type: ignore[dict-item]
        }
        node: dict[str, JsonValue] = {
            "name": f"projects/p/locations/us-east5-a/nodes/{id_}",
            "queuedResource": f"projects/123/locations/us-east5-a/queuedResources/{id_}",
        }
        found = inventory(
            {
                f"{ZONE}/queuedResources": {"queuedResources": [request]},
                f"{ZONE}/nodes": {"nodes": [node]},
            }
        )

        assert [(item.kind, item.foreign) for item in found.items] == [
            ("queued resource", ""),
            ("node", ""),
        ]

    def test_roles_of_the_account(self) -> None:
        """Roles on the project are found, also those of an account that was deleted."""
        member = f"serviceAccount:{SCOPE.service_account}"
        policy: dict[str, JsonValue] = {
            "bindings": [
                {"role": "roles/a", "members": [member, "user:somebody"]},
                {"role": "roles/b", "members": [f"deleted:{member}?uid=1"]},
                {"role": "roles/c", "members": ["user:somebody"]},
            ]
        }
        found = inventory({"/v1/projects/p:getIamPolicy": policy})

        assert [(item.name, item.detail) for item in found.items] == [
            ("roles/a", ""),
            ("roles/b", "of a deleted account"),
        ]


class TestCompleteness:
    def test_all_pages(self) -> None:
        """Every page is read."""
        first: dict[str, JsonValue] = {
            "secrets": [{"name": "projects/p/secrets/a", "labels": labels()}],
            "nextPageToken": "2",
        }
        second: dict[str, JsonValue] = {
            "secrets": [{"name": "projects/p/secrets/b", "labels": labels()}]
        }
        found = inventory({"/v1/projects/p/secrets": first, "/v1/projects/p/secrets#2": second})

        assert [item.name for item in found.items] == ["a", "b"]

    def test_unreachable_zone(self) -> None:
        """A location that did not answer makes the list incomplete."""
        found = inventory({f"{ZONE}/nodes": {"unreachable": ["locations/us-east5-a"]}})

        assert [*map(str, found.unlisted)] == ["nodes: locations/us-east5-a is unreachable"]
        assert not found.empty

    def test_other_zones(self) -> None:
        """What an earlier program had asked for in another zone is found, and once."""
        names = [f"projects/p/locations/{zone}/nodes/odd" for zone in ("us-east5-a", "us-west1-c")]
        nodes: list[JsonValue] = [{"name": name, "labels": labels()} for name in names]
        anywhere = "/v2alpha1/projects/p/locations/-/nodes"
        found = inventory({f"{ZONE}/nodes": {"nodes": nodes[:1]}, anywhere: {"nodes": nodes}})

        assert [(i.name, i.location) for i in found.items] == [
            ("odd", "us-east5-a"),
            ("odd", "us-west1-c"),
        ]

    @pytest.mark.parametrize(
        "answer",
        [AccessError("no right"), ApiError("broken"), {"unreachable": ["locations/us-west1-c"]}],
    )
    def test_zones_that_were_not_asked_for_are_no_proof(self, answer: Answer) -> None:
        """Whether all zones can be listed at once is not documented: it only ever adds."""
        anywhere = "/v2alpha1/projects/p/locations/-/queuedResources"

        assert inventory({anywhere: answer}).empty

    @pytest.mark.parametrize("error", [AccessError("no right"), ApiError("broken")])
    def test_refusal(self, error: TpuflexError) -> None:
        """A service that refuses is reported; the others are still asked."""
        bucket: dict[str, JsonValue] = {"items": [{"name": "b", "labels": labels()}]}
        found = inventory({"/v1/projects/p/secrets": error, "/storage/v1/b": bucket})

        assert [*map(str, found.unlisted)] == [f"secrets: {error.message}"]
        assert [item.name for item in found.items] == ["b"]

    def test_a_project_that_never_had_cloud_dns_has_no_zones(self) -> None:
        """An endpoint whose hosts may reach the internet needs no zones, and is taken down all
        the same; any other API that is not enabled hides what there may be."""
        disabled = ServiceDisabledError("not enabled")
        zones, secrets = "/dns/v1/projects/p/managedZones", "/v1/projects/p/secrets"

        assert inventory({zones: disabled}).empty
        assert [*map(str, inventory({secrets: disabled}).unlisted)] == ["secrets: not enabled"]

    def test_a_place_that_does_not_exist_is_empty(self) -> None:
        """404 on a collection is proof that nothing is in it."""
        assert inventory({"/v1/projects/p/serviceAccounts": NotFoundError("no")}).empty


class TestProof:
    def prove(self, *found: Inventory) -> tuple[Inventory, float]:
        time = FakeTime(now=0.0)
        answers = list(found)
        taken = prove_empty(
            lambda: answers.pop(0) if len(answers) > 1 else answers[0],
            timing=time.timing(),
            project="p",
        )
        return taken, time.now

    def test_listings_lag(self) -> None:
        """What is still listed for a moment is waited for."""
        item = Item("bucket", "b", "us-east5")

        taken, waited = self.prove(Inventory((item,)), Inventory((item,)), Inventory(()))

        assert taken.empty
        assert waited == 2.0

    def test_leftover(self) -> None:
        """What stays is listed, with exit code 10."""
        with pytest.raises(IncompleteTeardownError) as caught:
            self.prove(Inventory((Item("bucket", "b", "us-east5"),)))

        assert caught.value.message == "Something is left:\n  left: bucket b (us-east5)"
        assert caught.value.exit_code == 10

    def test_not_looked_at(self) -> None:
        """Nothing seen is no proof when a place did not answer."""
        with pytest.raises(IncompleteTeardownError, match="not proved"):
            self.prove(Inventory((), (Unlisted("buckets", "", "503", "503"),)))
