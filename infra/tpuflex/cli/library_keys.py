"""The secrets with which hosts sign compiled programs in a library: one per region, of which the
latest version counts (docs/adr/0042)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.errors import ConflictError, NotFoundError
from tpuflex.gcp.library import read_library_secret
from tpuflex.gcp.secrets import ENABLED, new_key
from tpuflex.naming import programs_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpuflex.cli.cloud import Cloud


def has_programs_keys(cloud: Cloud) -> bool:
    """Whether the library has a value to sign compiled programs with, in each region of the stack
    of ``cloud``.

    Raises:
        AlreadyExistsError, ConflictError: as :func:`ensure_programs_keys`.
        AccessError, ApiError: it cannot be told.
    """
    settings = cloud.stack.settings
    keys = (programs_key(settings.project, region) for region in settings.slice.regions)
    return all(is_programs_key_there(cloud, key) and _has_value(cloud, key) for key in keys)


def require_programs_keys(cloud: Cloud) -> None:
    """Check the same, if the stack keeps compiled programs there, before chips are asked for:
    without it its hosts would compile anew.

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
        project = cloud.stack.settings.project
        key = read_library_secret(cloud.apis(), programs_key(project, region), project).id
        # With a new one it is no matter what became of the last.
        if anew or not _has_value(cloud, key):
            # Two of them at once add two versions, of which every host takes the later one.
            cloud.secrets.add_version(key, new_key())


def is_programs_key_there(cloud: Cloud, key: str) -> bool:
    """Whether there is the secret ``key`` of the library, with a value or without.

    Raises:
        AlreadyExistsError: somebody else has made it.
        AccessError, ApiError: it cannot be told.
    """
    try:
        read_library_secret(cloud.apis(), key, cloud.stack.settings.project)
    except NotFoundError:
        return False
    return True


def _has_value(cloud: Cloud, key: str) -> bool:
    """Whether the secret ``key``, which is there, has a value.

    Raises:
        ConflictError: its latest version, which hosts read, is disabled or destroyed.
    """
    versions = cloud.secrets.list_versions(key)
    if versions and versions[-1].state != ENABLED:
        raise ConflictError(
            f"{versions[-1].name}, which signs compiled programs, is {versions[-1].state}.",
            hint="Enable it in Secret Manager; or have all compiled once more, with another value:"
            f" tpuflex library up --new-programs-key --stack {cloud.stack.name}",
        )
    return bool(versions)
