"""Secrets of a stack's own that a plan makes anew, without the values that they have: where the
values are stored cannot be changed once a secret is made, so a home that moves takes new ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tpuflex.errors import ConflictError, Finding, SettingsError
from tpuflex.inventory.kinds import SECRET
from tpuflex.naming import API_KEY, METRICS_KEY, PROGRAMS_KEY
from tpuflex.settings.secrets import version_setting

if TYPE_CHECKING:
    from tpuflex.engine.events import EnginePlan
    from tpuflex.naming import SecretRole
    from tpuflex.stack.stack import Stack

_NEW_VALUES: dict[SecretRole, str] = {
    API_KEY: "with a new key: the one that clients have is gone with it, so give them the new one",
    METRICS_KEY: "with a new key: give it to what collects the metrics",
    PROGRAMS_KEY: "with a new key: all programs are compiled once more",
}


def made_anew(stack: Stack, plan: EnginePlan) -> tuple[SecretRole, ...]:
    """The roles of the secrets of ``stack`` that ``plan`` replaces."""
    replaced = {
        str(step.inputs.get("secretId"))
        for step in plan.resources
        if step.type == SECRET.type and step.operation == "replace"
    }
    own = stack.settings.secrets.versions
    return tuple(role for role in own if stack.names.secret(role) in replaced)


def anew_texts(stack: Stack, plan: EnginePlan) -> Iterator[str]:
    """What somebody has to know who agrees to ``plan``: a sentence for each of them."""
    for role in made_anew(stack, plan):
        made = f"{stack.names.secret(role)} is made anew in {stack.settings.region}"
        if value := _NEW_VALUES.get(role):
            yield f"{made}, {value}"
        else:
            yield (
                f"{made}, and is empty then: have its value at hand, which is deleted, and put it"
                f" again with `tpuflex secrets put {role} --stack {stack.name}`"
            )


def require_none_anew(stack: Stack, plan: EnginePlan) -> None:
    """Refuse to add a secret of ``stack`` where ``plan`` makes others anew: the engine would delete
    those with their values, while the slice still serves with them, and nobody was asked.

    Raises:
        ConflictError: it does.
    """
    anew = made_anew(stack, plan)
    if not anew:
        return
    names = ", ".join(stack.names.secret(role) for role in anew)
    raise ConflictError(
        f"The stack file moves the secrets' home to {stack.settings.region}: {names} would be made"
        " anew there, and what is stored would be deleted. Nothing was changed.",
        hint="Add the secret with the zones and tpuflex:network.subnetwork_cidrs as they were. Or"
        " take it out of tpuflex:secrets until the home has moved, which this does after a"
        f" question: tpuflex up --stack {stack.name}",
    )


def require_first_versions(stack: Stack, plan: EnginePlan) -> None:
    """Refuse a plan that makes a secret anew of which ``stack`` pins another version than the
    first: it would fail when the old secret, and the slice that served, are deleted already.

    Raises:
        SettingsError: it does.
    """
    pinned = stack.settings.secrets.versions
    findings = tuple(
        Finding(
            f"tpuflex:secrets.{version_setting(role)}",
            f"{pinned[role]}, but {stack.names.secret(role)} is made anew in"
            f" {stack.settings.region}, and its versions begin with 1",
            "Write 1. Nothing was changed.",
        )
        for role in made_anew(stack, plan)
        if pinned[role] != 1
    )
    if findings:
        raise SettingsError(f"the stack {stack.name}", findings)
