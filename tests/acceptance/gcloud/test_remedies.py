"""Every remedy that is a gcloud command, typed on the embedded cloud: it mends the check."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doctor.examined import Doctor, healthy
from tests.doctor.missing_rows import SECTIONS, Row
from tests.unit.gcloud_parsers import recorded_verdicts
from tpuflex.doctor.check import Check, Standing

ROWS = {row.missing: row for rows in SECTIONS.values() for row in rows}
#: Those whose remedy mends what the strictness takes away: a permission is granted elsewhere, and
#: what is only shown mends nothing.
MENDED = (
    "tpu.googleapis.com",
    "billing",
    "compute.disableGuestAttributesAccess in force",
    "iam.disableServiceAccountCreation in force",
    "compute.requireShieldedVm in force",
    "repository of the image",
)
#: What a reader puts in place of a placeholder.
FILLED = {"ACCOUNT_ID": "012345-567890-ABCDEF"}


@pytest.fixture
def doctor(project: Path, tmp_path: Path) -> Iterator[Doctor]:
    with healthy(project, tmp_path) as found:
        yield found


def typed(check: Check) -> list[str]:
    """The words of the remedy's first line, as a reader types them."""
    line = str(check.remedy).split("\n")[0]
    for placeholder, value in FILLED.items():
        line = line.replace(placeholder, value)
    return shlex.split(line)


def unwell(doctor: Doctor, row: Row) -> Check:
    row.take_away(doctor)
    return doctor.checks()[row.check]


@pytest.mark.parametrize("missing", MENDED)
def test_a_remedy_is_a_command_of_gcloud(doctor: Doctor, missing: str) -> None:
    """The recorded grammar of gcloud takes it."""
    words = typed(unwell(doctor, ROWS[missing]))

    assert words[0] == "gcloud"
    assert recorded_verdicts([tuple(words)]) == [""]


@pytest.mark.gcloud
@pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not on PATH")
@pytest.mark.parametrize("missing", MENDED)
def test_a_remedy_mends_the_check(doctor: Doctor, tmp_path: Path, missing: str) -> None:
    """gcloud runs it on the embedded cloud, and the doctor has nothing to say afterwards."""
    row = ROWS[missing]
    words = typed(unwell(doctor, row))
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        **doctor.running.environ(),
        "CLOUDSDK_CORE_PROJECT": "tpuflex-dev",
        "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
    }

    ran = subprocess.run(
        words, env=environ, capture_output=True, text=True, timeout=90, check=False
    )

    assert ran.returncode == 0, ran.stderr
    assert doctor.checks()[row.check].standing is Standing.OK
