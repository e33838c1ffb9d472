"""The base of everything in a stack file."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """Base of all settings: unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)
