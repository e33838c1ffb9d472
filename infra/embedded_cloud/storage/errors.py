"""Cloud Storage's own error reasons, worded as the JSON API words them."""

from __future__ import annotations

from embedded_cloud import errors
from embedded_cloud.errors import CloudError, cloud_error


def invalid(message: str) -> CloudError:
    """400: a value is not allowed."""
    return CloudError(400, "INVALID_ARGUMENT", message, legacy_reason="invalid")


def required(name: str) -> CloudError:
    """400: a parameter is missing."""
    return CloudError(
        400, "INVALID_ARGUMENT", f"Required parameter: {name}", legacy_reason="required"
    )


def bucket_not_found() -> CloudError:
    """404: there is no such bucket."""
    return cloud_error("NOT_FOUND", "The specified bucket does not exist.")


def object_not_found(bucket: str, name: str) -> CloudError:
    """404: there is no such object, or not in this generation."""
    return cloud_error("NOT_FOUND", f"No such object: {bucket}/{name}")


def conflict(message: str) -> CloudError:
    """409: the name is taken, or the bucket is not empty."""
    return errors.conflict(message)


def condition_not_met() -> CloudError:
    """412: an if…Match precondition does not hold."""
    return errors.precondition_failed(
        "At least one of the pre-conditions you specified did not hold."
    )


def forbidden(message: str) -> CloudError:
    """403: the object may not be changed now."""
    return errors.permission_denied(message)


def key_denied() -> CloudError:
    """403: the service agent may not use the key (googleapis/nodejs-storage#1254 on GitHub)."""
    return errors.permission_denied(
        "Permission denied on Cloud KMS key. Please ensure that your Cloud Storage service account"
        " has been authorized to use this key."
    )


class NotModified(Exception):  # noqa: N818 - an answer (304), not an error
    """A read's ifGenerationNotMatch or ifMetagenerationNotMatch found what the caller has."""
