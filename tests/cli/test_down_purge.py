"""`tpuflex down --purge-weights`: what is there to purge."""

from __future__ import annotations

from tpuflex.cli.cloud import Cloud
from tpuflex.cli.stack import OpenStack
from tpuflex.cli.steps.down_purge import nothing_text, planned_purge
from tpuflex.errors import NotFoundError


class NoBucket:
    """A bucket that is gone."""

    def contents(self, _prefix: str) -> None:
        raise NotFoundError("gs://gone does not exist")


def library_stack(stack: OpenStack) -> Cloud:
    """The cloud of a stack whose file names the library."""
    model = stack.settings.model
    weights = model.weights.model_copy(update={"bucket": "library"})
    model = model.model_copy(update={"weights": weights})
    settings = stack.settings.model_copy(update={"model": model})
    return Cloud(OpenStack(stack.project, stack.name, stack.file, settings), {})


def test_what_stays_is_told_by_its_place(stack: OpenStack) -> None:
    """The slice may have been made for other weights than the file names by now."""
    own, library = Cloud(stack, {}), library_stack(stack)
    assert nothing_text(own) == "The stack file names no weights that outlive the stack."
    assert f"names gs://{library.bucket}/models/" in nothing_text(library)


def test_a_library_that_is_gone_holds_nothing_up(stack: OpenStack) -> None:
    """A slice that is billed goes, although its weights went first."""
    cloud = library_stack(stack)
    vars(cloud)["weights"] = NoBucket()

    assert planned_purge(cloud, None) is None
