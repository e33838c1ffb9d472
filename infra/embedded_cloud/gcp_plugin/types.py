"""All types that the stand-in serves, and the refusal of all others."""

from __future__ import annotations

from embedded_cloud.gcp_plugin import table_compute, table_projects, table_router, table_storage
from embedded_cloud.gcp_plugin.resource_type import ResourceType
from tpuflex.errors import TpuflexError

#: The plugin that this one stands in for.
PACKAGE = "gcp"
VERSION = "10.2.0"

TYPES: dict[str, ResourceType] = {
    row.token: row
    for row in sorted(
        (*table_compute.TYPES, *table_router.TYPES, *table_storage.TYPES, *table_projects.TYPES),
        key=lambda row: row.token,
    )
}


class NotServedError(TpuflexError):
    """A type or function of the published plugin that the stand-in does not have."""


def row_of(token: str) -> ResourceType:
    """The row of the type ``token``.

    Raises:
        NotServedError: the stand-in does not serve that type.
    """
    try:
        return TYPES[token]
    except KeyError:
        raise not_served(token) from None


def not_served(token: str) -> NotServedError:
    """The refusal of ``token``, naming everything that is served."""
    return NotServedError(
        f"the embedded cloud's stand-in for the gcp plugin does not serve {token}; "
        f"it serves: {', '.join(TYPES)}",
        hint="on the embedded cloud use one of these, or install the published gcp plugin",
    )
