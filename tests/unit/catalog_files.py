"""A project with a catalog.yaml of its own, and rows to write into it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.stack_sections import sections
from tpuflex.errors import SettingsError
from tpuflex.settings.load import load_stack_file

SOURCE = {"where": "our contract of November", "date": "2026-11-02"}
PRICE = {
    "generation": "v6e",
    "region": "us-east5",
    "kind": "flex_start",
    "usd_per_chip_hour": 1.00,
    "source": SOURCE,
}
CHIPS = {
    "name": "v6e-2",
    "generation": "v6e",
    "chips": 2,
    "hosts": 1,
    "topology": "1x2",
    "runtime_version": "v2-alpha-tpuv6e",
    "flex_start_api": True,
    "hbm_gb_per_chip": 32,
    "source": SOURCE,
}

CATALOG_FILE = """\
# What we pay.
prices:
  - generation: v6e
    region: us-east5
    kind: flex_start
    usd_per_chip_hour: 1.10
    source: {where: our contract of November, date: "2026-11-02"}
"""


def project(
    directory: Path, catalog: str | bytes = "", changes: dict[str, Any] | None = None
) -> Path:
    """A project with ``catalog`` as its catalog.yaml; the stack file with ``changes``."""
    (directory / "Pulumi.yaml").write_text("name: chat\nruntime: python\nstackConfigDir: stacks\n")
    text = catalog.encode() if isinstance(catalog, str) else catalog
    (directory / "catalog.yaml").write_bytes(text)
    (directory / "stacks").mkdir()
    stack = directory / "stacks" / "Pulumi.prod.yaml"
    config = {f"tpuflex:{name}": value for name, value in sections(changes).items()}
    stack.write_text(json.dumps({"config": config}))  # JSON is YAML
    return stack


def refused(stack: Path) -> list[str]:
    """The lines of the error that ``stack`` gives, without the indent."""
    with pytest.raises(SettingsError) as caught:
        load_stack_file(stack)
    return [line.strip() for line in str(caught.value).splitlines()]
