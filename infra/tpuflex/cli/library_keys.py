"""What hosts know compiled programs of a library by: a secret per region, whose latest version
signs them (docs/adr/0042)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.errors import AlreadyExistsError, ConflictError, NotFoundError
from tpuflex.gcp.kinds import SECRET
from tpuflex.gcp.markers import marker_of
from tpuflex.gcp.secrets import ENABLED, new_api_key
from tpuflex.naming import library_names, programs_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpuflex.cli.cloud import Cloud


def has_programs_keys(cloud: Cloud) -> bool:
    """Whether the library has what hosts know their programs by, in each region of the stack of
    ``cloud``.

    Raises:
        AlreadyExistsError, ConflictError: as :func:`ensure_programs_keys`.
        AccessError, ApiError: it cannot be told.
    """
    settings = cloud.stack.settings
    keys = (programs_key(settings.project, region) for region in settings.slice.regions)
    return all(is_programs_key_there(cloud, key) and _has_value(cloud, key) for key in keys)


def require_programs_keys(cloud: Cloud) -> None:
    """Check the same, if the stack keeps programs there, before chips are asked for: without it its
    hosts would compile anew.

    Raises:
        NotFoundError: it has none in one of them.
        AlreadyExistsError, ConflictError: as :func:`ensure_programs_keys`.
        AccessError, ApiError: it cannot be told.
    """
    stack = cloud.stack
    if not stack.settings.programs_in_library or has_programs_keys(cloud):
        return
    raise NotFoundError(
        f"The library of {stack.settings.project} has no key for compiled programs, which it keeps"
        " for this stack: it was made by an older version, or its key was deleted.",
        hint=f"Make it: tpuflex library up --stack {stack.name}\n"
        "Or keep no programs there: compile_cache: host in tpuflex:serving",
    )


def ensure_programs_keys(cloud: Cloud, regions: Iterable[str], *, anew: bool = False) -> None:
    """Add the values that the library's secrets do not have yet.

    Args:
        cloud: the cloud of a stack in the library's project.
        regions: the library's regions.
        anew: whether each gets another value, so that hosts that boot from then on use no programs
            of before.

    Raises:
        AlreadyExistsError: somebody else has made such a secret.
        ConflictError: the latest version of one is disabled or destroyed.
        NotFoundError: there is no such secret.
        AccessError, ApiError: one was refused.
    """
    for region in regions:
        key = programs_key(cloud.stack.settings.project, region)
        is_programs_key_there(cloud, key)
        # With a new one it is no matter what became of the last.
        if anew or not _has_value(cloud, key):
            # Two of them at once add two versions, of which every host takes the later one.
            cloud.secrets.add_version(key, new_api_key())


def is_programs_key_there(cloud: Cloud, key: str) -> bool:
    """Whether there is the secret ``key`` of the library, with a value or without.

    Raises:
        AlreadyExistsError: somebody else has made it, and may know its value.
        AccessError, ApiError: it cannot be told.
    """
    try:
        found = cloud.apis().secretmanager.call("GET", f"/v1/{key}")
    except NotFoundError:
        return False
    owner = library_names(cloud.stack.settings.project).owner
    if marker_of(SECRET, found).owner != owner:
        raise AlreadyExistsError(
            f"The secret {key} does not carry the marker of the library: it was made by somebody"
            " else, who may know its value and sign what runs on the chips. Nothing was changed.",
            status=409,
            hint="Find out who made it, delete it, then: tpuflex library up --stack"
            f" {cloud.stack.name}",
        )
    return True


def _has_value(cloud: Cloud, key: str) -> bool:
    """Whether the secret ``key``, which is there, has a value.

    Raises:
        ConflictError: its latest version, which hosts read, is disabled or destroyed.
    """
    versions = cloud.secrets.list_versions(key)
    if versions and versions[-1].state != ENABLED:
        raise ConflictError(
            f"{versions[-1].name}, by which hosts know compiled programs, is {versions[-1].state}.",
            hint="Enable it in Secret Manager; or have all compiled once more, with another value:"
            f" tpuflex library up --new-programs-key --stack {cloud.stack.name}",
        )
    return bool(versions)
