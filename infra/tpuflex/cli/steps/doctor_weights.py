"""Which weights `tpuflex up` would take, as far as `tpuflex doctor` can tell without the state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.boot.config import weights_prefix
from tpuflex.errors import WeightsError
from tpuflex.operate.pushed_weights import PushedWeights
from tpuflex.operate.weights_choice import Choice, Trust, Weights, choose

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud
    from tpuflex.gcp.weights_report import WeightsCheck


def choice_for(cloud: Cloud, place: str, stored: WeightsCheck | None) -> Choice | WeightsError:
    """What `up` would do about the weights in the bucket, as far as that is known without the
    state, or why it would refuse them.

    Args:
        cloud: the stack's cloud.
        place: where they are.
        stored: what is there.
    """
    settings = cloud.stack.settings.model.weights
    known = PushedWeights(cloud.stack.own_files)
    pushed = known.get(cloud.bucket, weights_prefix(cloud.stack.settings.model))
    found = None if stored is None else stored.sha256
    try:
        return choose(
            Weights(place, cloud.stack.name, found, settings.source is not None),
            Trust(pinned=settings.manifest_sha256, pushed=pushed),
        )
    except WeightsError as error:
        return error
