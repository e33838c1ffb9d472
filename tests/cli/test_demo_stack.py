"""`tpuflex demo` touches no stack of Google Cloud."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpuflex.cli.demo import DemoError, require_embedded

STACKS = Path(__file__).parents[2] / "stacks"


def test_a_stack_for_google_is_no_demo() -> None:
    """It would be brought up and destroyed without a question."""
    with pytest.raises(DemoError, match="one for Google Cloud"):
        require_embedded(STACKS / "Pulumi.first-proof.yaml", "demo")


@pytest.mark.parametrize("stack", ["demo", "dev"])
def test_those_of_this_project_are(stack: str) -> None:
    """Both stacks that the tour may run are on the embedded cloud."""
    require_embedded(STACKS / f"Pulumi.{stack}.yaml", stack)
