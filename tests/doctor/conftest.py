"""A cloud for the doctor to look at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doctor.examined import Doctor, healthy


@pytest.fixture
def doctor(project: Path, tmp_path: Path) -> Iterator[Doctor]:
    """A cloud where all is well, for the doctor to look at."""
    with healthy(project, tmp_path) as found:
        yield found
