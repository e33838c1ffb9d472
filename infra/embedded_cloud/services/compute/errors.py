"""Compute Engine's own error reasons, worded as its API words them."""

from __future__ import annotations

from embedded_cloud.core.errors import CloudError, precondition_failed


def invalid(field: str, value: object, why: str) -> CloudError:
    """400: a field's value is not allowed."""
    message = f"Invalid value for field '{field}': '{value}'. {why}"
    return CloudError(400, "INVALID_ARGUMENT", message, legacy_reason="invalid")


def required(field: str) -> CloudError:
    """400: a field is missing."""
    message = f"Required field '{field}' not specified"
    return CloudError(400, "INVALID_ARGUMENT", message, legacy_reason="required")


def not_found(path: str) -> CloudError:
    """404: there is no resource at ``path``."""
    return CloudError(404, "NOT_FOUND", f"The resource '{path}' was not found")


def already_exists(path: str) -> CloudError:
    """409: the name is taken."""
    return CloudError(409, "ALREADY_EXISTS", f"The resource '{path}' already exists")


def in_use(singular: str, path: str, user: str) -> CloudError:
    """400: something else still needs the resource."""
    return CloudError(
        400,
        "FAILED_PRECONDITION",
        f"The {singular} resource '{path}' is already being used by '{user}'",
        legacy_reason="resourceInUseByAnotherResource",
    )


def violated(constraint: str, where: str) -> CloudError:
    """412: an organization policy forbids it."""
    return precondition_failed(f"Constraint constraints/{constraint} violated for {where}.")


def stale_fingerprint() -> CloudError:
    """412: the resource has changed since the caller read it, or it sent no fingerprint."""
    return precondition_failed("Invalid fingerprint.")
