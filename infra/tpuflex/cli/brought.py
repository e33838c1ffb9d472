"""Whether what a stack uses of the user's own is there and usable, before a plan is made."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from tpuflex.cli.prepare_secrets import check_brought
from tpuflex.errors import AccessError
from tpuflex.gcp.brought_key import read_key

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud


def require_brought(cloud: Cloud, *, reader: bool = False) -> AccessError | None:
    """Refuse a bucket, a secret or a key of the user's own that cannot be used: of one that is not
    there the engine says that, and not which setting names it, or what to do.

    Args:
        cloud: the stack's cloud.
        reader: whether a key that the caller may not read is taken for usable.

    Returns:
        Why such a key could not be read, if it could not.

    Raises:
        NotFoundError, ConflictError, AlreadyExistsError: one cannot be used.
        AccessError: the bucket cannot be read; or the key cannot, and the caller is no ``reader``.
        ApiError: the cloud refuses for another reason.
    """
    if cloud.stack.settings.model.weights.brought is not None:
        cloud.own_bucket()
    with suppress(AccessError):  # whoever only previews may not see its versions
        check_brought(cloud)
    if (key := cloud.stack.settings.encryption.kms_key) is None:
        return None
    try:
        read_key(cloud.apis().cloudkms, key)
    except AccessError as error:
        if not reader:
            raise
        return error
    return None
