"""Preconditions of requests: ifGenerationMatch and the like.

https://cloud.google.com/storage/docs/request-preconditions
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from embedded_cloud.storage.errors import NotModified, condition_not_met, invalid


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
