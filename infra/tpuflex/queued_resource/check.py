"""The inputs of a request as a program gives them: with defaults, parsed, and everything that is
wrong with them, each finding with its property path. Pure.

Single inputs are held against their rows (:mod:`tpuflex.queued_resource.fields`); rules across
inputs are in :mod:`tpuflex.queued_resource.rules`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from pydantic import BaseModel, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from pulumi_plugin.values import UNKNOWN, Properties, has_unknown
from tpuflex.naming import LABEL_OWNER, LABEL_PROJECT, LABEL_STATE, Names, generation_id
from tpuflex.queued_resource import rules
from tpuflex.queued_resource.fields import DEFAULTS, MAPS, PROVIDER_ONLY, ROWS, RequestArgs
from tpuflex.queued_resource.rows import Input, object_type, rows

_NO_ROW = Input(shown=False)
#: Of a value that is shown, so many characters at most.
_SHOWN = 100


def first_generation(prefix: str) -> str:
    """The id of what replaces nothing."""
    return generation_id(prefix, 1)


def with_defaults(
    inputs: Properties,
    *,
    urn: str,
    project: str | None,
    id_for: Callable[[str], str] = first_generation,
    before: Properties | None = None,
    state_id: str = "",
) -> Properties:
    """``inputs`` and, for what they leave out, a value made from the URN or the provider.

    A pure function of its arguments: the same resource gets the same names in every run. What has
    names keeps them, whatever its URN is now: an alias, a move or a renamed stack changes nothing
    (docs/adr/0024).

    Args:
        inputs: what the program said.
        urn: the resource's URN.
        project: the provider's project.
        id_for: makes the id from its prefix where the program gives none.
        before: inputs as they are in the state; none for what replaces it.
        state_id: marks what this state makes, where nothing else says so.
    """
    names, before = _names(urn), before or {}
    labels = inputs.get("labels", {})
    filled: Properties = {**DEFAULTS}
    if project:
        filled["project"] = project
    filled |= inputs
    if "queuedResourceId" not in inputs:
        series = before.get("queuedResourceIdPrefix", names.prefix)
        prefix = filled.setdefault("queuedResourceIdPrefix", series)
        filled["queuedResourceId"] = id_for(prefix) if isinstance(prefix, str) else UNKNOWN
    if isinstance(labels, dict):
        own = _owner_labels({**names.labels(state_id)}, before)
        if LABEL_OWNER in labels:  # the program's own; only which state it is, it may not know
            own = {key: value for key, value in own.items() if key == LABEL_STATE}
        filled["labels"] = {**own, **labels}
    return filled


def _owner_labels(made: Properties, before: Properties) -> Properties:
    """The labels that say whose it is: those that it has; ``made`` if it has none."""
    labels = before.get("labels")
    if not isinstance(labels, dict) or LABEL_OWNER not in labels:
        return made
    imported = not PROVIDER_ONLY & before.keys()
    if imported and any(labels.get(key) != made[key] for key in (LABEL_OWNER, LABEL_PROJECT)):
        return made  # another's: they are this program's only if it says so
    return {key: labels[key] for key in made if key in labels}


def parse(inputs: Mapping[str, object]) -> RequestArgs:
    """The typed inputs.

    Raises:
        pydantic.ValidationError: something is missing or wrong.
    """
    return RequestArgs.model_validate(inputs)


def input_properties(args: RequestArgs) -> Properties:
    """``args`` under their names on the wire, without what was left out."""
    dumped: Properties = args.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


def failures(
    inputs: Properties,
    *,
    before: Properties | None = None,
    now: datetime | None = None,
    secrets: frozenset[str] = frozenset(),
) -> list[tuple[str, str]]:
    """Everything wrong with ``inputs``, as (property path, reason); unknown values pass.

    Args:
        inputs: what the program said, with defaults.
        before: inputs as they are in the state.
        now: the time; None leaves out what depends on it.
        secrets: inputs whose values are never shown.
    """
    malformed = list(_malformed(inputs, secrets))
    wrong = {re.split(r"[.\[]", path)[0] for path, _ in malformed}
    sound = {key: UNKNOWN if key in wrong else value for key, value in inputs.items()}
    return malformed + list(rules.conflicts(sound, before=before or {}, now=now))


def _malformed(inputs: Properties, secrets: frozenset[str]) -> Iterator[tuple[str, str]]:
    unknown = {key for key, value in inputs.items() if has_unknown(value)}
    try:
        parse({key: value for key, value in inputs.items() if key not in unknown})
    except ValidationError as error:
        errors = [item for item in error.errors(include_url=False) if item["loc"][0] not in unknown]
        # A wrong item does not count as an item: only the wrong item is worth a word.
        wrong_inside = {item["loc"][0] for item in errors if len(item["loc"]) > 1}
        for item in errors:
            if item["type"] != "too_short" or item["loc"][0] not in wrong_inside:
                yield _path(item["loc"]), _reason(item, secrets)


def _path(location: tuple[int | str, ...]) -> str:
    head = str(location[0])
    parts = [head]
    for part in location[1:]:
        if isinstance(part, int):
            parts.append(f"[{part}]")
        elif part != "[key]":
            parts.append(f'["{part}"]' if head in MAPS else f".{part}")
    return "".join(parts)


def _reason(item: ErrorDetails, secrets: frozenset[str]) -> str:
    outer, inner = _rows(item["loc"])
    if item["type"] == "extra_forbidden":
        return "there is no such input"
    if item["type"] == "missing":
        return f"it is required. {inner.example}".strip()
    text = re.sub(r"^Value error, ", "", item["msg"])
    if outer.shown and str(item["loc"][0]) not in secrets:
        value = repr(item["input"])
        text += f", but it is {value if len(value) <= _SHOWN else f'{value[:_SHOWN]} …'}"
    return f"{text}. {inner.example}".strip()


def _rows(location: tuple[int | str, ...]) -> tuple[Input, Input]:
    """The row of the input at ``location``, and that of what is wrong inside of it."""
    outer = inner = ROWS.get(str(location[0]), _NO_ROW)
    group: type[BaseModel] | None = RequestArgs
    for part in location:
        names = {to_camel(name): name for name in group.model_fields} if group is not None else {}
        if group is not None and part in names:
            inner = rows(group)[names[str(part)]]
            group = object_type(group.model_fields[names[str(part)]].annotation)
    return outer, inner


def _names(urn: str) -> Names:
    # urn:pulumi:<stack>::<project>::<parent types>$<type>::<name>
    stack, project, types, name = urn.removeprefix("urn:pulumi:").split("::", 3)
    return Names(project=project, stack=stack, name=name, within=types.rpartition("$")[0])
