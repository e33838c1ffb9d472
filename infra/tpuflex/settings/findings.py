"""pydantic's errors as findings in plain sentences: the value, and what to write instead."""

from __future__ import annotations

import difflib
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Union, cast, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from tpuflex.duration import format_duration
from tpuflex.errors import Finding
from tpuflex.settings.base import REFUSED, Remedy
from tpuflex.settings.extra_args import unknown_setting
from tpuflex.settings.model import NAMESPACE, StackSettings
from tpuflex.settings.plain import shown
from tpuflex.settings.schema import descriptions
from tpuflex.settings.serving import ServingFlags
from tpuflex.settings.slice import SliceSettings
from tpuflex.settings.stack_yaml import join

#: Where a secret may be written by mistake: messages do not repeat what stands there.
_NOT_SHOWN = (f"{NAMESPACE}serving.env", f"{NAMESPACE}secrets")

UNKNOWN = "unknown key"
MISSING = "is missing"

#: Keys that people write because they know them from vLLM, Pulumi or Terraform.
_MOVED: Mapping[str, str] = {
    **{f"{NAMESPACE}{name}": "Write it in tpuflex:slice." for name in SliceSettings.model_fields},
    "tpuflex:zone": "Write zones: [ZONE] in tpuflex:slice.",
    "tpuflex:zones": "Write zones: [ZONE] in tpuflex:slice.",
    "tpuflex:slice.zone": "Write zones: [ZONE].",
    "tpuflex:slice.queue_timeout": "Write queue in tpuflex:slice.timeouts.",
}
_KINDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "dict_type": "a section of keys and values",
    "model_type": "a section of keys and values",
    "model_attributes_type": "a section of keys and values",
    "tuple_type": "a list",
    "list_type": "a list",
    "decimal_type": "a number",
    "decimal_parsing": "a number",
    "date_type": 'a date such as "2026-11-22"',
    "date_parsing": 'a date such as "2026-11-22"',
    "date_from_datetime_parsing": 'a date such as "2026-11-22"',
}
#: What to write for a text that has another form, in a row of the catalog.
_IN_ROWS = {
    "topology": "Write a shape such as 2x4.",
    "zone": "Write a zone such as us-east5-a.",
    "region": "Write a region such as us-east5.",
    "digest": "Write sha256: and 64 hex digits.",
}


def findings_of(model: type[BaseModel], errors: list[ErrorDetails], key: str) -> Iterator[Finding]:
    """One finding per error that pydantic reports for ``model``; union members count once."""
    seen: set[str] = set()
    for error in errors:
        if error["type"] == "too_short" and _has_wrong_member(error, errors):
            continue  # it is too short only because pydantic leaves out the wrong member
        if _names_literal(error["loc"][-1:]) and isinstance(error["input"], dict):
            continue  # of a union with a section, in which another error is
        finding = _finding(model, error, key)
        if finding.key not in seen:
            seen.add(finding.key)
            yield finding


def without_explained(findings: Iterable[Finding]) -> list[Finding]:
    """``findings`` without missing keys for which an unknown key is a misspelling."""
    everything = list(findings)
    suggestions = [
        finding
        for finding in everything
        if finding.problem == UNKNOWN and not finding.remedy.startswith("Known here")
    ]
    return [
        finding
        for finding in everything
        if finding.problem != MISSING
        or not any(_suggests(suggestion, finding.key) for suggestion in suggestions)
    ]


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """``findings`` in the order of the stack file's sections, others last."""
    sections = list(StackSettings.model_fields)

    def place(finding: Finding) -> int:
        name = re.split(r"[.\[]", finding.key.partition(":")[2], maxsplit=1)[0]
        return sections.index(name) if name in sections else len(sections)

    return sorted(findings, key=place)


def did_you_mean(name: str, known: list[str], prefix: str = "") -> str:
    """A remedy for the unknown key ``name``: the known key that starts with it, the nearest one,
    or all of them."""
    typed = name.lower().replace("-", "_")
    begun = [item for item in known if len(name) >= 3 and item.startswith(f"{typed}_")]
    close = begun or difflib.get_close_matches(typed, known, n=1, cutoff=0.75)
    if close:
        return f"Did you mean {prefix}{close[0]}?"
    if len(known) > 8:
        return "Remove it."
    return f"Known here: {', '.join(prefix + item for item in known)}."


def moved(key: str) -> str:
    """Where a key that is often written in the wrong place belongs; empty if unknown."""
    return _MOVED.get(key, "")


def _finding(model: type[BaseModel], error: ErrorDetails, key: str) -> Finding:
    owner, path, last = _walk(model, error["loc"], key)
    kind, value = error["type"], error["input"]
    if kind == "extra_forbidden":
        known = list(owner.model_fields) if owner is not None else []
        if owner is ServingFlags and (about := unknown_setting(last)):
            return Finding(path, *about)
        return Finding(path, UNKNOWN, moved(path) or did_you_mean(last, known))
    if kind == "missing":
        return Finding(path, MISSING, f"Write {last} here.{_description(owner, last)}")
    problem, remedy = _problem(error, value, path, _example(owner, last))
    if remedy and kind == "value_error" and owner is not None and _is_duration(owner, last):
        remedy = f"Write it with its unit, such as {_duration_example(owner, last)}."
    return Finding(path, problem, remedy)


def _example(owner: type[BaseModel] | None, name: str) -> str:
    """What to write for the key ``name``; empty if its type does not say it."""
    field = owner.model_fields.get(name) if owner is not None else None
    if field is None:
        return _IN_ROWS.get(name, "")
    types_of_text = (_of_dict(field.annotation)[0], *_members(field.annotation))
    of_types = (item for each in types_of_text for item in getattr(each, "__metadata__", ()))
    remedies = (item.text for item in (*field.metadata, *of_types) if isinstance(item, Remedy))
    return next(remedies, _IN_ROWS.get(name, ""))


def _is_duration(owner: type[BaseModel], name: str) -> bool:
    field = owner.model_fields.get(name)
    return field is not None and timedelta in (field.annotation, *_members(field.annotation))


def _duration_example(owner: type[BaseModel], name: str) -> str:
    """A duration that the key takes: its default, if it has one."""
    default = owner.model_fields[name].default
    return format_duration(default) if isinstance(default, timedelta) else "4h or 90m"


def _has_wrong_member(error: ErrorDetails, errors: list[ErrorDetails]) -> bool:
    place = error["loc"]
    return any(
        len(other["loc"]) > len(place) and other["loc"][: len(place)] == place for other in errors
    )


def _suggests(suggestion: Finding, key: str) -> bool:
    parent, _, name = key.rpartition(".")
    same_section = suggestion.key.startswith(f"{parent}.") if parent else True
    return (
        same_section
        and re.search(rf"\b{re.escape(name.partition(':')[2] or name)}\b", suggestion.remedy)
        is not None
    )


def _problem(error: ErrorDetails, value: object, path: str, example: str) -> tuple[str, str]:
    kind, context = error["type"], error.get("ctx", {})
    secret = path.startswith(_NOT_SHOWN) or _may_have_secret(value, path)
    text = "the value" if secret else shown(value)
    if value is None:
        return "is empty", "Write a value, or remove the line."
    if kind == REFUSED:
        return str(context["problem"]), str(context["remedy"])
    if kind in _KINDS:
        quotes = " (in quotes)" if kind == "string_type" and not isinstance(value, dict) else ""
        remedy = example if kind == "tuple_type" else ""
        return f"{text} is not {_KINDS[kind]}", remedy or f"Write {_KINDS[kind]}{quotes}."
    if kind == "literal_error":
        choices = str(context["expected"]).replace("'", "")
        return f"{text} is not one of the choices", f"Write {choices}."
    if kind == "string_pattern_mismatch":
        return f"{text} cannot be used", example or "Write it in another form."
    if kind == "string_too_short":
        return "is empty", example or "Write at least one character."
    if kind == "too_short":
        return "the list is empty", example or "Write at least one."
    limits = {
        "greater_than_equal": ("ge", "{} or more"),
        "greater_than": ("gt", "more than {}"),
        "less_than_equal": ("le", "{} or less"),
        "less_than": ("lt", "less than {}"),
    }
    if kind in limits:
        name, form = limits[kind]
        limit = context[name]
        written = f"{limit:g}" if isinstance(limit, float) else limit
        return f"{text} is out of range", f"Write {form.format(written)}."
    if kind == "value_error":
        problem, _, remedy = str(context["error"]).partition("; ")
        return problem, f"{remedy[:1].upper()}{remedy[1:]}." if remedy else ""
    return f"{text} cannot be used", f"{error['msg']}."


def _may_have_secret(value: object, path: str) -> bool:
    """Whether it may be a key in place of its digest, a URL with a password, or a list of sections,
    one of which may have either."""
    if isinstance(value, list):
        return any(isinstance(each, dict) for each in value)
    in_url = isinstance(value, str) and "@" in value
    return in_url or path.endswith(".key_sha256")


def _names_literal(location: tuple[int | str, ...]) -> bool:
    """Whether a place ends with pydantic's name for a member of a union that is a literal."""
    return str(location[-1]).startswith("literal[") if location else False


def _walk(
    model: type[BaseModel], location: tuple[int | str, ...], key: str
) -> tuple[type[BaseModel] | None, str, str]:
    """The model that owns the last name of ``location``, the full key, and that name."""
    owner: type[BaseModel] | None = None
    annotation: object = model
    path, last = key, ""
    for part in location:
        if isinstance(part, int):
            path, annotation = f"{path}[{part}]", _member(annotation)
            continue
        members = _members(annotation)
        here = next((item for item in members if _is_model(item)), None)
        if part == "[key]" or _names_literal((part,)):
            break  # a marker of pydantic's, not a key of the file
        if here is not None:
            if len(members) > 2 and part == cast("type[BaseModel]", here).__name__:
                continue  # the member of a union that the value was read as
            owner, last = cast("type[BaseModel]", here), part
            field = owner.model_fields.get(part)
            annotation = field.annotation if field is not None else None
        elif any(get_origin(item) is dict for item in members):
            annotation = _of_dict(annotation)[1]
        else:
            break  # a member of a union
        path = join(path, part)
    return owner, path, last


def _member(annotation: object) -> object:
    """The type of the members of a list; None if ``annotation`` is no list of models."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    member = get_args(annotation)[0] if get_origin(annotation) is tuple else None
    return member if _is_model(member) else None


def _of_dict(annotation: object) -> tuple[object, object]:
    """The types of keys and values of a section whose keys are names; None for another."""
    found = next((each for each in _members(annotation) if get_origin(each) is dict), None)
    key, value = get_args(found) if found is not None else (None, None)
    return key, value if _is_model(value) else None


def _members(annotation: object) -> tuple[object, ...]:
    union = get_origin(annotation) in (Union, types.UnionType)
    return get_args(annotation) if union else (annotation,)


def _is_model(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _description(owner: type[BaseModel] | None, name: str) -> str:
    text = descriptions(owner).get(name, "") if owner is not None else ""
    sentence = " ".join(text.split()).split(". ")[0].rstrip(".")
    return f" {sentence}." if sentence else ""
