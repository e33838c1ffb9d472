"""How the weights in a stack's bucket match their manifest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tpuflex.errors import WeightsError
from tpuflex.planning.model_files import ServerNeeds

if TYPE_CHECKING:
    from tpuflex.planning.model_files import WeightsProblem
    from tpuflex.weights.stack_weights import StackWeights
    from tpuflex.weights.stored_set import WeightsCheck
    from tpuflex.weights.trust import Weights


def checked(home: StackWeights, weights: Weights) -> WeightsCheck:
    """How ``weights``, which were found in the bucket of the stack of ``home``, match their
    manifest, by size and checksum.

    Raises:
        WeightsError: they were changed meanwhile.
        TpuflexError: they cannot be looked at.
    """
    settings = home.stack.settings
    check = home.store.verify(home.prefix, ServerNeeds.of(settings))
    if check.sha256 != weights.found:
        raise WeightsError(
            f"The manifest in {weights.place} was changed a moment ago.",
            hint="Run it again when whoever pushes there is done.",
        )
    return check


def require_source(weights: Weights, problems: Sequence[WeightsProblem]) -> None:
    """Check that ``weights``, which have ``problems``, can be pushed again from a source that the
    stack names.

    Raises:
        WeightsError: it names none.
    """
    if not weights.source:
        raise WeightsError(
            f"{weights.place} cannot be served ({problems[0]}), and the stack names no source.",
            hint=f"Run: tpuflex weights push DIRECTORY --stack {weights.stack}",
        )
