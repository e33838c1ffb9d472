"""An `up` whose state somebody else changes while it asks."""

from __future__ import annotations

import sys
from io import StringIO
from typing import Any

import click
import pytest
import yaml

from tests.acceptance.killed import stack_run
from tests.engine.embedded import Embedded
from tests.engine.libraries import command
from tpuflex.cli.up.run import run_up
from tpuflex.errors import PlanChangedError

pytestmark = [
    pytest.mark.engine,
    pytest.mark.timeout(180),
    # Pulumi's SDK abandons the event loop of an inline program whose engine failed.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


class Terminal(StringIO):
    """Standard input that is one."""

    def isatty(self) -> bool:
        return True


def edit(embedded: Embedded, section: str, **values: object) -> None:
    """Change settings of the stack file."""
    file = embedded.root / "stacks" / "Pulumi.dev.yaml"
    document = yaml.safe_load(file.read_text())
    document["config"].setdefault(f"tpuflex:{section}", {}).update(values)
    file.write_text(yaml.safe_dump(document))


def test_between_question_and_run(
    strictly_embedded: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A firewall is shown and agreed to. Meanwhile somebody else has started another slice, which
    this stack file would replace: that is refused, and nothing is bought or deleted."""
    embedded = strictly_embedded
    stack_run(embedded.root, embedded.engine, embedded.environ).up()
    edit(embedded, "network", allowed_cidrs=["192.0.2.0/24"])
    invocation, cloud = command(embedded, yes=False)
    there: list[Any] = []

    def agree(*_question: object, **_how: object) -> bool:
        edit(embedded, "slice", rerun="theirs")
        stack_run(embedded.root, embedded.engine, embedded.environ).up()
        there.append(embedded.cloud.cloud.inventory()["tpu"])
        return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(click, "confirm", agree)
    with pytest.raises(PlanChangedError, match="before the first step that was not in the plan"):
        run_up(invocation, cloud)

    assert [embedded.cloud.cloud.inventory()["tpu"]] == there
