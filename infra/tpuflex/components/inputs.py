"""What a component was made with, as its entry in the state shows it: policy packs and
``pulumi stack export`` read it there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import Field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

import pulumi
from pydantic import BaseModel

from tpuflex.naming import Names
from tpuflex.settings.model import StackSettings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

#: What one part of an endpoint gets from another: it stands in the state with that one, and a
#: component that had it as an input would be made only after that one.
_OF_OTHERS = frozenset({"state_id", "reader"})
#: Of the section on the network, what came with several regions, left out at its default, too.
_YOUNGER_RANGES = ("subnetwork_cidrs",)
#: The sections of a stack file that are inputs of an endpoint.
_SECTIONS = frozenset({"cloud", "project", "slice", "model", "serving", "network", "secrets"})
#: What is not written at its default: states that are older than these have no change then.
_YOUNGER_SECTIONS = frozenset({"encryption", "identity", "labels", "manage_apis"})
#: The same of the sections on the slice, the network, on weights, on secrets and on serving.
_YOUNGER_SLICE = ("drain", "drain_margin", "replace")
_YOUNGER = ("manage_firewall", "ssh", "tags")
_YOUNGER_WEIGHTS = ("manage_grants",)
_YOUNGER_SECRETS = ("manage_grants",)
_YOUNGER_SERVING = ("warmup",)


def inputs_of(args: DataclassInstance) -> dict[str, pulumi.Input[Any]]:
    """The arguments of a part of an endpoint, but for those at their default, which are younger
    than states without them; of its names, what they begin with."""
    values = {
        field.name: getattr(args, field.name)
        for field in fields(args)
        if field.name not in _OF_OTHERS and not _at_default(args, field)
    }
    names = values.pop("names", None)
    prefix = {"namePrefix": names.prefix} if isinstance(names, Names) else {}
    return prefix | {_camel(name): _plain(value) for name, value in values.items()}


def endpoint_inputs(settings: StackSettings) -> dict[str, pulumi.Input[Any]]:
    """The sections of the stack file, with its own keys and with the defaults of what it leaves
    out. None holds the value of a secret: the settings refuse these."""
    younger: dict[str, Any] = {
        "slice": _same(settings.slice, _YOUNGER_SLICE),
        "network": _same(settings.network, (*_YOUNGER, *_YOUNGER_RANGES)),
        "secrets": _same(settings.secrets, _YOUNGER_SECRETS),
        "serving": _same(settings.serving, _YOUNGER_SERVING),
        "model": {"weights": _same(settings.model.weights, _YOUNGER_WEIGHTS)},
    }
    sections = settings.model_dump(
        mode="json", exclude_none=True, include=set(_SECTIONS), exclude=younger
    ) | settings.model_dump(mode="json", exclude_defaults=True, include=set(_YOUNGER_SECTIONS))
    own = settings.catalog.own.model_dump(mode="json", exclude_defaults=True)
    return {**sections, **({"catalog": own} if own else {})}


def _same(section: BaseModel, keys: Sequence[str]) -> set[str]:
    """Those of ``keys`` that have their default in ``section``."""
    defaults = type(section).model_fields
    return {key for key in keys if getattr(section, key) == defaults[key].default}


def _at_default(args: DataclassInstance, field: Field[Any]) -> bool:
    return getattr(args, field.name) is field.default


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
