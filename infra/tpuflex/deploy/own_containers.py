"""Before anything is written into the stack's bucket or a secret of it: are they ours?

Their names follow from project and stack, so a clone of the project with a state of its own would
write into what another state has made (docs/adr/0015).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from tpuflex.deploy.first_up import refusal
from tpuflex.engine.state import state_ids
from tpuflex.errors import NotFoundError, ServiceDisabledError
from tpuflex.inventory.cloud_resource import described
from tpuflex.inventory.kinds import BUCKET, SECRET
from tpuflex.inventory.ownership import Maker, differences
from tpuflex.recovery.owners import Taken

if TYPE_CHECKING:
    from tpuflex.deploy.stack_run import StackRun
    from tpuflex.inventory.cloud_resource import CloudResource
    from tpuflex.inventory.kinds import Kind
    from tpuflex.stack.connection import Connection


def require_own_containers(cloud: Connection, stack_run: StackRun) -> None:
    """Check that the stack's bucket and secrets, as far as they exist, are ours by all marks: by a
    state id that this home remembers or that the stack's state has.

    Raises:
        AlreadyExistsError: somebody else has made one of them; says who.
        AccessError, ApiError, EngineError: it cannot be told.
    """
    there = tuple(_existing(cloud))
    seen = cloud.seen_states.of(cloud.stack.name)
    if not _foreign(cloud, there, seen):
        return
    # Asked only now, because it takes the engine a second.
    try:
        deployment = stack_run.engine.deployment()
    except NotFoundError:
        deployment = {}
    found = _foreign(cloud, there, seen | state_ids(deployment))
    if found:
        raise refusal(cloud, [Taken(one.kind.name, one.id, one.marker) for one in found])


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
    yield described(kind, answer, name=name, place=settings.region, id_=id_)


def _foreign(
    cloud: Connection, there: Collection[CloudResource], states: frozenset[str]
) -> list[CloudResource]:
    """What of ``there`` is not ours by ``states``."""
    if not there:
        return []
    stack = cloud.stack
    maker = Maker(stack.names, stack.settings.project, cloud.project_number, states)
    return [resource for resource in there if differences(resource, maker)]
