"""Deletion protection as Google has it: switched off in a step of its own, then deleted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pulumi_plugin.values import Properties
from tpuflex.errors import ConflictError
from tpuflex.naming import generation_id, generation_of
from tpuflex.provider.call import Call
from tpuflex.request.name import RequestName
from tpuflex.request.outcomes import PROTECTED
from tpuflex.request.outputs import recorded_lifecycle
from tpuflex.request.states import Lifecycle

_HINT = (
    "First set deletion_protection to false (in a stack file: tpuflex:slice.deletion_protection)"
    " and run `up` with that alone; then do this."
)


def refuse_replacement(old: Properties, outputs: Properties, reasons: Iterable[str]) -> None:
    """Check that the resource may be replaced.

    The state decides: protection that could be removed together with the change that replaces
    would protect nothing.

    Args:
        old: inputs as they were last applied.
        outputs: its outputs in the state.
        reasons: the properties for which it would be replaced.

    Raises:
        ConflictError: it is ACTIVE and protected.
    """
    active = recorded_lifecycle(outputs) is Lifecycle.ACTIVE
    if old.get("deletionProtection") is True and active:
        raise ConflictError(
            f"{outputs.get('name')} is ACTIVE and {PROTECTED.text}: it is not replaced for"
            f" {', '.join(sorted(reasons))}",
            hint=_HINT,
        )


def refuse_deletion(
    call: Call, inputs: Properties, names: Iterable[RequestName], labels: dict[str, str]
) -> None:
    """Check that the resource may be deleted: if it is not ACTIVE, or if another generation has
    taken over from it. The endpoint is protected, not each of its runs.

    Raises:
        ConflictError: one of ``names`` is ACTIVE, and protected.
    """
    if inputs.get("deletionProtection") is not True:
        return
    every = [*names]
    for name in every:
        seen = call.look(name)
        if seen.lifecycle is not Lifecycle.ACTIVE or not seen.belongs_to(labels):
            continue
        if not any(_serves(call, heir, labels) for heir in _heirs(inputs, every)):
            raise ConflictError(
                f"{name} is ACTIVE and {PROTECTED.text}: it is not deleted", hint=_HINT
            )


def _serves(call: Call, name: RequestName, labels: dict[str, str]) -> bool:
    seen = call.look(name)
    return seen.lifecycle is Lifecycle.ACTIVE and seen.belongs_to(labels)


def _heirs(inputs: Properties, names: Iterable[RequestName]) -> Iterable[RequestName]:
    """The next generation, in every zone."""
    prefix = inputs.get("queuedResourceIdPrefix")
    for name in names:
        series = prefix if isinstance(prefix, str) else name.id.rpartition("-g")[0]
        generation = generation_of(series, name.id)
        if generation is not None:
            yield replace(name, id=generation_id(series, generation + 1), nodes=())
