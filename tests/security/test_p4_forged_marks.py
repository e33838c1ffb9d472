"""P4: what lacks one of the four marks is neither deleted nor adopted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import Api
from tests.security.forged import (
    ALL,
    ELSEWHERE,
    MAKERS,
    NAMES,
    OTHER_STATE,
    OURS,
    STATE,
    Forgery,
    Marks,
    adoptable,
    asked,
    client_of,
    cloud,
    left_behind,
    proper_subsets,
    sweep,
)
from tpuflex.inventory.cloud_resource import CloudResource, Marker
from tpuflex.inventory.kinds import KINDS
from tpuflex.inventory.ownership import Maker, Mark, differences, not_as_asked
from tpuflex.naming import account_email
from tpuflex.operate.sweep import Disposition
from tpuflex.recovery.look import CloudLook, Presence

__all__ = ["cloud"]


def there(cloud: EmbeddedCloud) -> dict[str, list[str]]:
    """Names of everything that exists, by service and kind, and who has roles in the projects."""
    named = {
        f"{service} {kind}": sorted(str(each["name"]) for each in resources)
        for service, kinds in cloud.cloud.inventory().items()
        for kind, resources in kinds.items()
    }
    api = Api(cloud.url)
    policies = {
        project: [api.call("POST", f"v1/projects/{project}:getIamPolicy", body={}).text]
        for project in (OURS, ELSEWHERE)
    }
    return {**named, **policies}


def named(marks: Marks) -> str:
    return "+".join(sorted(mark.name.lower() for mark in marks)) or "none"


def test_all_kinds_are_made() -> None:
    """The property is about every kind that is found by its marks."""
    made = {kind.name for kind in KINDS if kind.made and kind.found_by == "api"}

    assert set(MAKERS) == made


@pytest.mark.parametrize("right", proper_subsets(), ids=named)
def test_nothing_is_deleted_that_lacks_a_mark(cloud: EmbeddedCloud, right: Marks) -> None:
    """S5: every kind of resource, with every proper subset of the marks: 0 deletions."""
    Forgery(right).make_all(cloud.url)
    clients = client_of(cloud.url)
    before = there(cloud)

    found = left_behind(clients)
    deleted = sweep(clients, found)

    assert {each.disposition for each in found} <= {Disposition.FOREIGN}
    assert deleted == ()
    assert there(cloud) == before


@pytest.mark.parametrize("right", proper_subsets(), ids=named)
def test_nothing_is_adopted_that_lacks_a_mark(cloud: EmbeddedCloud, right: Marks) -> None:
    """S5, S6: every kind of resource, with every proper subset of the marks: 0 adoptions."""
    Forgery(right).make_all(cloud.url)
    look = CloudLook(client_of(cloud.url), (STATE,))

    found = {kind.name: look(kind.type, asked(kind)).presence for kind in adoptable()}

    assert set(found.values()) <= {Presence.FOREIGN, Presence.ABSENT}
    assert look.generations(asked(KINDS[0])) == ()


@pytest.mark.parametrize("right", proper_subsets(), ids=named)
def test_nothing_is_deleted_that_was_exchanged(cloud: EmbeddedCloud, right: Marks) -> None:
    """S5: what was ours when it was listed, and is made anew by somebody else before it is deleted,
    stays, however it is named and marked."""
    clients = client_of(cloud.url)
    Forgery(ALL).make_all(cloud.url)
    ours = left_behind(clients)
    assert {each.disposition for each in ours} == {Disposition.ORPHAN}
    sweep(clients, ours)
    Forgery(right).make_all(cloud.url)
    before = there(cloud)

    sweep(clients, ours)

    assert there(cloud) == before


def test_nothing_is_deleted_that_was_made_anew(cloud: EmbeddedCloud) -> None:
    """S5: what was made anew under its name with all marks is not what was listed; only a role
    has nothing that tells the two apart."""
    clients = client_of(cloud.url)
    Forgery(ALL).make_all(cloud.url)
    ours = left_behind(clients)
    sweep(clients, ours)
    Forgery(ALL).make_all(cloud.url)
    before = there(cloud)

    sweep(clients, ours)

    assert {**there(cloud), OURS: []} == {**before, OURS: []}


def test_what_has_all_marks_is_deleted_and_adopted(cloud: EmbeddedCloud) -> None:
    """The same resources with all marks are ours: the property does not hold for want of any."""
    Forgery(ALL).make_all(cloud.url)
    clients = client_of(cloud.url)
    look = CloudLook(clients)

    presences = {kind.name: look(kind.type, asked(kind)).presence for kind in adoptable()}
    found = left_behind(clients)
    problems = [each.problem for each in sweep(clients, found)]

    assert set(presences.values()) == {Presence.OURS}
    assert {each.resource.kind.name for each in found} == {*MAKERS, "project role"}
    assert set(problems) == {""}
    assert left_behind(clients) == []


def test_a_state_that_this_home_has_not_seen(cloud: EmbeddedCloud) -> None:
    """S5: in another home all of it is foreign."""
    Forgery(ALL).make_all(cloud.url)

    found = left_behind(client_of(cloud.url), states=frozenset({OTHER_STATE}))

    assert {each.disposition for each in found} == {Disposition.FOREIGN}


OWNERS = st.sampled_from(["", "0" * 16, NAMES.owner.upper(), f"{NAMES.owner} ", NAMES.owner[:-1]])
STATES = st.sampled_from(["", OTHER_STATE, STATE.upper(), STATE[:-1], f"{STATE}0"])
NUMBERS = st.sampled_from(["", "0", "2", "11", "1 "])
MADE = [kind for kind in KINDS if kind.found_by != "plugin" and kind.made]


@given(
    kind=st.sampled_from(MADE),
    right=st.sets(st.sampled_from(Mark)),
    owner=OWNERS,
    state=STATES,
    number=NUMBERS,
    end=st.sampled_from(["x", "-", "-g2", "-0", " ", "\n", "/"]),
)
def test_every_wrong_mark_is_named(
    kind: Any, right: set[Mark], owner: str, state: str, number: str, end: str
) -> None:
    """S5: the judgement finds exactly the marks that are wrong, whatever is in their place."""
    region = "us-east5"
    if kind.by_generation:
        given_name = NAMES.queued_resource_id()
    elif kind.named_by_google:
        given_name = NAMES.shown()
    else:
        given_name = next(iter(kind.names(NAMES, OURS, region)))
    email = account_email(NAMES.service_account_id(), OURS)
    resource = CloudResource(
        kind=kind,
        name=given_name if Mark.NAME in right else f"x{given_name}{end}",
        location=region,
        id="",
        path="",
        marker=Marker(
            NAMES.owner if Mark.OWNER in right else owner,
            state_id=STATE if Mark.STATE in right else state,
        ),
        project_number="1" if Mark.PROJECT in right else number,
        member=f"serviceAccount:{email}" if kind.found_by == "policy" else "",
    )
    maker = Maker(NAMES, OURS, "1", frozenset({STATE}))
    wrong = set(Mark) - right - (set() if kind.shared_names else {Mark.PROJECT})

    assert differences(resource, maker).keys() == wrong
    marker = Marker(NAMES.owner, state_id=STATE)
    assert not_as_asked(resource, marker, given_name, "1", ()).keys() == wrong
