"""Whether the caller has the permissions that each command needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tpuflex.doctor.check import Check, Group, Subject
from tpuflex.errors import AccessError
from tpuflex.google.existing_bucket import IN_A_BUCKET
from tpuflex.google.held_permissions import Held
from tpuflex.google.reading import Unread
from tpuflex.naming import HF_TOKEN, TLS_CERTIFICATE
from tpuflex.roles.refusal import grants
from tpuflex.roles.roles import Command, When, roles
from tpuflex.settings.model import StackSettings

#: Permissions that are named; the rest is counted.
_NAMED = 6
#: Commands that are examined: the others need no more than these.
COMMANDS = (Command.STATUS, Command.PREVIEW, Command.UP, Command.DOWN, Command.WAY_IN)


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
    project: str, stacks: Collection[When], held: Held | Unread, *, bucket: str = ""
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
    project: str, command: Command, needed: dict[str, str], held: Held | Unread, bucket: str
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
