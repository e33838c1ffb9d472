"""The sections of a stack file that could be read: what the rules look at.

A section with a wrong type is None here, so that the rules of the other sections still run
and everything wrong is reported at once.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from tpuflex.settings.model import (
    ModelSettings,
    NetworkSettings,
    SecretsSettings,
    SliceSettings,
    StackSettings,
)
from tpuflex.settings.serving import ServingSettings


@dataclass(frozen=True, slots=True)
class Draft:
    """A stack file in which each section is either well-typed or None."""

    cloud: Literal["google", "embedded"] | None = None
    project: str | None = None
    slice: SliceSettings | None = None
    model: ModelSettings | None = None
    serving: ServingSettings | None = None
    network: NetworkSettings | None = None
    secrets: SecretsSettings | None = None

    @classmethod
    def of(cls, settings: StackSettings) -> Draft:
        """All sections of ``settings``."""
        return cls(**{field.name: getattr(settings, field.name) for field in fields(cls)})
