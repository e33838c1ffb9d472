"""The gcloud of this machine, found and asked for its components."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpuflex.errors import TpuflexError
from tpuflex.operate.gcloud import Gcloud, find_gcloud


def stand_in(directory: Path, script: str) -> dict[str, str]:
    """An environment with a gcloud that runs ``script``."""
    program = directory / "gcloud"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {"PATH": f"{directory}:/usr/bin:/bin"}


def test_components(tmp_path: Path) -> None:
    """Its components are the keys of the document that it prints."""
    environ = stand_in(tmp_path, """echo '{"core": "1", "alpha": "2"}'""")

    assert find_gcloud(environ) == Gcloud(f"{tmp_path}/gcloud", frozenset({"core", "alpha"}))
    assert find_gcloud({"PATH": ""}) is None


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo no JSON", "it gave no version"),
        ("echo '[]'", "it gave no version"),
        ("echo '{}'; echo broken >&2; exit 1", "broken"),
    ],
)
def test_a_gcloud_that_does_not_work(tmp_path: Path, script: str, message: str) -> None:
    """What it says itself is in the error."""
    with pytest.raises(TpuflexError, match=message) as raised:
        find_gcloud(stand_in(tmp_path, script))

    assert str(raised.value.hint) == "Try: gcloud version"


def test_a_gcloud_that_hangs(tmp_path: Path) -> None:
    """It keeps nobody waiting."""
    with pytest.raises(TpuflexError, match="does not say its version within 1 s"):
        find_gcloud(stand_in(tmp_path, "exec sleep 30"), within=1.0)


def test_a_gcloud_that_cannot_be_run(tmp_path: Path) -> None:
    """A file that the system cannot run is told as a gcloud that does not work."""
    environ = stand_in(tmp_path, "")
    (tmp_path / "gcloud").write_bytes(b"\x7fELF")

    with pytest.raises(TpuflexError, match="does not work"):
        find_gcloud(environ)
