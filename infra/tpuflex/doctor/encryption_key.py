"""Whether a key of the user's can be used, and by those services that need it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tpuflex.doctor.check import Check, Group, Subject
from tpuflex.doctor.host_account import roles_of
from tpuflex.doctor.side_by_side import Examination
from tpuflex.errors import AccessError, ConflictError, NotFoundError
from tpuflex.gcloud_commands import grant_on_key
from tpuflex.google.existing_key import USE_ROLE, Agent, agents, unusable
from tpuflex.google.project import POLICY
from tpuflex.google.reading import Unread, attempt, attempt_if_there

if TYPE_CHECKING:
    from tpuflex.doctor.cloud import ExaminedCloud
    from tpuflex.google.transport import JsonObject

KEY = Subject(Group.PERMISSIONS, "key")
#: Holds what :data:`USE_ROLE` is granted for, too
#: (https://cloud.google.com/kms/docs/reference/permissions-and-roles).
_AS_GOOD = frozenset({USE_ROLE, "roles/cloudkms.cryptoOperator", "roles/owner"})
_VIEWER = "roles/cloudkms.viewer"
_VERSION = {"options.requestedPolicyVersion": "3"}


def examinations(cloud: ExaminedCloud) -> list[Examination]:
    """What to examine of the key."""
    return [Examination(Group.PERMISSIONS, "key", partial(key_checks, cloud))]


def key_checks(cloud: ExaminedCloud) -> list[Check]:
    """How the key stands, and whether those may use it who have to, where there is one."""
    key = cloud.settings.encryption.kms_key
    if key is None:
        return []
    kms, manager = cloud.api(cloud.endpoints.cloudkms), cloud.manager
    ring = key.partition("/cryptoKeys/")[0]
    home = key.split("/")[1]
    found = attempt_if_there(lambda: kms.call("GET", f"/v1/{key}"))
    number = attempt(lambda: cloud.connection.project_number)
    checks = [key_check(key, found)]
    if isinstance(number, Unread):
        return [*checks, KEY.unknown(number)]
    policies = [
        attempt_if_there(lambda: kms.call("GET", f"/v1/{key}:getIamPolicy", query=_VERSION)),
        attempt_if_there(lambda: kms.call("GET", f"/v1/{ring}:getIamPolicy", query=_VERSION)),
        attempt_if_there(
            lambda: manager.call("POST", f"/v1/projects/{home}:getIamPolicy", body=POLICY)
        ),
    ]
    return [*checks, *agent_checks(key, agents(cloud.settings, number), policies)]


def key_check(key: str, found: JsonObject | Unread | None) -> Check:
    """Whether ``key`` can encrypt.

    Args:
        key: its full name.
        found: it as Cloud KMS has it; None if it is not there.
    """
    if found is None:
        return KEY.failed(
            NotFoundError,
            f"{key} is not there",
            "Write one that is there to tpuflex:encryption.kms_key.",
        )
    if isinstance(found, Unread):
        look = f"{grant_on_key(key, _VIEWER, 'MEMBER')}\nwhere MEMBER is you"
        return KEY.unknown(replace(found, remedy=look))
    primary = found.get("primary")
    refusal = unusable(key, found.get("purpose"), primary if isinstance(primary, Mapping) else {})
    if refusal:
        text, _, remedy = refusal.partition("\n")
        return KEY.failed(ConflictError, text.partition(": ")[2], remedy)
    return KEY.ok(f"{key}, whose primary version is enabled")


def agent_checks(
    key: str,
    agents: Collection[Agent],
    policies: Sequence[JsonObject | Unread | None],
) -> Iterator[Check]:
    """Whether the policies that can be read let the service agents use ``key``.

    A folder or an organisation may let them, too, and no policy that is read here says so.

    Args:
        key: its full name.
        agents: who has to be let use it.
        policies: those of the key, its ring and its project; None for one that is not there.
    """
    read = [each for each in policies if each is not None and not isinstance(each, Unread)]
    unread = next((each for each in policies if isinstance(each, Unread)), None)
    for agent in agents:
        subject = Subject(Group.PERMISSIONS, f"key: {agent.service}")
        roles = [role for policy in read for role in roles_of(policy, agent.member)]
        remedy = _remedy(key, agent)
        if not _AS_GOOD.isdisjoint(roles):
            yield subject.ok(f"may encrypt {agent.what}")
        elif unread is not None:
            yield subject.unknown(replace(unread, remedy=remedy))
        elif any(not role.startswith("roles/") for role in roles):
            why = "a custom role, or one on a condition, may hold it"
            yield subject.unknown(Unread(f"{why}: {', '.join(dict.fromkeys(roles))}", remedy))
        else:
            text = f"{USE_ROLE} is not granted to {agent.member}, which encrypts {agent.what}"
            yield subject.failed(AccessError, text, remedy)


def _remedy(key: str, agent: Agent) -> str:
    let = str(grant_on_key(key, USE_ROLE, agent.member))
    return let if agent.making is None else f"{agent.making}\n{let}"
