"""What a row of the request's table says, beside an input's type, default, limits and text.

The table itself is :mod:`tpuflex.queued_resource.fields`, with
:mod:`tpuflex.queued_resource.objects` for what is inside of an input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from functools import cache
from typing import Annotated, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from pulumi_plugin.values import Value

#: Place of the node in the `QueuedResource`.
NODE = "tpu.nodeSpec.node"


class OnChange(Enum):
    """What a changed input does to a request that exists."""

    REPLACES = auto()
    """New hosts: the API has no update for it."""
    PATCHES = auto()
    """`nodes.patch` changes it in place."""
    BOOTS = auto()
    """Decides how hosts boot: new hosts, or with `onBootChange` update none until there are
    others: `nodes.patch` cannot change it."""
    QUEUES = auto()
    """Decides how long the request waits: a new one while it is in the queue; what was granted
    stays, and only the state changes."""
    STEERS = auto()
    """Only this provider reads it: it changes in the state, and nothing is sent."""
    NOTHING = auto()
    """It only makes another input, which may change by it."""


class Form(Enum):
    """How a value stands in Google's JSON."""

    PLAIN = auto()
    """As it is; left out where it says nothing: None, False, or an empty list."""
    ALWAYS = auto()
    """As it is, also where it is False: the service must not choose. An answer without it says
    False."""
    FLAG = auto()
    """True is an empty object, False is left out."""
    INT64 = auto()
    """A number as text, which is how Google's JSON carries 64 bits."""
    NAME_OR_PATH = auto()
    """As it is; a bare name and a full path that ends in it are the same."""
    IN_NAME = auto()
    """A part of the request's own name, which the body says in `parent` and `nodeId`."""


@dataclass(frozen=True, slots=True)
class Input:
    """One row: what the request does with an input.

    Attributes:
        at: place in the `QueuedResource` of `tpu.v2alpha1` (revision 20261001), or, inside of an
            object, in that object; `nodeSpec` stands for its only entry. Empty: never sent.
        example: what to write, as a refusal says it.
        on_change: what a change of it does.
        form: how it stands in Google's JSON.
        or_node: whether an import takes it from the node where the request does not say it. The
            rest is only read from the request: the node spells some of it differently (a network
            by its full path).
        shown: whether a refusal may show the value; metadata may be long, or hold what it should
            not.
    """

    at: str = ""
    example: str = ""
    on_change: OnChange = OnChange.REPLACES
    form: Form = Form.PLAIN
    or_node: bool = False
    shown: bool = True


def provider_input(example: str) -> Input:
    """The row of an input that only this provider reads."""
    return Input(example=example, on_change=OnChange.STEERS)


class Group(BaseModel):
    """Inputs that belong together: camelCase on the wire, nothing that is not named, frozen."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        use_attribute_docstrings=True,
    )


@cache
def rows(group: type[BaseModel]) -> Mapping[str, Input]:
    """The row of every field of ``group``, by its Python name."""
    return {
        name: next(each for each in field.metadata if isinstance(each, Input))
        for name, field in group.model_fields.items()
    }


def defaults(group: type[BaseModel]) -> dict[str, Value]:
    """What an input of ``group`` that is left out means, where that is not "nothing"."""
    return {
        to_camel(name): [*field.default] if isinstance(field.default, tuple) else field.default
        for name, field in group.model_fields.items()
        if not field.is_required() and field.default is not None
    }


def object_type(annotation: object) -> type[BaseModel] | None:
    """The objects that a field of this type holds, one or several; None if it holds none."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inside = (object_type(part) for part in get_args(annotation))
    return next((group for group in inside if group is not None), None)


def moment(text: str) -> datetime:
    """The point in time that ``text`` (RFC 3339) names.

    Raises:
        ValueError: it names none, or none that is the same everywhere.
    """
    try:
        read = datetime.fromisoformat(text)
        if read.tzinfo is not None and "T" in text.upper():
            return read.astimezone(UTC)
    except (OverflowError, ValueError):  # the first is of a time that is in no year of UTC
        pass
    raise ValueError("not a time such as 2026-12-01T08:00:00Z (RFC 3339)")


def rfc3339(time: datetime) -> str:
    """``time``, in UTC, as :func:`moment` reads it; to the second."""
    return time.isoformat(timespec="seconds").replace("+00:00", "Z")


def _checked_moment(text: str) -> str:
    moment(text)
    return text


#: A duration as Google writes it.
Seconds = Annotated[str, Field(pattern=r"^[1-9]\d{0,9}s$")]
#: A point in time (RFC 3339).
Moment = Annotated[str, AfterValidator(_checked_moment)]
#: An int64 of the API that must be above zero.
Count = Annotated[int, Field(ge=1, le=2**63 - 1)]
