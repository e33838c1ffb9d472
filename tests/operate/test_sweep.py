"""What is left behind is found by marker, judged by what states know, and deleted with care."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tpuflex.errors import AccessError, ApiError, ConflictError, NotFoundError, TpuflexError
from tpuflex.gcp.inventory import Apis
from tpuflex.gcp.marked import Listing, Marked, list_marked
from tpuflex.gcp.transport import JsonObject
from tpuflex.naming import ENDPOINT_NAME, Names
from tpuflex.operate.sweep import Here, Leftover, Standing, delete, leftovers

NAMES = Names("shop", "dev", ENDPOINT_NAME)
STRANGER = Names("shop", "alice", ENDPOINT_NAME)
OTHER = Names("elsewhere", "dev", ENDPOINT_NAME)
ZONE = "projects/p/locations/z"


def here(*known: str) -> Here:
    return Here("shop", "p", ("dev",), frozenset(known))


def request(id_: str = "q", state: str = "ACTIVE", names: Names = NAMES) -> Marked:
    name = f"{ZONE}/queuedResources/{id_}"
    labels = names.labels()
    return Marked(
        kind="queued resource",
        name=id_,
        location="z",
        id=name,
        service="tpu",
        path=f"/v2alpha1/{name}",
        owner=names.owner,
        project=labels["tpuflex-project"],
        stack=labels["tpuflex-stack"],
        state=state,
    )


def node(id_: str = "q", holder: str = "") -> Marked:
    name = f"{ZONE}/nodes/{id_}"
    labels = NAMES.labels()
    return Marked(
        kind="node",
        name=id_,
        location="z",
        id=name,
        service="tpu",
        path=f"/v2alpha1/{name}",
        owner=NAMES.owner,
        project="shop",
        stack=labels["tpuflex-stack"],
        state="READY",
        holder=holder,
    )


def judged(*items: Marked, known: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """(name, standing) of what stands out among ``items``."""
    found = leftovers(Listing(items, ()), here(*known))
    return [(f"{one.item.kind} {one.item.name}", one.standing.value) for one in found]


class TestJudgement:
    def test_orphan(self) -> None:
        """What no state knows is an orphan."""
        assert judged(request()) == [("queued resource q", "orphan")]

    def test_known(self) -> None:
        """What any state knows is not listed."""
        assert judged(request(), known=(request().id,)) == []

    @pytest.mark.parametrize("state", ["SUSPENDED", "FAILED"])
    def test_husk(self, state: str) -> None:
        """A leftover that only uses quota is listed with its reason, though a state knows it."""
        item = request(state=state)
        (found,) = leftovers(Listing((item,), ()), here(item.id))

        assert found.standing is Standing.HUSK
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


class Api:
    """An API whose answers are given; it remembers what was asked."""

    def __init__(self, answers: Mapping[str, Any] | None = None) -> None:
        self.answers = dict(answers or {})
        self.calls: list[str] = []

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: JsonObject | None = None,
        budget: float = 0.0,
    ) -> JsonObject:
        del body, budget
        token = (query or {}).get("pageToken", "")
        self.calls.append(f"{method} {path}")
        key = f"{method} {path}{f'#{token}' if token else ''}"
        answer = self.answers.get(key, {} if method != "GET" else None)
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if isinstance(answer, TpuflexError):
            raise answer
        if answer is None:
            raise NotFoundError(f"{path} is not there")
        found: JsonObject = answer
        return found


def clients(**given: Api) -> Apis:
    names = ("tpu", "storage", "secretmanager", "compute", "iam", "resourcemanager")
    return Apis(**{name: given.get(name, Api()) for name in names})


def labelled(id_: str, names: Names = NAMES) -> JsonObject:
    """A queued resource as the API lists it."""
    spec: JsonObject = {"node": {"labels": {**names.labels()}}}
    return {
        "name": f"projects/123/locations/z/queuedResources/{id_}",
        "state": {"state": "ACTIVE"},
        "tpu": {"nodeSpec": [spec]},
    }


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

        assert [(item.name, item.owner, item.stack) for item in found.found] == [
            ("a", NAMES.owner, "dev"),
            ("b", NAMES.owner, "dev"),
        ]
        assert found.found[0].id == f"{ZONE}/queuedResources/a"
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
                        {"name": "n", "description": NAMES.description},
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

        assert {(item.kind, item.id) for item in found.found} == {
            ("network", "projects/p/global/networks/n"),
            ("project role", f"p/roles/x/{member}"),
        }


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


def orphan(item: Marked) -> Leftover:
    return Leftover(item, "dev", Standing.ORPHAN, "no state knows it")


def deletion(api: Api, *items: Marked) -> list[str]:
    """What is wrong with each after its deletion; empty when it is gone."""
    clock = Clock()
    found = delete(
        [orphan(item) for item in items],
        clients(tpu=api),
        say=lambda _: None,
        now=clock.now,
        sleep=clock.sleep,
    )
    return [one.problem for one in found]


PATH = f"/v2alpha1/{ZONE}/queuedResources/q"


class TestDeletion:
    def test_waits_until_it_is_gone(self) -> None:
        """A deletion counts when the thing is gone, and is asked for once."""
        api = Api({f"GET {PATH}": [labelled("q"), labelled("q"), NotFoundError("gone")]})

        assert deletion(api, request()) == [""]
        assert api.calls.count(f"DELETE {PATH}") == 1

    def test_asks_again_while_it_cannot_be_deleted(self) -> None:
        """PROVISIONING cannot be deleted: it is asked for again."""
        busy = ConflictError("being provisioned", status=400)
        api = Api(
            {
                f"GET {PATH}": [labelled("q")] * 3 + [NotFoundError("gone")],
                f"DELETE {PATH}": [busy, {}],
            }
        )

        assert deletion(api, request()) == [""]
        assert api.calls.count(f"DELETE {PATH}") == 2

    def test_another_marker_by_now(self) -> None:
        """What carries another marker by now is not touched."""
        api = Api({f"GET {PATH}": labelled("q", OTHER)})

        (problem,) = deletion(api, request())

        assert "another marker" in problem
        assert not [call for call in api.calls if call.startswith("DELETE")]

    def test_one_failure_does_not_stop_the_others(self) -> None:
        """Each thing is tried; what is still there in the end is said."""
        api = Api(
            {
                f"GET {PATH}": labelled("q"),
                f"DELETE {PATH}": ApiError("no", status=500),
                f"GET /v2alpha1/{ZONE}/nodes/n": NotFoundError("gone"),
            }
        )

        assert deletion(api, request(), node("n")) == ["no", ""]

    def test_stuck(self) -> None:
        """Patience ends, and what is left is not called gone."""
        assert deletion(Api({f"GET {PATH}": labelled("q")}), request()) == ["it is still there"]
