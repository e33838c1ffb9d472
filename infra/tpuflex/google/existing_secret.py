"""Secrets of the user's own: the versions that a stack names, and who may read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tpuflex.errors import ConflictError, NotFoundError
from tpuflex.google.secrets import ENABLED
from tpuflex.naming import LABEL_OWNER
from tpuflex.settings.secrets import ExistingSecret, existing_secret_setting

if TYPE_CHECKING:
    from tpuflex.google.secrets import SecretClient
    from tpuflex.naming import SecretRole

#: Title of the condition on which the hosts may read.
VERSION_TITLE = "tpuflex_version_only"


def version_title(owner: str) -> str:
    """As :data:`VERSION_TITLE`, for hosts whose service account other endpoints may use, too: with
    it each has a binding of its own, as :func:`tpuflex.inventory.library.reader_title` says.

    Args:
        owner: the endpoint's owner marker.
    """
    return f"{VERSION_TITLE}_{owner}"


def version_condition(secret: str, number: int) -> str:
    """The condition that version ``number`` is read of ``secret``, which Secret Manager names with
    its project's number (https://cloud.google.com/iam/docs/conditions-resource-attributes)."""
    return f"resource.name == '{secret}/versions/{number}'"


def require_enabled(client: SecretClient, role: SecretRole, existing: ExistingSecret) -> None:
    """Check that the version ``existing`` for ``role`` is there and enabled; no value is read.

    Raises:
        NotFoundError: there is no such version.
        ConflictError: it is disabled or destroyed.
        AccessError, ApiError: it cannot be determined.
    """
    key = f"tpuflex:secrets.{existing_secret_setting(role)}"
    found = state_of(client, existing)
    if not found:
        raise NotFoundError(
            f"{key}: {existing.version} does not exist",
            hint="Write a version that is there. It is yours: tpuflex adds none to it.",
        )
    if found != ENABLED:
        raise ConflictError(
            f"{key}: {existing.version} is {found}",
            hint="Enable it, or write another version. It is yours: tpuflex changes nothing of it.",
        )


def state_of(client: SecretClient, existing: ExistingSecret) -> str:
    """Whether the version ``existing`` is ENABLED, DISABLED or DESTROYED; empty for none.

    Raises:
        AccessError, ApiError: it cannot be determined.
    """
    try:
        versions = client.list_versions(existing.secret)
    except NotFoundError:
        return ""
    return next((each.state for each in versions if each.number == existing.number), "")


def made_by_tpuflex(existing: ExistingSecret, labels: Mapping[str, object]) -> str:
    """Why a secret with these ``labels`` is refused: the endpoint that has it deletes it. Empty for
    one that others have made."""
    if LABEL_OWNER not in labels:
        return ""
    return (
        f"{existing.secret} was made by tpuflex for an endpoint, which deletes it.\n"
        "Write a secret that others have made to tpuflex:secrets."
    )
