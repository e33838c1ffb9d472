"""The program under Pulumi's mocks, and inventories to compare it with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.components.pulumi_plan import Plan, differences, run_program
from tests.loopback import overrides
from tpuflex.program import deploy
from tpuflex.settings.load import parse

INVENTORIES = Path(__file__).parent / "inventories"

#: The variables of `tpuflex emulator env` that the program reads.
EMBEDDED_ENVIRON = {
    **overrides("http://127.0.0.1:8470"),
    "PULUMI_DEBUG_PROVIDERS": "gcp:40001",
}

Deploy = Callable[..., Plan]
Compare = Callable[[Plan, str], None]


@pytest.fixture
def embedded_environ() -> dict[str, str]:
    """A copy of the embedded cloud's environment."""
    return dict(EMBEDDED_ENVIRON)


@pytest.fixture
def deployed() -> Deploy:
    """Deploys sections and returns the plan."""

    def run(
        sections: dict[str, Any],
        *,
        preview: bool = False,
        slice_: dict[str, Any] | None = None,
        read: dict[str, Any] | None = None,
        **options: Any,
    ) -> Plan:
        settings = parse(sections, "test")
        environ = EMBEDDED_ENVIRON if settings.cloud == "embedded" else {}
        given = {"environ": environ, "project": "tpuflex", "stack": "dev", **options}
        return run_program(
            lambda: deploy(settings, **given), preview=preview, slice_=slice_, read=read
        )

    return run


@pytest.fixture
def matches() -> Compare:
    """Compares a plan with an inventory, which must be contained in it."""

    def compare(plan: Plan, name: str) -> None:
        inventory = yaml.safe_load((INVENTORIES / name).read_text())
        lines = [
            *differences(inventory.get("values", {}), plan.inputs, ""),
            *differences(inventory.get("outputs", {}), plan.outputs, "outputs"),
        ]
        if "counts" in inventory and inventory["counts"] != plan.counts():
            lines.append(f"counts: expected {inventory['counts']}, found {plan.counts()}")
        if lines:
            pytest.fail("\n".join([*lines, "", f"the plan ({name}):", plan.to_yaml()]))

    return compare
