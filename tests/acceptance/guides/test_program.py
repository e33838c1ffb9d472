"""A program that calls what the commands call."""

from __future__ import annotations

import pytest

from tests.acceptance.guides.test_readme_commands import clone, pin
from tests.docs.blocks import ROOT
from tests.engine.readme_shell import Shell

__all__ = ["clone"]

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]

_EXAMPLE = ROOT / "docs" / "examples" / "bring_up.py"


def test_a_program_brings_a_stack_up(clone: Shell) -> None:
    """It agrees, is told the plan and the progress in words, and gets the endpoint and its state;
    then `tpuflex` knows the same stack."""
    pin(clone.root, None)
    (clone.root / ".tpuflex" / "vllm").symlink_to(ROOT / ".tpuflex" / "vllm")  # what is large

    said = clone.type(f"python {_EXAMPLE}")
    known = clone.type("tpuflex status --no-tunnel")
    clone.type("tpuflex down --yes")

    assert "Stack dev on the embedded cloud: " in said
    last = said.splitlines()[-1]
    assert last.startswith("http")
    assert "Stack dev: READY" in known
