"""Other tools' configuration as settings of a stack: every key mapped, or refused with the reason.

Each format is a table of rules by key. A rule sees one value and says what becomes of it: a
setting, nothing because it is so anyway, or a refusal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tpuflex.errors import Finding
from tpuflex.scaffold.shell_script import gaps
from tpuflex.settings.secret_shapes import holds_secret, masked


@dataclass(frozen=True, slots=True)
class Sets:
    """A value that becomes a setting.

    Attributes:
        key: dotted key of the setting without namespace, such as ``serving.flags.max_num_seqs``.
        value: its value, as in a stack file.
    """

    key: str
    value: object


@dataclass(frozen=True, slots=True)
class AsIs:
    """A value that needs no setting: it is so anyway.

    Attributes:
        reason: why, as a sentence without its end.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A value that cannot be honoured.

    Attributes:
        reason: why, as a sentence without its end.
        remedy: what to do instead, as a sentence; may be empty.
    """

    reason: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Unset:
    """A variable that nothing sets, where its value is needed.

    Attributes:
        variable: its name.
        key: the foreign key that it stands at.
        setting: the setting that it would become; empty if that cannot be determined.
        line: line of the file; 0 if the file is no script.
    """

    variable: str
    key: str
    setting: str
    line: int


_A_SECRET = Refused(
    "seems to hold a secret, which everybody reads who may read the stack file or the node",
    "Remove it from that file, and exchange it if others have read it.",
)


Rule: TypeAlias = Callable[[object], "Sets | AsIs | Refused"]


@dataclass(frozen=True, slots=True)
class Translation:
    """What a foreign configuration says, in our words.

    Attributes:
        settings: values by dotted key of a setting.
        origins: the foreign key that each setting comes from.
        as_is: foreign keys that need no setting, each with the reason.
        refused: foreign keys that cannot be honoured, each with the reason.
        unset: uses of variables that nothing sets.
    """

    settings: dict[str, object] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    as_is: list[Finding] = field(default_factory=list)
    refused: list[Finding] = field(default_factory=list)
    unset: list[Unset] = field(default_factory=list)

    def add(self, key: str, outcome: Sets | AsIs | Refused) -> None:
        """Take in what a rule said of the foreign ``key``; a value that looks like a secret is
        refused, and shown nowhere."""
        key = masked(key)
        if isinstance(outcome, Sets) and holds_secret(outcome.value):
            outcome = _A_SECRET
        match outcome:
            case Sets(setting, value) if setting in self.settings:
                if self.settings[setting] != value:
                    problem = f"says otherwise than {self.origins[setting]}"
                    self.refused.append(Finding(key, problem, "Write it once."))
            case Sets(setting, value):
                self.settings[setting] = value
                self.origins[setting] = key
            case AsIs(reason):
                self.as_is.append(Finding(key, masked(reason)))
            case Refused(reason, remedy):
                self.refused.append(Finding(key, masked(reason), masked(remedy)))

    def unset_in(self, key: str, setting: str, values: Iterable[str], line: int) -> None:
        """Take in that variables in ``values`` at the foreign ``key`` are set by nothing."""
        for value in values:
            for name in gaps(value):
                self.unset.append(Unset(name.removeprefix("$"), key, setting, line))


def sets(key: str) -> Rule:
    """The value becomes the setting ``key`` as it is."""
    return lambda value: Sets(key, value)


def as_is(reason: str) -> Rule:
    """Whatever the value is, it needs no setting."""
    return lambda _value: AsIs(reason)


def refused(reason: str, remedy: str = "") -> Rule:
    """Whatever the value is, it cannot be honoured."""
    return lambda _value: Refused(reason, remedy)


def only(*values: object, because: str, otherwise: str, remedy: str = "") -> Rule:
    """The ``values`` are so anyway, and no others can be had."""

    def rule(value: object) -> AsIs | Refused:
        # Not `in`: True is 1.
        fits = any(value == each and type(value) is type(each) for each in values)
        return AsIs(because) if fits else Refused(otherwise, remedy)

    return rule


def translated(
    document: Mapping[str, object],
    rules: Mapping[str, Rule],
    *,
    otherwise: AsIs | Refused | None = None,
) -> Translation:
    """The values of ``document``, each by the rule of its dotted key; a member without a rule is
    ``otherwise``, or, without that, refused."""
    found = Translation()
    values = document.items() if otherwise is not None else _values(document, "", rules)
    for key, value in values:
        rule = rules.get(key)
        found.add(key, rule(value) if rule is not None else otherwise or _UNKNOWN)
    return found


_UNKNOWN = Refused("is not a key that tpuflex knows", "Remove it, or write the setting of tpuflex.")


def _values(
    section: Mapping[str, object], path: str, rules: Mapping[str, Rule]
) -> Iterator[tuple[str, object]]:
    for name, value in section.items():
        key = f"{path}.{name}" if path else str(name)
        if isinstance(value, Mapping) and value and key not in rules:
            yield from _values(value, key, rules)
        else:
            yield key, value
