"""What vLLM knows of flags and environment, and what may be said of each: two files of rows; and
the flags among the words of a command line.

``data/vllm_flags.json`` is made from vLLM's own argument parser (contributing/VLLM.md);
``data/flag_rules.yaml`` is written manually, with a source and a date in each row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from types import MappingProxyType
from typing import Literal

from pydantic import Field, model_validator

from tpuflex.catalog.packaged import packaged_data, packaged_rows
from tpuflex.catalog.rows import Row, Source, Sourced, Text
from tpuflex.startup.served import release

#: A number as the value of a flag: a whole one, and any.
NUMBER = re.compile(r"-?\d{1,18}")
DECIMAL = re.compile(r"-?\d{1,18}(\.\d{1,18})?")
#: Flags that count tokens, which vLLM's parser reads with a suffix, too (`human_readable_int`).
TOKEN_FLAGS = ("max_model_len", "max_num_batched_tokens")
SUFFIXED = re.compile(r"^(?:(\d{1,15}(?:\.\d{1,15})?)([kmgt])|(\d{1,15})([KMGT]))$")
_THOUSANDS = "kmgt"
#: As pydantic names them: at least, more than, at most, less than.
Bound = Literal["ge", "gt", "le", "lt"]


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
    bounds: dict[Bound, float] = {}
    """What vLLM's configuration wants of a number."""

    @property
    def name(self) -> str:
        """Its first long name without dashes, such as ``max-model-len``."""
        return next(name for name in self.names if name.startswith("--"))[2:]


class Variable(Row):
    """An environment variable of vLLM, or of its TPU backend."""

    type: Literal["bool", "int", "float", "int_list", "choice", "choices", "text"]
    """How it is read; the server ends at a value that it cannot read."""
    choices: tuple[str, ...] = ()
    """The only words that it takes; empty if it takes any."""
    any_case: bool = False
    """Whether these words are taken in upper and in lower case."""


class ClosedLists(Row):
    """What one version of vLLM looks up in its own tables."""

    vllm_version: str
    """vLLM's version."""
    names: dict[str, tuple[str, ...]]
    """The names that it has, by the dotted path of the value below the flags; the keys that a
    document may have, by its own path."""


class VllmInterface(Row):
    """What one version of vLLM, and of its TPU backend, can be told."""

    vllm_version: str
    """vLLM's version."""
    tpu_inference_version: str
    """The backend's version."""
    date: str
    """When it was read."""
    flags: tuple[KnownFlag, ...]
    closed_lists: tuple[ClosedLists, ...]
    """Names that the server looks up, by version, the oldest first."""
    vllm_variables: dict[str, Variable]
    """vLLM's own environment variables."""
    tpu_variables: dict[str, Variable]
    """The backend's environment variables."""

    @property
    def by_name(self) -> dict[str, KnownFlag]:
        """Each flag by each of its long names, without dashes."""
        return {
            name[2:]: flag for flag in self.flags for name in flag.names if name.startswith("--")
        }

    def lists_of(self, version: str) -> ClosedLists | None:
        """The names that vLLM ``version`` has at most: those of the first version that was read and
        is not older. None if all are older."""
        least = release(version)
        return next((row for row in self.closed_lists if release(row.vllm_version) >= least), None)


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
    unneeded: Text | None = None
    """Why a server of tpuflex does the same without it; None if it does not."""
    values: Text | None = None
    """Regular expression of the values that are accepted."""
    bounds: dict[Bound, float] = {}
    """What a number has to be beside the bounds that vLLM checks."""

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
    """Dotted paths of what is not set."""
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
            and all(value_at(flags, path) is None for path in self.absent)
            and _fit(flags, self.when)
        )


class LimitRule(Sourced):
    """A number that another one bounds; vLLM refuses to start beyond."""

    key: Text
    """Dotted path of the number."""
    at_least: Text | None = None
    """Path of the least that it may be."""
    at_most: Text | None = None
    """Path of the most that it may be."""
    when: dict[str, Text] = {}
    """As of a :class:`ValueRule`."""

    @property
    def bound(self) -> str:
        """Path of the other number."""
        return self.at_least or self.at_most or ""

    @model_validator(mode="after")
    def _has_one_bound(self) -> LimitRule:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError(f"a rule about {self.key} must have one bound")
        return self

    def applies(self, flags: Mapping[str, object]) -> bool:
        """Whether ``flags`` are among those that the rule is about."""
        return _fit(flags, self.when)


class FlagRules(Row):
    """All rows about flags."""

    sources: dict[str, Source]
    """Named once for the rows that refer to them."""
    flags: tuple[FlagRule, ...]
    values: tuple[ValueRule, ...]
    limits: tuple[LimitRule, ...]

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
    """The manually written rows, read once."""
    rows = packaged_rows("flag_rules.yaml")
    return FlagRules.model_validate_json(json.dumps(rows), strict=True)


@cache
def rule_of(name: str) -> FlagRule | None:
    """The rule about the flag ``name`` (without dashes, in either spelling), or None."""
    return flag_rules().by_name.get(plain_name(name))


def suffixed_number(text: str) -> int | None:
    """The number that ``text`` is with a suffix, as vLLM reads it: the small ones are powers of
    1,000, the capital ones powers of 1,024. None for a text without one."""
    match = SUFFIXED.fullmatch(text)
    if match is None:
        return None
    if match[2]:
        return int(Decimal(match[1]) * 1000 ** (_THOUSANDS.index(match[2]) + 1))
    return int(match[3]) << 10 * (_THOUSANDS.index(match[4].lower()) + 1)


def plain_name(flag: str) -> str:
    """The name of ``flag`` without dashes in front, and with dashes instead of underscores."""
    return flag.removeprefix("--").replace("_", "-")


@dataclass(frozen=True, slots=True)
class FlagUse:
    """A flag as it is written on a command line.

    Attributes:
        place: index of its word among the words.
        word: the flag, with dashes in front.
        values: what is written for it.
    """

    place: int
    word: str
    values: tuple[str, ...]


def flag_uses(words: Sequence[str]) -> Iterator[FlagUse]:
    """The flags among ``words``; a word that belongs to none is one of its own."""
    index = 0
    while index < len(words):
        place, (word, equals, value) = index, words[index].partition("=")
        index += 1
        values = [value] if equals else []
        if word.startswith("-") and not equals:
            while index < len(words) and not _is_flag(words[index]):
                values.append(words[index])
                index += 1
        yield FlagUse(place, word, tuple(values))


def written_flags(words: Sequence[str]) -> dict[str, object]:
    """The known flags among ``words`` by their names with underscores: a number, a text, or whether
    a switch is on."""
    found: dict[str, object] = {}
    for use in flag_uses(words):
        flag = known_flags().get(plain_name(use.word))
        if flag is not None:
            value: object = use.values[0] if use.values else not use.word.startswith("--no-")
            if flag.type == "int" and isinstance(value, str) and NUMBER.fullmatch(value):
                value = int(value)
            found[flag.name.replace("-", "_")] = value
    return found


def _is_flag(word: str) -> bool:
    return word.startswith("-") and not DECIMAL.fullmatch(word)


def value_at(flags: Mapping[str, object], path: str) -> object:
    """The value at a dotted ``path`` below ``flags``; None if there is none."""
    value: object = flags
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _fit(flags: Mapping[str, object], when: Mapping[str, str]) -> bool:
    for path, wanted in when.items():
        value = value_at(flags, path)
        text = value if isinstance(value, str) else json.dumps(value)
        if value is None or re.fullmatch(wanted, text, re.DOTALL) is None:
            return False
    return True
