"""Which permissions the caller has, as the API itself says: nothing is concluded from roles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from tpuflex.errors import ApiError
from tpuflex.google.paging import entries

if TYPE_CHECKING:
    from tpuflex.google.transport import Api, JsonObject


@dataclass(frozen=True, slots=True)
class HeldPermissions:
    """What the API says of the caller's permissions.

    Attributes:
        permissions: those that the caller has.
        untold: those that it says nothing of.
    """

    permissions: frozenset[str]
    untold: frozenset[str] = frozenset()


def held_permissions(api: Api, resource: str, permissions: Iterable[str]) -> HeldPermissions:
    """Which of ``permissions`` the caller has on ``resource``.

    https://cloud.google.com/resource-manager/reference/rest/v1/projects/testIamPermissions. One
    name that the API does not take there makes it refuse all of them
    (https://github.com/googleapis/google-cloud-java/issues/722): then each service is asked on its
    own.

    Args:
        api: client of the API that has the resource.
        resource: path of the resource.
        permissions: the permissions in question.

    Raises:
        AccessError, NotFoundError, ApiError: the API refuses, or does not answer.
    """
    asked = sorted(permissions)
    try:
        return HeldPermissions(_held(api, resource, asked))
    except ApiError as error:
        if error.status != 400:
            raise
    had: set[str] = set()
    untold: set[str] = set()
    for _, some in groupby(asked, lambda name: name.partition(".")[0]):
        part = list(some)
        try:
            had |= _held(api, resource, part)
        except ApiError as error:
            if error.status != 400:
                raise
            untold.update(part)
    return HeldPermissions(frozenset(had), frozenset(untold))


def _held(api: Api, resource: str, permissions: list[str]) -> frozenset[str]:
    body: JsonObject = {"permissions": list(permissions)}
    answer = api.call("POST", f"{resource}:testIamPermissions", body=body, budget=0)
    return frozenset(map(str, entries(answer, "permissions")))
