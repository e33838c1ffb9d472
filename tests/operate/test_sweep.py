"""What is left behind is found by marker, and judged by what states know."""

from __future__ import annotations

import pytest

from tests.operate.marked_things import (
    NAMES,
    OTHER,
    STRANGER,
    ZONE,
    Api,
    clients,
    here,
    labelled,
    node,
    request,
)
from tpuflex.errors import AccessError
from tpuflex.gcp.listing import CloudResource, Listing, list_marked, list_slices
from tpuflex.gcp.transport import JsonObject
from tpuflex.operate.sweep import Disposition, leftovers


def judged(*items: CloudResource, known: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """(name, disposition) of what stands out among ``items``."""
    found = leftovers(Listing(items, ()), here(*known))
    return [
        (f"{one.resource.kind.name} {one.resource.name}", one.disposition.value) for one in found
    ]


class TestJudgement:
    def test_orphan(self) -> None:
        """What no state knows is an orphan."""
        assert judged(request()) == [("queued resource q", "orphan")]

    def test_known(self) -> None:
        """What any state knows is not listed."""
        assert judged(request(), known=(request().id,)) == []

    @pytest.mark.parametrize("state", ["SUSPENDED", "FAILED"])
    def test_quota_only(self, state: str) -> None:
        """A leftover that only uses quota is listed with its reason, though a state knows it."""
        item = request(state=state)
        (found,) = leftovers(Listing((item,), ()), here(item.id))

        assert found.disposition is Disposition.QUOTA_ONLY
        assert "uses quota" in found.reason
        assert "tpuflex down --stack dev" in found.reason

    def test_stack_that_is_not_known(self) -> None:
        """A colleague's stack has its state elsewhere: listed, but not taken for an orphan."""
        assert judged(request(names=STRANGER)) == [("queued resource q", "unknown stack")]

    def test_other_project(self) -> None:
        """Another Pulumi project's resources are not even listed."""
        assert judged(request(names=OTHER)) == []

    def test_nodes(self) -> None:
        """A node goes with its queued resource; one that none holds is an orphan of its own,
        whether Google names the project by id or by number."""
        held = node(holder="projects/123/locations/z/queuedResources/q")

        assert judged(request(), held) == [("queued resource q", "orphan")]
        assert judged(held, known=(request().id,)) == []
        assert judged(held) == [("node q", "orphan")]
        assert judged(node()) == [("node q", "orphan")]

    def test_several_nodes(self) -> None:
        """All nodes of one request go with it; without it, each is an orphan of its own."""
        nodes = [node(f"q-{n}", "projects/p/locations/z/queuedResources/q") for n in range(3)]

        assert judged(request(), *nodes) == [("queued resource q", "orphan")]
        assert judged(*nodes) == [(f"node q-{n}", "orphan") for n in range(3)]


class TestListing:
    def test_pages_and_markers(self) -> None:
        """All pages are read; what carries no marker is not listed."""
        path = f"GET /v2alpha1/{ZONE}/queuedResources"
        unmarked: JsonObject = {"name": f"{ZONE}/queuedResources/foreign"}
        tpu = Api(
            {
                path: {"queuedResources": [labelled("a"), unmarked], "nextPageToken": "2"},
                f"{path}#2": {"queuedResources": [labelled("b")]},
            }
        )

        found = list_marked(clients(tpu=tpu), "p", ("z",), {})

        assert [(item.name, item.owner, item.stack) for item in found.resources] == [
            ("a", NAMES.owner, "dev"),
            ("b", NAMES.owner, "dev"),
        ]
        assert found.resources[0].id == f"{ZONE}/queuedResources/a"
        assert found.unseen == ()

    def test_other_zones(self) -> None:
        """What is in none of the zones is listed beside, in its own; a refusal adds nothing."""
        path = "GET /v2alpha1/projects/p/locations/{}/queuedResources"
        there: JsonObject = {**labelled("a"), "name": "projects/p/locations/y/queuedResources/a"}
        tpu = Api(
            {
                path.format("z"): {"queuedResources": [labelled("a")]},
                path.format("-"): {"queuedResources": [labelled("a"), there]},
                "GET /v2alpha1/projects/p/locations/-/nodes": AccessError("no permission"),
            }
        )

        for found in (
            list_marked(clients(tpu=tpu), "p", ("z",), {}),
            list_slices(clients(tpu=tpu), "p", ("z",)),
        ):
            assert [item.id for item in found.resources] == [
                f"{ZONE}/queuedResources/a",
                there["name"],
            ]
            assert [item.location for item in found.resources] == ["z", "y"]
            assert found.unseen == ()

    def test_what_did_not_answer(self) -> None:
        """A refused zone and an unreachable location are named; the rest is listed."""
        refused = AccessError("no permission")
        tpu = Api(
            {
                f"GET /v2alpha1/{ZONE}/queuedResources": {"unreachable": ["y"]},
                f"GET /v2alpha1/{ZONE}/nodes": refused,
            }
        )

        found = list_marked(clients(tpu=tpu), "p", ("z",), {})

        assert set(found.unseen) == {
            "queued resources: y is unreachable",
            "nodes in z: no permission",
        }

    def test_descriptions_and_roles(self) -> None:
        """Networks are known by their description, roles by the account's name."""
        compute = Api(
            {
                "GET /compute/v1/projects/p/global/networks": {
                    "items": [
                        {"name": "n", "description": NAMES.description()},
                        {"name": "default", "description": "Default network"},
                    ]
                }
            }
        )
        member = "serviceAccount:host@p.iam.gserviceaccount.com"
        bindings: JsonObject = {
            "bindings": [{"role": "roles/x", "members": [member, "user:somebody"]}]
        }
        policy = Api({"POST /v1/projects/p:getIamPolicy": bindings})

        found = list_marked(
            clients(compute=compute, resourcemanager=policy),
            "p",
            ("z",),
            {"host@p.iam.gserviceaccount.com": NAMES.owner},
        )

        assert {(item.kind.name, item.id) for item in found.resources} == {
            ("network", "projects/p/global/networks/n"),
            ("project role", f"p/roles/x/{member}"),
        }
