"""Every file of the project that is generated from code: `python -m tools.docs.generate`.

With ``--check`` it writes nothing and names what is out of date.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tools.docs.cli_reference import cli_reference
from tools.docs.cost_reference import cost_reference
from tools.docs.lifecycle_reference import lifecycle_reference
from tools.docs.policy_reference import policy_reference
from tools.docs.python_class import python_classes
from tools.docs.settings_reference import settings_reference
from tools.docs.stacks_reference import stacks_reference
from tpuflex.settings.schema import catalog_schema_text, schema_text

ROOT = Path(__file__).parents[2]
_HEAD = """\
# Decisions

Generated from the records in this directory by `make docs`; do not edit. Each says what was
decided, why, and what was left out.

| number | decision | date |
|---|---|---|
"""
_RECORD = re.compile(r"# 0*(\d+)\.? (.+)\n+Date: ([\d-]+)")


def decisions_reference() -> str:
    """The text of docs/adr/README.md: every decision with its title and date."""
    rows = []
    for file in sorted((ROOT / "docs" / "adr").glob("[0-9]*.md")):
        found = _RECORD.match(file.read_text("utf-8"))
        if found is None:
            raise ValueError(f"{file.name} begins with no number, title and date")
        number, title, date = found.groups()
        rows.append(f"| [{number:0>4}]({file.name}) | {title} | {date} |\n")
    return _HEAD + "".join(rows)


#: Path in the project -> the function that renders the file.
FILES: Mapping[str, Callable[[], str]] = {
    "docs/adr/README.md": decisions_reference,
    "docs/catalog.schema.json": catalog_schema_text,
    "docs/cli.md": cli_reference,
    "docs/cost.md": cost_reference,
    "docs/lifecycle.md": lifecycle_reference,
    "docs/policy.md": policy_reference,
    "docs/settings.md": settings_reference,
    "docs/stack.schema.json": schema_text,
    "docs/stacks.md": stacks_reference,
    "infra/tpuflex/tpu.py": python_classes,
}


def main(arguments: list[str]) -> int:
    """Write every generated file, or with ``--check`` compare; 1 when one is out of date."""
    stale = [path for path, render in FILES.items() if _read(path) != render()]
    if "--check" not in arguments:
        for path in stale:
            (ROOT / path).write_text(FILES[path](), "utf-8")
        return 0
    for path in stale:
        sys.stderr.write(f"{path} is out of date: run `make docs`\n")
    return 1 if stale else 0


def _read(path: str) -> str:
    file = ROOT / path
    return file.read_text("utf-8") if file.is_file() else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
