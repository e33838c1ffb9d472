"""Weights in their bucket that do not match their manifest, and what mends them: the same set,
whole, in another bucket of the library, or their source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.boot.places import weights_prefix
from tpuflex.cli.weights_elsewhere import elsewhere
from tpuflex.errors import WeightsError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tpuflex.cli.cloud import Cloud
    from tpuflex.gcp.weights_report import WeightsCheck, WeightsProblem
    from tpuflex.operate.weights_choice import Elsewhere, Weights


def checked(cloud: Cloud, weights: Weights) -> WeightsCheck:
    """How ``weights``, which were found in the bucket of the stack of ``cloud``, match their
    manifest, by size and checksum.

    Raises:
        WeightsError: they were changed meanwhile.
        TpuflexError: they cannot be looked at.
    """
    model = cloud.stack.settings.model
    check = cloud.weights.verify(weights_prefix(model), model.weights.extra_files)
    if check.sha256 != weights.found:
        raise WeightsError(
            f"The manifest in {weights.place} was changed a moment ago.",
            hint="Run it again when whoever pushes there is done.",
        )
    return check


def whole_copy(
    cloud: Cloud,
    weights: Weights,
    problems: Sequence[WeightsProblem],
    say: Callable[[str], None],
) -> Elsewhere | None:
    """What a copy mends ``weights`` from, which have ``problems``; None where there is nothing such
    and their source mends them.

    Raises:
        WeightsError: there is neither.
    """
    others = elsewhere(cloud, say)
    found = next((each for each in others if each.sha256 == weights.found), None)
    if found is None and not weights.source:
        raise WeightsError(
            f"{weights.place} does not match its manifest ({problems[0].path}:"
            f" {problems[0].problem}), and the stack names no source.",
            hint=f"Run: tpuflex weights push DIRECTORY --stack {weights.stack}",
        )
    return found
