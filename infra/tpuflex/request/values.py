"""Forms of single values that several groups of arguments share."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from pulumi_plugin.values import Value


class Group(BaseModel):
    """A group of arguments: camelCase on the wire, nothing that is not named, unchangeable."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        use_attribute_docstrings=True,
    )


def defaults(group: type[BaseModel]) -> dict[str, Value]:
    """What an input of ``group`` that is left out means, where that is not "nothing"."""
    return {
        to_camel(name): [*field.default] if isinstance(field.default, tuple) else field.default
        for name, field in group.model_fields.items()
        if not field.is_required() and field.default is not None
    }


def object_type(annotation: object) -> type[BaseModel] | None:
    """The group of arguments that a field holds, once or several times; None if it holds none."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (object_type(part) for part in get_args(annotation))
    return next((group for group in found if group is not None), None)


def moment(text: str) -> datetime:
    """The point in time that ``text`` (RFC 3339) names.

    Raises:
        ValueError: it names none, or none that is the same everywhere.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None or "T" not in text.upper():
        raise ValueError("not a time such as 2026-12-01T08:00:00Z (RFC 3339)")
    return found.astimezone(UTC)


def _is_moment(text: str) -> str:
    moment(text)
    return text


Zone = Annotated[str, Field(pattern=r"^[a-z]+-[a-z]+\d+-[a-z0-9]+$")]
Seconds = Annotated[str, Field(pattern=r"^[1-9]\d{0,9}s$")]
Moment = Annotated[str, AfterValidator(_is_moment)]
#: An int64 of the API that must be above zero.
Count = Annotated[int, Field(ge=1, le=2**63 - 1)]
