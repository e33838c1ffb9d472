"""Whose a resource is, by four marks that must all agree. Pure.

A resource carries a marker: labels where the API has them (``tpuflex-owner``, ``-project``,
``-stack``, ``-state``), the description elsewhere, as the table of kinds says. It is a claim:
everybody who may label in the project can write our marker, and names can be computed. So
nothing is deleted or adopted unless

- its *owner marker* is that of project, stack and endpoint, in a label or as its whole description;
- its *name* is one that this endpoint gives to this kind, which is a pure function of the same and
  the generation (``Kind.named``);
- the *project number* that it says is that of our project. Only buckets say one, and only their
  names are shared by all projects; everything else is listed and read under the project's own path,
  which is in it by construction;
- the *state id* that it carries is one of ours: made at random, and kept in the state
  (docs/adr/0015).

What lacks one of them is foreign, and the reason says which. Who may both create and label
resources in the project can forge all four: the marks do not protect from its administrators.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from tpuflex.google.project import account_of, deleted_account
from tpuflex.naming import (
    Names,
    account_email,
)

if TYPE_CHECKING:
    from tpuflex.inventory.cloud_resource import CloudResource, Marker

#: In the place of a state id: resources that carry none, which a version before state ids made.
NO_STATE_ID = ""


class Mark(StrEnum):
    """What has to agree."""

    OWNER = "owner marker"
    NAME = "name"
    PROJECT = "project number"
    STATE = "state id"


@dataclass(frozen=True, slots=True)
class Maker:
    """One endpoint, as the maker of resources.

    Attributes:
        names: its names and its owner marker.
        project: Google Cloud project id.
        number: number of that project; empty if it could not be told.
        states: ids of the states that have made its resources; with :data:`NO_STATE_ID` among them,
            what carries none counts, too.
    """

    names: Names
    project: str
    number: str
    states: frozenset[str]


def differences(resource: CloudResource, maker: Maker) -> Mapping[Mark, str]:
    """Which marks of ``resource`` are not those of ``maker``, each in words; empty if it is ours.

    A role in the project's policy carries nothing. It is ours by the exact name of its account and
    because tpuflex grants it; and the account itself must be ours, unless it was deleted: then the
    role grants nothing to anybody.
    """
    inert = deleted_account(resource.member)
    return _differences(
        resource,
        owner=resource.marker.owner if inert else maker.names.owner,
        called=_named(resource, maker),
        number=maker.number,
        states={resource.marker.state_id} if inert else maker.states,
    )


def claims(resource: CloudResource, maker: Maker) -> bool:
    """Whether ``resource`` has at least one mark of ``maker`` that few others would have."""
    marker = resource.marker
    known = marker.state_id != NO_STATE_ID and marker.state_id in maker.states
    return marker.owner == maker.names.owner or known or _named(resource, maker)


def not_as_asked(
    resource: CloudResource, asked: Marker, name: str, number: str, states: Collection[str]
) -> Mapping[Mark, str]:
    """Which marks of ``resource`` are not those that a program asked for; empty if it may be
    adopted as what the program asked for.

    Args:
        resource: what the cloud has.
        asked: the marker in the program's inputs.
        name: the name in the program's inputs.
        number: number of the project in the program's inputs.
        states: ids of states that count beside that of ``asked``.
    """
    return _differences(
        resource,
        owner=asked.owner,
        called=resource.name == name,
        number=number,
        states={asked.state_id, *states},
    )


def reason(found: Mapping[Mark, str]) -> str:
    """Differences in one line."""
    return "; ".join(found.values())


def _differences(
    resource: CloudResource, *, owner: str, called: bool, number: str, states: Collection[str]
) -> Mapping[Mark, str]:
    marker = resource.marker
    found: dict[Mark, str] = {}
    if marker.owner != owner:
        has = f"its owner marker is {marker.owner}" if marker.owner else "it has no owner marker"
        found[Mark.OWNER] = has
    if not called:
        found[Mark.NAME] = "its name is none that tpuflex gives"
    if resource.kind.shared_names and (not number or resource.project_number != number):
        there = resource.project_number or "unknown"
        found[Mark.PROJECT] = f"it is in another project (number {there})"
    if marker.state_id not in states:
        text = f"it was made by another state ({marker.state_id})"
        found[Mark.STATE] = text if marker.state_id else "it carries no state id: made by hand"
    return found


def _named(resource: CloudResource, maker: Maker) -> bool:
    if not resource.kind.named(resource.name, maker.names, maker.project, (resource.location,)):
        return False
    account = account_email(maker.names.service_account_id(), maker.project)
    return resource.member == "" or account_of(resource.member) == account
