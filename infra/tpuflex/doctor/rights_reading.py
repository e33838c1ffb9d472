"""What `tpuflex doctor` says of the caller's own rights, by what holds of the stack."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING

from tpuflex.doctor import rights
from tpuflex.doctor.host_account import ACT_AS
from tpuflex.google.existing_bucket import IN_A_BUCKET, held_in
from tpuflex.google.held_permissions import Held, held
from tpuflex.google.reading import RESOURCE_MANAGER, Unread, attempt
from tpuflex.naming import account_email

if TYPE_CHECKING:
    from tpuflex.doctor.check import Check
    from tpuflex.google.endpoints import Endpoints
    from tpuflex.google.transport import Api
    from tpuflex.settings.model import StackSettings
    from tpuflex.stack.connection import Connection


def caller_checks(
    cloud: Connection, endpoints: Endpoints, api: Callable[[str], Api]
) -> tuple[Check, ...]:
    """Whether the caller may do what the stack of ``cloud`` takes.

    Args:
        cloud: the stack's cloud.
        endpoints: addresses of Google's APIs.
        api: a client of the API at an address.
    """
    settings = cloud.stack.settings
    stacks = tuple(rights.what_holds(settings))
    found = attempt(
        lambda: _held(cloud, endpoints, api, rights.all_needed(stacks)),
        service=RESOURCE_MANAGER,
        project=settings.project,
    )
    existing = settings.model.weights.existing
    bucket = "" if existing is None or settings.makes_bucket else existing.url
    return rights.permission_checks(settings.project, stacks, found, bucket=bucket)


def _held(
    cloud: Connection,
    endpoints: Endpoints,
    api: Callable[[str], Api],
    permissions: Collection[str],
) -> Held:
    """What the caller may do in the project, and as the hosts' account, which can be granted
    on that account alone."""
    settings = cloud.stack.settings
    project = settings.project
    found = held(api(endpoints.resourcemanager), f"/v1/projects/{project}", permissions)
    there = _held_in_bucket(settings, partial(api, endpoints.storage), permissions)
    found = Held(found.permissions | there, found.untold)
    if ACT_AS not in permissions or ACT_AS in found.permissions:
        return found
    email = account_email(cloud.stack.names.service_account_id(), project)
    path = f"/v1/projects/{project}/serviceAccounts/{email}"
    on_account = attempt(lambda: held(api(endpoints.iam), path, [ACT_AS]))
    if isinstance(on_account, Unread):  # not made yet, mostly
        return found
    return Held(found.permissions | on_account.permissions, found.untold)


def _held_in_bucket(
    settings: StackSettings, storage: Callable[[], Api], permissions: Collection[str]
) -> frozenset[str]:
    """What of ``permissions`` the caller has in a bucket of the user's own, which may be in
    another project. Where the stack makes one beside it, the same is needed in the project."""
    existing = settings.model.weights.existing
    asked = tuple(sorted(set(permissions) & IN_A_BUCKET))
    if existing is None or settings.makes_bucket or not asked:
        return frozenset()
    there = attempt(lambda: held_in(storage(), existing.name, asked))
    return frozenset() if isinstance(there, Unread) else there
