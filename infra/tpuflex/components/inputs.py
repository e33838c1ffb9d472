"""What a component was made with, as its entry in the state shows it: policy packs and
``pulumi stack export`` read it there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import pulumi

from tpuflex.naming import Names
from tpuflex.settings.model import StackSettings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

#: What one part of an endpoint gets from another: it stands in the state with that one, and a
#: component that had it as an input would be made only after that one.
_OF_OTHERS = frozenset({"state_id", "reader"})
#: Sections of a stack file that are no inputs of an endpoint, and the catalog, of which the state
#: shows the user's own rows.
_NOT_SHOWN = {"budget", "waivers", "catalog"}


def inputs_of(args: DataclassInstance) -> dict[str, pulumi.Input[Any]]:
    """The arguments of a part of an endpoint; of its names, what they begin with."""
    values = {
        field.name: getattr(args, field.name)
        for field in fields(args)
        if field.name not in _OF_OTHERS
    }
    names = values.pop("names", None)
    prefix = {"namePrefix": names.prefix} if isinstance(names, Names) else {}
    return prefix | {_camel(name): _plain(value) for name, value in values.items()}


def endpoint_inputs(settings: StackSettings) -> dict[str, pulumi.Input[Any]]:
    """The sections of the stack file, with its own keys and with the defaults of what it leaves
    out. None holds the value of a secret: the settings refuse these."""
    sections = settings.model_dump(mode="json", exclude_none=True, exclude=_NOT_SHOWN)
    own = settings.catalog.own.model_dump(mode="json", exclude_defaults=True)
    return {**sections, **({"catalog": own} if own else {})}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _plain(value: object) -> Any:
    if isinstance(value, pulumi.Output):
        return value.apply(_plain)
    if is_dataclass(value) and not isinstance(value, type):
        return inputs_of(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list(value)
    return value
