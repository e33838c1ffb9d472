"""Whether the caller has the permissions that each command needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from typing import TYPE_CHECKING

from tpuflex.doctor.check import Check, Group, Subject
from tpuflex.doctor.host_account import ACT_AS
from tpuflex.doctor.side_by_side import Examination
from tpuflex.errors import AccessError
from tpuflex.google.existing_bucket import IN_A_BUCKET, held_in
from tpuflex.google.held_permissions import HeldPermissions, held_permissions
from tpuflex.google.reading import RESOURCE_MANAGER, Unread, attempt
from tpuflex.naming import HF_TOKEN, TLS_CERTIFICATE, account_email
from tpuflex.roles.refusal import grants
from tpuflex.roles.roles import Command, When, roles
from tpuflex.settings.model import StackSettings

if TYPE_CHECKING:
    from tpuflex.doctor.cloud import ExaminedCloud

#: Permissions that are named; the rest is counted.
_NAMED = 6
#: Commands that are examined: the others need no more than these.
COMMANDS = (Command.STATUS, Command.PREVIEW, Command.UP, Command.DOWN, Command.WAY_IN)


def examinations(cloud: ExaminedCloud) -> list[Examination]:
    """What to examine of the caller's permissions."""
    return [Examination(Group.PERMISSIONS, "permissions", partial(_examine, cloud))]


def _examine(cloud: ExaminedCloud) -> tuple[Check, ...]:
    stacks = tuple(what_holds(cloud.settings))
    found = cloud.attempt(RESOURCE_MANAGER, lambda: _held(cloud, all_needed(stacks)))
    existing = cloud.settings.model.weights.existing
    bucket = "" if existing is None or cloud.settings.makes_bucket else existing.url
    return permission_checks(cloud.project, stacks, found, bucket=bucket)


def _held(cloud: ExaminedCloud, permissions: Collection[str]) -> HeldPermissions:
    """What the caller may do in the project, and as the hosts' account, which can be granted
    on that account alone."""
    project = cloud.project
    found = held_permissions(cloud.manager, f"/v1/projects/{project}", permissions)
    found = HeldPermissions(found.permissions | _held_in_bucket(cloud, permissions), found.untold)
    if ACT_AS not in permissions or ACT_AS in found.permissions:
        return found
    email = account_email(cloud.connection.stack.names.service_account_id(), project)
    path = f"/v1/projects/{project}/serviceAccounts/{email}"
    on_account = attempt(lambda: held_permissions(cloud.api(cloud.endpoints.iam), path, [ACT_AS]))
    if isinstance(on_account, Unread):  # not made yet, mostly
        return found
    return HeldPermissions(found.permissions | on_account.permissions, found.untold)


def _held_in_bucket(cloud: ExaminedCloud, permissions: Collection[str]) -> frozenset[str]:
    """What of ``permissions`` the caller has in a bucket of the user's own, which may be in
    another project. Where the stack makes one beside it, the same is needed in the project."""
    existing = cloud.settings.model.weights.existing
    asked = tuple(sorted(set(permissions) & IN_A_BUCKET))
    if existing is None or cloud.settings.makes_bucket or not asked:
        return frozenset()
    storage = cloud.api(cloud.endpoints.storage)
    there = attempt(lambda: held_in(storage, existing.name, asked))
    return frozenset() if isinstance(there, Unread) else there


def what_holds(settings: StackSettings) -> Iterator[When]:
    """What holds of a stack, as far as permissions depend on it."""
    network, existing = settings.network, settings.existing_network
    if network.egress != "existing":
        yield When.PRIVATE if network.egress == "google" else When.NAT
    if existing is not None:
        yield When.EXISTING_NETWORK
        if existing.project != settings.project:
            yield When.SHARED_NETWORK
    if not network.manage_firewall:
        yield When.EXISTING_RULES
    if settings.identity.existing is not None:
        yield When.EXISTING_ACCOUNT
    if not settings.identity.manage_grants:
        yield When.EXISTING_GRANTS
    if not settings.manage_apis:
        yield When.EXISTING_APIS
    if not settings.makes_bucket:
        yield When.NO_BUCKET
    if not settings.grants_on_bucket:
        yield When.NO_BUCKET_ROLES
    if settings.model.weights.existing is not None:
        yield When.EXISTING_WEIGHTS
    if settings.monitoring.alert_policies:
        yield When.ALERT_POLICIES
    if settings.monitoring.notification_channels:
        yield When.CHANNELS
    if settings.pulls_own_image:
        yield When.OWN_IMAGES
    if TLS_CERTIFICATE in settings.secrets.roles:
        yield When.TLS
    if HF_TOKEN in settings.secrets.roles:
        yield When.HUB_TOKEN


def all_needed(stacks: Collection[When]) -> frozenset[str]:
    """Every permission that some of :data:`COMMANDS` needs."""
    return frozenset(name for command in COMMANDS for name in roles().needed(command, stacks))


def permission_checks(
    project: str, stacks: Collection[When], held: HeldPermissions | Unread, *, bucket: str = ""
) -> tuple[Check, ...]:
    """Whether the caller may do what each command does.

    What is granted on a bucket, a secret or an account alone, or on a condition, the project does
    not tell: README says who gets which role.

    Args:
        project: Google Cloud project id.
        stacks: what holds of the stack.
        held: what the project says.
        bucket: ``gs://NAME`` of the user's, if the stack uses that one alone. It may be of another
            project: what is missing in it is granted on itself.
    """
    found = roles()
    return tuple(
        _check(project, command, found.needed(command, stacks), held, bucket)
        for command in COMMANDS
    )


def _check(
    project: str,
    command: Command,
    needed: dict[str, str],
    held: HeldPermissions | Unread,
    bucket: str,
) -> Check:
    subject = Subject(Group.PERMISSIONS, f"tpuflex {command}")
    if isinstance(held, Unread):
        return subject.unknown(held)
    missing = [name for name in needed if name not in held.permissions | held.untold]
    if missing:
        text = f"missing: {_named(missing)}"
        inside = [name for name in missing if bucket and name in IN_A_BUCKET]
        there = dict.fromkeys(needed[name] for name in inside)
        wanted = dict.fromkeys(needed[name] for name in missing if name not in inside)
        remedy = grants(project, wanted, bucket=bucket, there=there)
        if command in (Command.UP, Command.PREVIEW):
            return subject.failed(AccessError, text, remedy)
        return subject.warning(text, remedy)
    untold = [name for name in needed if name in held.untold]
    if untold:
        return subject.unknown(
            Unread(f"the API does not tell of {_named(untold)}", "Try it: the call itself tells.")
        )
    return subject.ok(f"all {len(needed)}")


def _named(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
