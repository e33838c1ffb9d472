"""Who has made what has the stack's names? Asked before an `up` makes it, before a command writes
into it, and before a `down` deletes it.

Names follow from project and stack, so a clone of the project with a state of its own would write
into what another state has made (docs/adr/0015).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tpuflex.engine.events import name_of
from tpuflex.engine.state import Stored, external_paths, known_ids, state_ids
from tpuflex.errors import (
    AlreadyExistsError,
    NotFoundError,
    ServiceDisabledError,
    TpuflexError,
)
from tpuflex.inventory.cloud_resource import described
from tpuflex.inventory.kinds import BUCKET, SECRET
from tpuflex.inventory.listing import Unlisted
from tpuflex.inventory.ownership import NO_STATE_ID, Maker, differences
from tpuflex.inventory.unlisted import reasons
from tpuflex.naming import STATE_ID
from tpuflex.queued_resource.outcomes import OTHER_STATE
from tpuflex.recovery.foreign import compare, without_resources
from tpuflex.recovery.look import CloudLook
from tpuflex.recovery.owners import Taken, names
from tpuflex.recovery.report import counted

if TYPE_CHECKING:
    from tpuflex.deploy.stack_run import StackRun
    from tpuflex.engine.events import EnginePlan
    from tpuflex.inventory.cloud_resource import CloudResource
    from tpuflex.inventory.inventory import Inventory
    from tpuflex.inventory.kinds import Kind
    from tpuflex.stack.connection import Connection

_NOBODYS = "Nothing was changed. Delete it if it is nobody's, or take another stack name."


def require_free_names(
    cloud: Connection, stack_run: StackRun, plan: EnginePlan, say: Callable[[str], None]
) -> None:
    """Check that nothing exists of what a new state would create, and say what could not be looked
    at.

    Only a first `up` asks: a state that has its id made (or took over) what it knows.

    Raises:
        AlreadyExistsError: it belongs to another state or another owner; says whose it is.
    """
    if not any(step.type == STATE_ID and step.operation == "create" for step in plan.steps):
        return
    there = names(cloud.apis(), plan.steps)
    for line in reasons(there.unlisted):
        say(f"  warning  nobody could look whether these names are free: {line}")
    found = there.taken
    if found:
        # What a killed run has begun is not foreign.
        known = known_ids(stack_run.engine.deployment())
        found = tuple(each for each in found if each.id not in known)
    if found:
        if any(each.kind == BUCKET.name for each in found):
            cloud.is_there(cloud.made_bucket)  # one in another project has a way out of its own
        raise taken_error(cloud, found)


def taken_error(cloud: Connection, found: Sequence[Taken]) -> AlreadyExistsError:
    """The error for what was ``found`` under the stack's names and its state does not know."""
    stack = cloud.stack
    lines = "\n".join(sorted(f"  {each}" for each in found))
    known = any(each.marker.owner == stack.names.owner for each in found)
    return AlreadyExistsError(
        f"{counted(found, 'resource')} of stack {stack.name} of project {stack.project.name}"
        f" already in Google Cloud project {stack.settings.project}, and not in this state:\n"
        + lines,
        hint=OTHER_STATE if known else _NOBODYS,
    )


def require_containers_owned(cloud: Connection, stack_run: StackRun) -> None:
    """Check that the stack's bucket and secrets, as far as they exist, are ours by all marks: by a
    state id that this home remembers or that the stack's state has.

    Raises:
        AlreadyExistsError: another owner has made one of them; says which.
        AccessError, ApiError, EngineError: it cannot be determined.
    """
    there = tuple(_existing(cloud))
    seen = cloud.known_state_ids.of(cloud.stack.name)
    if not _foreign(cloud, there, seen):
        return
    # Asked only now, because it takes the engine a second.
    try:
        deployment = stack_run.engine.deployment()
    except NotFoundError:
        deployment = {}
    found = _foreign(cloud, there, seen | state_ids(deployment))
    if found:
        raise taken_error(cloud, [Taken(one.kind.name, one.id, one.marker) for one in found])


def _existing(cloud: Connection) -> Iterator[CloudResource]:
    stack = cloud.stack
    if cloud.is_there(cloud.made_bucket):
        yield from _read(cloud, BUCKET, cloud.made_bucket)
    for role in stack.settings.secrets.versions:
        yield from _read(cloud, SECRET, stack.names.secret(role))


def _read(cloud: Connection, kind: Kind, name: str) -> Iterator[CloudResource]:
    """The resource of ``kind`` called ``name``, if there is one."""
    settings = cloud.stack.settings
    id_ = kind.id.format(project=settings.project, name=name)
    try:
        answer = kind.client(cloud.apis()).call("GET", kind.root + id_)
    except (NotFoundError, ServiceDisabledError):
        return
    yield described(kind, answer, place=settings.region, id_=id_)


def _foreign(
    cloud: Connection, there: Collection[CloudResource], states: frozenset[str]
) -> list[CloudResource]:
    """What of ``there`` is not ours by ``states``."""
    if not there:
        return []
    stack = cloud.stack
    maker = Maker(stack.names, stack.settings.project, cloud.project_number, states)
    return [resource for resource in there if differences(resource, maker)]


@dataclass(frozen=True, slots=True)
class Ownership:
    """What of a stack's state, and of the cloud, a `tpuflex down` may delete.

    Attributes:
        deployment: the state, without what belongs to another owner by now.
        foreign: why that is not ours, by URN.
        states: ids of the states that are ours.
        uncompared: why nobody could look whether what the state knows is still ours, by URN.
    """

    deployment: Stored
    foreign: Mapping[str, str]
    states: frozenset[str]
    uncompared: Mapping[str, TpuflexError] = field(default_factory=dict)

    def inventory(self, cloud: Connection) -> Inventory:
        """Everything in the cloud that has the stack's names; what is proved to be the stack's own
        is marked."""
        kept = external_paths(self.deployment) if self.deployment else None
        return cloud.inventory(self.states, known_ids(self.deployment), kept)

    def foreign_lines(self) -> Iterator[str]:
        """A line for each thing in the state that is not ours any more."""
        for urn, why in self.foreign.items():
            yield f"Not deleted: {name_of(urn)} is in the state, but not ours any more: {why}"

    def uncompared_lines(self) -> list[str]:
        """What could not be compared with the cloud: a line for each reason."""
        return reasons(Unlisted.of(name_of(urn), why) for urn, why in self.uncompared.items())


def ownership_of(cloud: Connection, deployment: Stored) -> Ownership:
    """What of ``deployment``, empty if there is none, and of the cloud is ours; its state ids are
    remembered, so that what a teardown leaves can still be proved ours.

    Raises:
        EngineError, AccessError: what this home remembers is damaged, or others may write it.
    """
    stack, seen = cloud.stack.name, cloud.known_state_ids
    own = state_ids(deployment)
    seen.remember(stack, own)
    # A program without a state id, of queued resources alone, has made things without one.
    without = frozenset() if own or not deployment else frozenset({NO_STATE_ID})
    # What the state knows and carries no id may be such a queued resource beside an endpoint.
    found = compare(deployment, CloudLook(cloud.apis(), {*own, NO_STATE_ID}))
    left = without_resources(deployment, found.foreign)
    return Ownership(left, found.foreign, own | seen.of(stack) | without, found.uncompared)
