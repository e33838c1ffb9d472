"""What an operation on a stack would do, put together from the engine's steps."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tpuflex.engine.events import Step


@dataclass(frozen=True, slots=True)
class Plan:
    """What an operation would do, step by step."""

    steps: tuple[Step, ...]

    @property
    def changes(self) -> tuple[Step, ...]:
        """The steps that change something in the stack's state."""
        return tuple(step for step in self.steps if step.changes)

    @property
    def resources(self) -> tuple[Step, ...]:
        """The steps that change something in the cloud."""
        return tuple(step for step in self.steps if step.touches_cloud)


def merge(steps: dict[str, Step], step: Step) -> None:
    """Keep one step per resource: a replacement's parts (create, delete) count as `replace`,
    with the inputs of what is made and not of what is deleted."""
    known = steps.get(step.urn)
    if known is None or not known.changes:
        steps[step.urn] = step
    elif "replace" in step.operation:
        made = known if step.operation == "delete-replaced" else step
        steps[step.urn] = replace(made, operation="replace")
