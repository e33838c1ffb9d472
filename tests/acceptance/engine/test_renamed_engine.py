"""P1 under the real engine: an endpoint that runs under another name, and in a renamed stack."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pytest
from pulumi.automation.errors import CommandError

from tests.acceptance.engine.test_endpoint_engine import Workplace, changes, workplace
from tpuflex import Names, VllmEndpoint, VllmEndpointArgs
from tpuflex.settings.load import load_stack_file

__all__ = ["workplace"]

pytestmark = [
    pytest.mark.engine,
    # Pulumi's SDK abandons the event loop of an inline program whose engine failed.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
OLD = Names("tpuflex", "dev", "old")
KEEPS = r'names=tpuflex.Names\("tpuflex", "dev", "old"\)'


class Program:
    """One endpoint, with the settings of the stack file."""

    def __init__(self, workplace: Workplace) -> None:
        self.settings = load_stack_file(workplace.stack_file).settings
        self.name = "old"
        self.names: Names | None = None
        self.aliases: Sequence[pulumi.Alias] = ()

    def __call__(self) -> None:
        settings = self.settings
        made = VllmEndpointArgs(
            cloud=settings.cloud,
            project=settings.project,
            slice=settings.slice,
            model=settings.model,
            serving=settings.serving,
            names=self.names,
        )
        VllmEndpoint(self.name, made, pulumi.ResourceOptions(aliases=[*self.aliases]))


@pytest.mark.pulumi_feature("alias of a VllmEndpoint", "stack rename with a VllmEndpoint")
def test_p1_an_endpoint_keeps_everything_under_another_name(
    workplace: Workplace,
) -> None:
    """With `names=` nothing changes but the component's own record of them, whatever it and its
    stack are called; without, it is refused with those that the state has, also under an alias in a
    renamed stack."""
    program = Program(workplace)
    stack = workplace.stack(program)
    stack.up()
    made = workplace.cloud.cloud.inventory()
    program.name, program.aliases = "new", [pulumi.Alias(name="old")]

    with pytest.raises(CommandError, match=KEEPS):
        stack.preview()
    program.names = OLD
    assert changes(stack.preview()) == {"update": 1}
    stack.rename("prod")
    assert changes(stack.preview()) == {"update": 1}
    program.names = None
    with pytest.raises(CommandError, match=KEEPS):
        stack.up()
    program.name, program.aliases = "old", ()
    with pytest.raises(CommandError, match=KEEPS):
        stack.preview()
    assert workplace.cloud.cloud.inventory() == made
    stack.destroy()
    assert workplace.kinds() == set()
