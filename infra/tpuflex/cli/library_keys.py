"""What hosts know compiled programs of a library by: a secret per region, whose latest version
signs them (docs/adr/0042)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.errors import NotFoundError
from tpuflex.gcp.secrets import ENABLED, new_api_key
from tpuflex.naming import programs_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpuflex.cli.cloud import Cloud


def has_programs_keys(cloud: Cloud) -> bool:
    """Whether the library has what hosts know their programs by, in each region of the stack of
    ``cloud``.

    Raises:
        AccessError, ApiError: it cannot be told.
    """
    settings = cloud.stack.settings
    keys = (programs_key(settings.project, region) for region in settings.slice.regions)
    return all(_is_enabled(cloud, key) for key in keys)


def require_programs_keys(cloud: Cloud) -> None:
    """Check the same, if the stack keeps programs there, before chips are asked for: without it its
    hosts would compile anew.

    Raises:
        NotFoundError: it has none in one of them.
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
        NotFoundError: there is no such secret.
        AccessError, ApiError: one was refused.
    """
    for region in regions:
        key = programs_key(cloud.stack.settings.project, region)
        if anew or not _is_enabled(cloud, key):
            # Two of them at once add two versions, of which every host takes the later one.
            cloud.secrets.add_version(key, new_api_key())


def is_programs_key_there(cloud: Cloud, key: str) -> bool:
    """Whether there is the secret ``key``, with a value or without.

    Raises:
        AccessError, ApiError: it cannot be told.
    """
    try:
        cloud.secrets.list_versions(key)
    except NotFoundError:
        return False
    return True


def _is_enabled(cloud: Cloud, key: str) -> bool:
    try:
        versions = cloud.secrets.list_versions(key)
    except NotFoundError:
        return False
    return bool(versions) and versions[-1].state == ENABLED
