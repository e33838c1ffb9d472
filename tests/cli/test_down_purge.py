"""`tpuflex down --purge-weights`: what is there to purge."""

from __future__ import annotations

from tpuflex.cli.cloud import Cloud
from tpuflex.cli.stack import OpenStack
from tpuflex.cli.steps.down_purge import planned_purge
from tpuflex.errors import NotFoundError


class NoBucket:
    """A bucket that is gone."""

    def contents(self, _prefix: str) -> None:
        raise NotFoundError("gs://gone does not exist")


def test_a_library_that_is_gone_holds_nothing_up(stack: OpenStack) -> None:
    """A slice that is billed goes, although its weights went first."""
    model = stack.settings.model
    weights = model.weights.model_copy(update={"bucket": "library"})
    model = model.model_copy(update={"weights": weights})
    settings = stack.settings.model_copy(update={"model": model})
    cloud = Cloud(OpenStack(stack.project, stack.name, stack.file, settings), {})
    vars(cloud)["weights"] = NoBucket()

    assert planned_purge(cloud, None) is None
