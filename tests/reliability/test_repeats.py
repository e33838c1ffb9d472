"""Figure 8s brings up every stack file of the project."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from reliability.command_rig import ROOT
from reliability.figures.repeats import on_this_machine
from tpuflex.settings.load import parse

FILES = sorted((ROOT / "stacks").glob("Pulumi.*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_stack_is_one_for_this_machine(file: Path) -> None:
    """With what only Google has replaced, a stack is accepted on the embedded cloud."""
    dev = (ROOT / "stacks" / "Pulumi.dev.yaml").read_text()

    config = yaml.safe_load(on_this_machine(file, dev))["config"]

    sections = {key.removeprefix("tpuflex:"): value for key, value in config.items()}
    assert parse(sections, file.name).cloud == "embedded"
