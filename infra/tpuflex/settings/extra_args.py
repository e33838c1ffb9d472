"""Rules about ``serving.extra_args``: flags of vLLM that have no setting of their own.

Each member of the list is one word of the command line. What passes is a flag that vLLM's own
parser knows and that was reviewed, with as many values of the kind that the parser
takes; so no word can become another flag, and none can contradict a setting.
"""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable, Iterator, Sequence

from tpuflex.catalog.flags import (
    DECIMAL,
    NUMBER,
    Bound,
    FlagRule,
    FlagUse,
    KnownFlag,
    flag_uses,
    known_flags,
    plain_name,
    rule_of,
    vllm_interface,
)
from tpuflex.errors import Finding
from tpuflex.settings.plain import shown
from tpuflex.settings.serving import ServingFlags

KEY = "tpuflex:serving.extra_args"

_FLAG = re.compile(r"--[A-Za-z0-9][A-Za-z0-9_-]*")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
#: How a bound is held, and said.
_COMPARED: dict[Bound, tuple[Callable[[float, float], bool], str]] = {
    "ge": (operator.ge, "not below"),
    "gt": (operator.gt, "above"),
    "le": (operator.le, "not above"),
    "lt": (operator.lt, "below"),
}
#: The least and the most values of a flag.
_COUNTS = {"none": (0, 0), "one": (1, 1), "optional": (0, 1), "many": (1, 64)}


def extra_args_findings(arguments: Sequence[str]) -> Iterator[Finding]:
    """What is wrong with ``arguments``."""
    seen: set[str] = set()
    for use in flag_uses(arguments):
        found = _problem(use)
        if found is None:
            name = known_flags()[plain_name(use.word)].name
            if name in seen:
                found = Finding(_key(use), f"{use.word} is written twice", "Write it once.")
            seen.add(name)
        if found is not None:
            yield found


def _key(use: FlagUse) -> str:
    return f"{KEY}[{use.place}]"


def _problem(use: FlagUse) -> Finding | None:
    if not _FLAG.fullmatch(use.word):
        return Finding(
            _key(use),
            f"{shown(use.word)} is not the long name of a flag",
            "Write a flag such as --max-num-queued-reqs, then its value as the next member.",
        )
    name = plain_name(use.word)
    flag, rule = known_flags().get(name), rule_of(name)
    if flag is None and rule is None:
        return Finding(_key(use), *_no_such_flag(use.word, name))
    setting = _setting(flag, name)
    if setting is not None:
        problem = f"{use.word} is a setting of its own"
        return Finding(_key(use), problem, f"Write {setting} in tpuflex:serving.flags.")
    rule = rule or (rule_of(flag.name) if flag is not None else None)
    if rule is None:
        return Finding(_key(use), *_not_looked_at(use.word))
    if rule.refused is not None or flag is None:
        return Finding(_key(use), f"{use.word} {rule.refused}", rule.remedy)
    return _values(use, flag, rule)


def _setting(flag: KnownFlag | None, name: str) -> str | None:
    """The typed setting that says what the flag says."""
    names = {name} if flag is None else {plain_name(each) for each in flag.names}
    settings = (each.replace("-", "_") for each in sorted(names))
    return next((each for each in settings if each in ServingFlags.model_fields), None)


def unknown_setting(name: str) -> tuple[str, str] | None:
    """What to say of the key ``name`` of ``serving.flags`` that is no setting, if it is, or once
    was, a flag of vLLM."""
    flag, rule = known_flags().get(plain_name(name)), rule_of(name)
    word = f"--{plain_name(name)}"
    if rule is not None and rule.refused is not None:
        return f"{word} {rule.refused}", rule.remedy
    if flag is not None and rule is None:
        return _not_looked_at(word)
    if flag is not None:
        value = "" if flag.values == "none" else " and its value"
        return (
            "has no setting of its own",
            f"Write {word}{value} in tpuflex:serving.extra_args.",
        )
    return None


def _not_looked_at(word: str) -> tuple[str, str]:
    return (
        f"nobody has looked yet at what {word} opens, loads or reads",
        "Remove it, or propose a row for catalog/data/flag_rules.yaml.",
    )


def _no_such_flag(word: str, name: str) -> tuple[str, str]:
    close = difflib.get_close_matches(name, known_flags(), n=1, cutoff=0.75)
    return (
        f"vLLM {vllm_interface().vllm_version} has no flag {shown(word)} and would not start",
        f"Did you mean --{close[0]}?" if close else "Remove it.",
    )


def _values(use: FlagUse, flag: KnownFlag, rule: FlagRule) -> Finding | None:
    count = len(use.values)
    least, most = _COUNTS[flag.values]
    if not least <= count <= most:
        if most == 0:
            return Finding(_key(use), f"{use.word} takes no value", f"Write {use.word} alone.")
        takes = "one value" if most == 1 else "values"
        problem = f"{use.word} takes {takes}, and has {count or 'none'}"
        return Finding(_key(use), problem, "Write each as a member of its own, after the flag.")
    for value in use.values:
        expected = _unexpected(value, flag, rule)
        if expected is not None:
            problem = f"{shown(value)} is no value of {use.word}"
            return Finding(_key(use), problem, f"Write {expected}.")
    return None


def _unexpected(value: str, flag: KnownFlag, rule: FlagRule) -> str | None:
    """What to write instead of ``value``; None if it is fine."""
    if (pattern := rule.values) is not None:
        known = re.fullmatch(r"[\w-]+(\|[\w-]+)+", pattern)
        choices = pattern.replace("|", ", ") if known else f"what fits {pattern}"
        return None if re.fullmatch(pattern, value) else choices
    if flag.choices:
        return None if value in flag.choices else ", ".join(flag.choices)
    if flag.type in ("int", "float"):
        form, what = (NUMBER, "a whole number") if flag.type == "int" else (DECIMAL, "a number")
        bounds = {**flag.bounds, **rule.bounds}
        fine = form.fullmatch(value) and all(
            _COMPARED[name][0](float(value), bound) for name, bound in bounds.items()
        )
        limits = " and ".join(
            f"{_COMPARED[name][1]} {bound:.15g}" for name, bound in bounds.items()
        )
        return None if fine else f"{what} {limits}".rstrip()
    return None if _WORD.fullmatch(value) else "a plain word"
