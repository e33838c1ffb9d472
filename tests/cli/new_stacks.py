"""What `tpuflex init` is given, and what it has written."""

from __future__ import annotations

from pathlib import Path

GOOGLE = ("--project", "acme-serving", "--run", "4h")


def files(root: Path) -> dict[str, str]:
    """Texts by path of everything below ``root``."""
    found = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {str(path.relative_to(root)): path.read_text() for path in found}


def stack_file(root: Path, stack: str) -> Path:
    return root / "stacks" / f"Pulumi.{stack}.yaml"
