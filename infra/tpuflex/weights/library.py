"""The library of the project of a stack: whether the stack keeps its weights there, where it has
buckets, and the secret with which hosts sign the programs that they keep in it (docs/adr/0042)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.errors import ConflictError, NotFoundError
from tpuflex.google.secrets import ENABLED, new_key
from tpuflex.inventory.library import read_library_bucket, read_library_secret
from tpuflex.naming import programs_key

if TYPE_CHECKING:
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.stack import Stack

BUCKET_KEY = "tpuflex:model.weights.bucket"


def in_library(stack: Stack) -> bool:
    """Whether ``stack`` keeps its weights in the library."""
    return stack.settings.model.weights.bucket == "library"


def require_library(cloud: Connection) -> None:
    """Check that the library has a bucket in each region of the stack of ``cloud``, if the stack
    keeps its weights there.

    Raises:
        NotFoundError: it has none in one of them.
        AlreadyExistsError: it belongs to another owner.
        AccessError, ApiError: it cannot be determined.
    """
    stack = cloud.stack
    if not in_library(stack):
        return
    settings = stack.settings
    for region, bucket in cloud.buckets.items():
        if not cloud.is_there(bucket):
            raise NotFoundError(
                f"The library of {settings.project} has no bucket in {region}, where"
                f" {BUCKET_KEY} wants the weights: gs://{bucket}",
                hint=f"Make it: tpuflex weights push --stack {stack.name}, or without weights:"
                f" tpuflex library up --stack {stack.name}",
            )
        read_library_bucket(cloud.apis(), bucket, settings.project)


def has_programs_key(cloud: Connection) -> bool:
    """Whether the library has a value to sign compiled programs with.

    Raises:
        AlreadyExistsError, ConflictError: as :func:`ensure_programs_key`.
        AccessError, ApiError: it cannot be determined.
    """
    return is_programs_key_there(cloud) and _has_value(cloud)


def require_programs_key(cloud: Connection) -> None:
    """Check the same, if the stack keeps compiled programs there, before chips are asked for:
    without it its hosts would compile again.

    Raises:
        NotFoundError: it has none.
        AlreadyExistsError, ConflictError: as :func:`ensure_programs_key`.
        AccessError, ApiError: it cannot be determined.
    """
    stack = cloud.stack
    if not stack.settings.programs_in_library or has_programs_key(cloud):
        return
    raise NotFoundError(
        f"The library of {stack.settings.project} has no key for compiled programs, which it keeps"
        " for this stack: its key was deleted, or `library up` did not end.",
        hint=f"Make it: tpuflex library up --stack {stack.name}\n"
        "Or keep no programs there: compile_cache: host in tpuflex:serving",
    )


def ensure_programs_key(cloud: Connection, *, anew: bool = False) -> None:
    """Add a value to the library's secret, if it has none yet.

    Args:
        cloud: the cloud of a stack in the library's project.
        anew: whether it gets another value, so that hosts that boot from then on use no programs
            that were kept before.

    Raises:
        AlreadyExistsError: the secret belongs to another owner.
        ConflictError: its latest version is disabled or destroyed.
        NotFoundError: there is no such secret.
        AccessError, ApiError: it was refused.
    """
    project = cloud.stack.settings.project
    key = read_library_secret(cloud.apis(), programs_key(project), project).id
    # With a new one it is no matter what became of the last.
    if anew or not _has_value(cloud):
        # Two of them at once add two versions, of which every host takes the later one.
        cloud.secrets.add_version(key, new_key())


def is_programs_key_there(cloud: Connection) -> bool:
    """Whether there is the library's secret, with a value or without.

    Raises:
        AlreadyExistsError: it belongs to another owner.
        AccessError, ApiError: it cannot be determined.
    """
    project = cloud.stack.settings.project
    try:
        read_library_secret(cloud.apis(), programs_key(project), project)
    except NotFoundError:
        return False
    return True


def _has_value(cloud: Connection) -> bool:
    """Whether the secret, which is there, has a value.

    Raises:
        ConflictError: its latest version, which hosts read, is disabled or destroyed.
    """
    versions = cloud.secrets.list_versions(programs_key(cloud.stack.settings.project))
    if versions and versions[-1].state != ENABLED:
        raise ConflictError(
            f"{versions[-1].name}, which signs compiled programs, is {versions[-1].state}.",
            hint="Enable it in Secret Manager; or have all compiled once more, with another value:"
            f" tpuflex library up --new-programs-key --stack {cloud.stack.name}",
        )
    return bool(versions)
