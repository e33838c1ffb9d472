"""Where weights are kept, as `tpuflex:model.weights.bucket` says it."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: https://cloud.google.com/storage/docs/buckets#naming
_NAME = r"[a-z0-9][a-z0-9_.-]{1,220}[a-z0-9]"
#: A part of a prefix. It begins with no dot, so that no part is `.` or `..`.
_PART = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}"
_EXISTING = rf"gs://{_NAME}(?:/{_PART}){{0,8}}"
BUCKET_PATTERN = rf"^(?:own|library|{_EXISTING})$"
_EXISTING_PARTS = re.compile(rf"gs://(?P<name>{_NAME})(?P<prefix>(?:/{_PART}){{0,8}})")


@dataclass(frozen=True, slots=True)
class ExistingBucket:
    """A bucket that was there before the endpoint, and stays.

    Attributes:
        name: its name.
        prefix: where in it weights are kept, without slashes at its ends; empty for everywhere.
    """

    name: str
    prefix: str = ""

    @property
    def url(self) -> str:
        """``gs://NAME``."""
        return f"gs://{self.name}"


def existing_bucket(text: str) -> ExistingBucket | None:
    """The bucket that ``text`` names; None for `own` and `library`."""
    found = _EXISTING_PARTS.fullmatch(text)
    return None if found is None else ExistingBucket(found["name"], found["prefix"].lstrip("/"))
