"""The startup script as text: static, in order, and small (`make lint` runs shellcheck)."""

from __future__ import annotations

import re
from pathlib import Path

from tpuflex.boot.metadata import LIMIT_BYTES, startup_script

STARTUP = Path(__file__).parents[2] / "startup"
FILES = sorted(STARTUP.glob("*.sh"))


def test_parts_come_in_order() -> None:
    """The script is its parts, unchanged, by number; the last one starts everything."""
    script = startup_script()
    positions = [script.index(file.read_text().rstrip()) for file in FILES]
    assert positions == sorted(positions)
    assert script.rstrip().endswith('main "$@"')


def test_fits_into_metadata() -> None:
    """It stays well below the limit of a metadata value."""
    assert len(startup_script().encode()) < LIMIT_BYTES * 7 / 8


def test_nothing_is_printed_by_bash_itself() -> None:
    """No part traces its commands: a trace would print secrets to the serial log."""
    script = startup_script()
    assert not re.search(r"^\s*set\s+-[a-z]*x", script, re.MULTILINE)
    assert "xtrace" not in script


def test_has_no_template_markers() -> None:
    """Every part runs unchanged: there is nothing to fill in."""
    for file in FILES:
        assert not re.search(r"\{\{|\}\}|<%|@@|__[A-Z]+__", file.read_text()), file.name


def test_every_part_is_strict() -> None:
    """Every part stops at the first failure and reads no unset variable."""
    for file in FILES:
        assert "set -Eeuo pipefail" in file.read_text(), file.name
