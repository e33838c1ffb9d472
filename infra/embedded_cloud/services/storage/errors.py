"""Cloud Storage's own error reasons, worded as the JSON API words them.

https://cloud.google.com/storage/docs/request-preconditions
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from embedded_cloud.core import errors
from embedded_cloud.core.errors import CloudError, cloud_error


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


def held(message: str) -> CloudError:
    """403: a hold keeps the object, or a lock the bucket's policy. The page of status codes has
    a reason of its own for a hold, objectUnderActiveHold, which no answer was seen with."""
    return errors.permission_denied(message)


def retained(message: str) -> CloudError:
    """403: the bucket's retention policy keeps the object.

    https://cloud.google.com/storage/docs/json_api/v1/status-codes#403-forbidden
    """
    reason = "retentionPolicyNotMet"
    return CloudError(403, "PERMISSION_DENIED", message, legacy_reason=reason)


def key_denied() -> CloudError:
    """403: the service agent may not use the key (googleapis/nodejs-storage#1254 on GitHub)."""
    return errors.permission_denied(
        "Permission denied on Cloud KMS key. Please ensure that your Cloud Storage service account"
        " has been authorized to use this key."
    )


class NotModified(Exception):  # noqa: N818 - an answer (304), not an error
    """A read's ifGenerationNotMatch or ifMetagenerationNotMatch found what the caller has."""


@dataclass(frozen=True, slots=True)
class Preconditions:
    """What must be true of the present state; None is no condition.

    Attributes:
        generation_match: 0 means "there is no live object of this name".
    """

    generation_match: int | None = None
    generation_not_match: int | None = None
    metageneration_match: int | None = None
    metageneration_not_match: int | None = None

    @classmethod
    def from_query(cls, query: Mapping[str, str], *, source: bool = False) -> Preconditions:
        """From ``ifGenerationMatch``… or, of a copy's source, ``ifSourceGenerationMatch``…

        Raises:
            CloudError: 400, a value is not a number.
        """
        middle = "Source" if source else ""
        return cls(
            integer(query, f"if{middle}GenerationMatch"),
            integer(query, f"if{middle}GenerationNotMatch"),
            integer(query, f"if{middle}MetagenerationMatch"),
            integer(query, f"if{middle}MetagenerationNotMatch"),
        )

    def check(self, generation: int, metageneration: int, *, read: bool) -> None:
        """Compare with the present state; a generation of 0 means that there is no object.

        Raises:
            CloudError: 412.
            NotModified: a read found the version that the caller already has.
        """
        if self.generation_match not in (None, generation):
            raise condition_not_met()
        if self.metageneration_match not in (None, metageneration):
            raise condition_not_met()
        same = self.generation_not_match == generation
        if same or (generation and self.metageneration_not_match == metageneration):
            raise NotModified if read else condition_not_met()


def integer(query: Mapping[str, str], name: str) -> int | None:
    """The query parameter ``name`` as an integer. Raises CloudError 400 for other text."""
    text = query.get(name)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise invalid(f"Invalid value for {name}: {text}") from error
