"""What vLLM knows of flags and environment, and what may be said of each: two files of rows.

``data/vllm_flags.json`` is made from vLLM's own argument parser (contributing/VLLM.md);
``data/flag_rules.yaml`` is written by hand, a source and a date in each row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Literal

from pydantic import Field, model_validator

from tpuflex.catalog.packaged import packaged_data, packaged_rows
from tpuflex.catalog.rows import Row, Source, Sourced, Text


class KnownFlag(Row):
    """A flag of vLLM's own parser."""

    names: tuple[str, ...]
    """All its spellings; ``--no-x`` is one of a switch ``--x``."""
    values: Literal["none", "one", "optional", "many"]
    """How many values follow it."""
    type: Literal["int", "float", "json", "text"] | None = None
    """How the parser reads a value; None if it takes none."""
    choices: tuple[str, ...] = ()
    """The only values that the parser takes; empty if it takes any."""

    @property
    def name(self) -> str:
        """Its first long name without dashes, such as ``max-model-len``."""
        return next(name for name in self.names if name.startswith("--"))[2:]


class Variable(Row):
    """An environment variable of the TPU backend."""

    type: Literal["bool", "int", "float", "int_list", "choice", "choices", "text"]
    """How the backend reads it; it ends at a value that it cannot read."""
    choices: tuple[str, ...] = ()
    """The only words that it takes; empty if it takes any."""


class VllmInterface(Row):
    """What one version of vLLM, and of its TPU backend, can be told."""

    vllm_version: str
    """vLLM's version."""
    tpu_inference_version: str
    """The backend's version."""
    date: str
    """When it was read."""
    flags: tuple[KnownFlag, ...]
    vllm_variables: tuple[str, ...]
    """Names of vLLM's own environment variables."""
    tpu_variables: dict[str, Variable]
    """The backend's environment variables."""

    @property
    def by_name(self) -> dict[str, KnownFlag]:
        """Each flag by each of its long names, without dashes."""
        return {
            name[2:]: flag for flag in self.flags for name in flag.names if name.startswith("--")
        }


class FlagRule(Sourced):
    """What may be said of a flag in ``serving.extra_args``: that it is accepted, or refused."""

    flags: tuple[str, ...] = Field(min_length=1)
    """Names without dashes."""
    accepted: Text | None = None
    """Why it can do no harm."""
    refused: Text | None = None
    """What it would do, after its name."""
    remedy: Text = "Remove it."
    """What to write instead."""
    values: Text | None = None
    """Regular expression of the values that are accepted."""

    @model_validator(mode="after")
    def _is_one_of_both(self) -> FlagRule:
        if (self.accepted is None) == (self.refused is None):
            raise ValueError(f"{self.flags} must be either accepted or refused")
        return self


class ValueRule(Sourced):
    """Values of typed flags that are refused, alone or together."""

    key: Text
    """The flag that is to be changed."""
    when: dict[str, Text] = Field(min_length=1)
    """Regular expression of the whole value as text, by its dotted path below the flags."""
    absent: tuple[Text, ...] = ()
    """Flags that are not set."""
    cloud: Literal["google", "embedded"] | None = None
    """The cloud that the rule is about; None for both."""
    model: Text | None = None
    """Regular expression of the model's name; None for all."""
    refused: Text | None = None
    """What is wrong, after the flag's name."""
    warned: Text | None = None
    """The same, where the server serves nevertheless."""
    remedy: Text
    """What to write instead."""

    @model_validator(mode="after")
    def _is_one_of_both(self) -> ValueRule:
        if (self.refused is None) == (self.warned is None):
            raise ValueError(f"a rule about {self.key} must be either refused or warned")
        return self

    def holds(self, flags: Mapping[str, object], cloud: str | None, model: str) -> bool:
        """Whether ``flags`` are what the rule refuses."""
        return (
            self.cloud in (None, cloud)
            and (self.model is None or re.fullmatch(self.model, model) is not None)
            and not any(name in flags for name in self.absent)
            and all(_fits(flags, path, wanted) for path, wanted in self.when.items())
        )


class FlagRules(Row):
    """All rows about flags."""

    sources: dict[str, Source]
    """Named once for the rows that refer to them."""
    flags: tuple[FlagRule, ...]
    values: tuple[ValueRule, ...]

    @property
    def by_name(self) -> dict[str, FlagRule]:
        """The rule about each flag."""
        return {name: rule for rule in self.flags for name in rule.flags}


@cache
def vllm_interface() -> VllmInterface:
    """What the vLLM of this version of tpuflex can be told, read once."""
    return VllmInterface.model_validate_json(packaged_data("vllm_flags.json"), strict=True)


@cache
def known_flags() -> Mapping[str, KnownFlag]:
    """vLLM's flags by name."""
    return MappingProxyType(vllm_interface().by_name)


@cache
def flag_rules() -> FlagRules:
    """The rows written by hand, read once."""
    rows = packaged_rows("flag_rules.yaml")
    return FlagRules.model_validate_json(json.dumps(rows), strict=True)


@cache
def rule_of(name: str) -> FlagRule | None:
    """The rule about the flag ``name`` (without dashes, in either spelling), or None."""
    return flag_rules().by_name.get(plain_name(name))


def plain_name(flag: str) -> str:
    """The name of ``flag`` without dashes in front, and with dashes instead of underscores."""
    return flag.removeprefix("--").replace("_", "-")


def _fits(flags: Mapping[str, object], path: str, wanted: str) -> bool:
    value: object = flags
    for name in path.split("."):
        if not isinstance(value, Mapping) or value.get(name) is None:
            return False
        value = value[name]
    text = value if isinstance(value, str) else json.dumps(value)
    return re.fullmatch(wanted, text, re.DOTALL) is not None
