"""What is left behind is judged by its marks and by what states know."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from tests.operate.marked_things import (
    FIRST,
    NAMES,
    OTHER,
    STATE,
    STRANGER,
    ZONE,
    Api,
    clients,
    here,
    labelled,
    node,
    request,
)
from tpuflex.cli.sweep.run import show_swept
from tpuflex.deploy.leftovers import Swept, sweep_command
from tpuflex.errors import AccessError
from tpuflex.google.transport import JsonObject
from tpuflex.inventory.cloud_resource import CloudResource, Marker
from tpuflex.inventory.kinds import BUCKET, KINDS
from tpuflex.inventory.listing import Listing, list_all, list_slices
from tpuflex.naming import SECRET_ROLES, library_names
from tpuflex.operate.sweep import Disposition, Leftover, leftovers
from tpuflex.stack.connection import Connection
from tpuflex.terminal.output import Output

HELD = f"projects/123/locations/z/queuedResources/{FIRST}"
ELSEWHERE = "fedcba98765432100000"


def found(
    *items: CloudResource, known: tuple[str, ...] = (), slices: frozenset[str] = frozenset()
) -> tuple[Leftover, ...]:
    return leftovers(Listing(items, ()), here(*known), slices)


def judged(
    *items: CloudResource, known: tuple[str, ...] = (), slices: frozenset[str] = frozenset()
) -> list[tuple[str, str]]:
    """(what, disposition) of what stands out among ``items``."""
    return [
        (one.resource.title, one.disposition.value)
        for one in found(*items, known=known, slices=slices)
    ]


def secret(state_id: str = STATE) -> CloudResource:
    kind = next(kind for kind in KINDS if kind.name == "secret")
    name = NAMES.secret(SECRET_ROLES[0])
    path = f"projects/p/secrets/{name}"
    marker = Marker(NAMES.owner, "shop", "dev", state_id)
    return CloudResource(kind, name, "global", path, f"/v1/{path}", marker)


class TestJudgement:
    def test_orphan(self) -> None:
        """What is ours and no state knows is an orphan."""
        assert judged(request()) == [(f"queued resource {FIRST}", "orphan")]

    def test_known(self) -> None:
        """What any state knows is not listed."""
        assert judged(request(), known=(request().id,)) == []

    @pytest.mark.parametrize("state", ["SUSPENDED", "FAILED"])
    def test_quota_only(self, state: str) -> None:
        """A leftover that only uses quota is listed with its reason, though a state knows it."""
        item = request(state=state)
        (one,) = found(item, known=(item.id,))

        assert one.disposition is Disposition.QUOTA_ONLY
        assert "uses quota" in one.reason
        assert "tpuflex down --stack dev" in one.reason

    def test_stack_that_is_not_known(self) -> None:
        """S5: a colleague's stack has its state elsewhere: listed with its stack, never deleted."""
        (one,) = found(request(names=STRANGER, state_id=ELSEWHERE))

        assert one.disposition is Disposition.FOREIGN
        assert one.stack == "alice"
        assert ELSEWHERE in one.reason

    def test_a_library_is_listed_and_never_an_orphan(self) -> None:
        """Weights are no leftovers: of a library's bucket that no state here knows nothing is
        deleted, whatever is named; one that a state knows is not listed."""
        names = library_names("p")
        bucket = CloudResource(
            *(BUCKET, names.bucket("p", "us-east5"), "us-east5"),
            *("the-bucket", "/storage/v1/b/the-bucket"),
            Marker(names.owner, "tpuflex-library", "p", STATE),
            project_number="123",
        )

        (one,) = found(bucket, slices=frozenset({"the-bucket"}))

        assert one.disposition is Disposition.LIBRARY
        assert "tpuflex library status" in one.reason
        assert judged(bucket, known=("the-bucket",)) == []

    def test_the_same_stack_with_another_state(self) -> None:
        """S5: a colleague's clone of the project has the same stack and another state."""
        (one,) = found(request(state_id=ELSEWHERE))

        assert one.disposition is Disposition.FOREIGN
        assert one.reason == f"it was made by another state ({ELSEWHERE})"

    def test_other_project(self) -> None:
        """Another Pulumi project's resources are not even listed."""
        assert judged(request(names=OTHER, state_id=ELSEWHERE)) == []

    def test_what_says_nothing(self) -> None:
        """What has no mark of ours is not listed."""
        strange = replace(request("somebody-elses"), marker=Marker())

        assert judged(strange) == []

    def test_our_name_alone(self) -> None:
        """What has our name and nothing else is listed, and is not ours."""
        (one,) = found(replace(request(), marker=Marker()))

        assert one.disposition is Disposition.FOREIGN
        assert one.reason.startswith("it has no owner marker")

    def test_nodes(self) -> None:
        """A node goes with its queued resource; one that none holds is an orphan of its own,
        whether Google names the project by id or by number."""
        held = node(holder=HELD)

        assert judged(request(), held) == [(f"queued resource {FIRST}", "orphan")]
        assert judged(held, known=(request().id,)) == []
        assert judged(held) == [(f"node {FIRST}", "orphan")]
        assert judged(node()) == [(f"node {FIRST}", "orphan")]

    def test_several_nodes(self) -> None:
        """All nodes of one request go with it; without it, each is an orphan of its own."""
        nodes = [node(f"{FIRST}-{n}", HELD) for n in range(3)]

        assert judged(request(), *nodes) == [(f"queued resource {FIRST}", "orphan")]
        assert judged(*nodes) == [(f"node {FIRST}-{n}", "orphan") for n in range(3)]

    def test_a_state_of_an_older_version(self) -> None:
        """What no state knows and carries no id is not ours without a word."""
        item = request(state_id="")
        (one,) = found(item)

        assert one.disposition is Disposition.FOREIGN
        assert "made by hand" in one.reason
        assert judged(item, known=(item.id,)) == []


class TestWhatRuns:
    def test_is_spared(self) -> None:
        """S5: a slice that runs is not swept without its name, and neither is what it needs."""
        running = found(request(state="ACTIVE"), secret())

        assert {one.disposition for one in running} == {Disposition.RUNNING}
        assert f"--slice {FIRST}" in running[0].reason
        assert FIRST in running[1].reason

    def test_may_be_named(self) -> None:
        """Its name gives it free, and what it needs."""
        named = found(request(state="ACTIVE"), secret(), slices=frozenset({FIRST}))

        assert {one.disposition for one in named} == {Disposition.ORPHAN}

    def test_a_node_runs_by_itself(self) -> None:
        """A node that no request holds may serve all the same."""
        (one,) = found(node(state="READY"))

        assert one.disposition is Disposition.RUNNING

    def test_a_foreign_slice_is_not_named_into_ours(self) -> None:
        """The name of a slice that runs does not make it ours, and it needs the rest."""
        theirs = request(state="ACTIVE", state_id=ELSEWHERE)

        assert judged(theirs, secret(), slices=frozenset({FIRST})) == [
            (f"queued resource {FIRST}", "foreign"),
            (secret().title, "running"),
        ]

    def test_has_become_active_meanwhile(self) -> None:
        """What was in the queue when it was listed and runs now is spared."""
        (one,) = found(request())

        assert one.objection(request()) == ""
        assert "it runs" in one.objection(request(state="ACTIVE"))


class TestListing:
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

        for listing in (
            list_all(clients(tpu=tpu), "p", ("z",)),
            list_slices(clients(tpu=tpu), "p", ("z",)),
        ):
            assert [item.id for item in listing.resources] == [
                f"{ZONE}/queuedResources/a",
                there["name"],
            ]
            assert [item.location for item in listing.resources] == ["z", "y"]
            assert listing.unlisted == ()

    def test_roles(self) -> None:
        """Roles are listed of accounts that carry a marker and of those that are named; they carry
        what their account carries."""
        email = "host@p.iam.gserviceaccount.com"
        iam = Api(
            {
                "GET /v1/projects/p/serviceAccounts": {
                    "accounts": [
                        {"email": email, "description": NAMES.description(STATE)},
                        {"email": "strange@p.iam.gserviceaccount.com"},
                    ]
                }
            }
        )
        members = [
            f"serviceAccount:{email}",
            "user:somebody",
            "serviceAccount:strange@p.iam.gserviceaccount.com",
            "deleted:serviceAccount:gone@p.iam.gserviceaccount.com?uid=1",
        ]
        policy = Api(
            {"POST /v1/projects/p:getIamPolicy": {"bindings": [{"role": "r", "members": members}]}}
        )

        listing = list_all(
            clients(iam=iam, resourcemanager=policy),
            "p",
            ("z",),
            ("gone@p.iam.gserviceaccount.com",),
        )

        roles = [item for item in listing.resources if item.member]
        assert [(item.id, item.marker.state_id) for item in roles] == [
            (f"p/r/{members[0]}", STATE),
            (f"p/r/{members[3]}", ""),
        ]


def test_a_lost_state_is_rebuilt_for_its_own_stack(capsys: pytest.CaptureFixture[str]) -> None:
    """Advice about what another state has made names the stack of that one, not this command's."""
    left = found(request(state_id=ELSEWHERE, names=STRANGER))

    swept = Swept(cast("Connection", None), here(), Listing((), ()), tuple(left))
    show_swept(Output(json=False, verbose=False), swept)

    assert "`tpuflex recover --stack alice --take-over`" in capsys.readouterr().out


def test_the_command_that_deletes_a_slice_names_it() -> None:
    """The slice, which runs; one of another state it leaves out."""
    ours, theirs = (
        found(request(state="ACTIVE")),
        found(request(state="ACTIVE", state_id=ELSEWHERE)),
    )

    assert str(sweep_command(ours)) == f"tpuflex sweep --yes --slice {FIRST}"
    assert sweep_command(theirs).for_stack("prod", {}) == "tpuflex sweep --stack prod --yes"
