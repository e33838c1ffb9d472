"""Cloud DNS's own error reasons, worded as its API words them.

The words of :func:`not_empty` are from tetratelabs/tetrate-service-bridge-sandbox#256, the others
from the error messages in https://cloud.google.com/dns/docs/troubleshooting.
"""

from __future__ import annotations

from embedded_cloud.errors import CloudError, precondition_failed


def invalid(field: str, value: object) -> CloudError:
    """400: a field's value is not allowed."""
    message = f"Invalid value for '{field}': '{value}'"
    return CloudError(400, "INVALID_ARGUMENT", message, legacy_reason="invalid")


def required(field: str) -> CloudError:
    """400: a field is missing."""
    message = f"The '{field}' parameter is required but was missing."
    return CloudError(400, "INVALID_ARGUMENT", message, legacy_reason="required")


def not_found(field: str, name: str) -> CloudError:
    """404: what ``field`` of the request names does not exist."""
    return CloudError(404, "NOT_FOUND", f"The '{field}' resource named '{name}' does not exist.")


def already_exists(field: str, name: str) -> CloudError:
    """409: what ``field`` of the request would make exists."""
    message = f"The resource '{field}' named '{name}' already exists"
    return CloudError(409, "ALREADY_EXISTS", message)


def not_empty(zone: str) -> CloudError:
    """400: a zone with record sets other than its own NS and SOA cannot be deleted."""
    return CloudError(
        400,
        "FAILED_PRECONDITION",
        f"The resource named '{zone}' cannot be deleted because it contains one or more "
        "'resource records'.",
        legacy_reason="containerNotEmpty",
    )


def stale_deletion(field: str) -> CloudError:
    """412: a deletion does not have the present content of its record set."""
    return precondition_failed(f"Precondition not met for '{field}'")
