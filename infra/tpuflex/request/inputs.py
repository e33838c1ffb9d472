"""The inputs of a request as a program gives them, with defaults, and parsed. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pulumi_plugin.values import UNKNOWN, Properties, Value
from tpuflex.naming import LABEL_OWNER, Names, generation_id
from tpuflex.request.fields import DEFAULTS, RequestArgs


def first_generation(prefix: str) -> str:
    """The id of what replaces nothing."""
    return generation_id(prefix, 1)


def with_defaults(
    inputs: Properties,
    *,
    urn: str,
    project: str | None,
    id_for: Callable[[str], str] = first_generation,
) -> Properties:
    """``inputs`` and, for what they leave out, a value made from the URN or the provider.

    A pure function of its arguments: the same resource gets the same names in every run.

    Args:
        inputs: what the program said.
        urn: the resource's URN.
        project: the provider's project.
        id_for: makes the id from its prefix where the program gives none.
    """
    names = _names(urn)
    labels = inputs.get("labels", {})
    filled: Properties = {**DEFAULTS}
    if project:
        filled["project"] = project
    filled |= inputs
    if "queuedResourceId" not in inputs:
        prefix = filled.setdefault("queuedResourceIdPrefix", names.prefix)
        filled["queuedResourceId"] = id_for(prefix) if isinstance(prefix, str) else UNKNOWN
    if isinstance(labels, dict):
        owned: dict[str, Value] = dict(names.labels()) if LABEL_OWNER not in labels else {}
        filled["labels"] = {**owned, **labels}
    return filled


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


def _names(urn: str) -> Names:
    # urn:pulumi:<stack>::<project>::<parent types>$<type>::<name>
    stack, project, _, name = urn.removeprefix("urn:pulumi:").split("::", 3)
    return Names(project=project, stack=stack, name=name)
