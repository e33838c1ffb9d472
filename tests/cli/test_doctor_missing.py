"""`tpuflex doctor` on an embedded cloud that lacks one thing at a time, and how `up` refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from embedded_cloud.json_types import JsonObject, JsonValue
from tests.cli.examined import DIGEST, MIRROR, Doctor, healthy, quota
from tpuflex.cli.steps.ready import require_ready
from tpuflex.errors import TpuflexError
from tpuflex.operate.doctor.check import Standing


@pytest.fixture
def doctor(project: Path, tmp_path: Path) -> Iterator[Doctor]:
    with healthy(project, tmp_path) as found:
        yield found


@dataclass(frozen=True)
class Lack:
    """One thing that is missing.

    Attributes:
        check: the check that says so.
        code: exit code of the failure.
        remedy: words of the remedy.
        areas: strictness that makes it missing.
        capacity: the capacity rule that does.
        settings: the settings that do, by section.
    """

    check: str
    code: int
    remedy: str
    areas: JsonObject = field(default_factory=dict)
    capacity: JsonObject = field(default_factory=dict)
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)


def forbidden(constraint: str, remedy: str, value: JsonValue = True, **settings: Any) -> Lack:
    """An organisation policy that forbids the endpoint."""
    areas: JsonObject = {"organization_policies": {"constraints": {constraint: value}}}
    return Lack(constraint, 6, remedy, areas, settings=settings)


MISSING = {
    "billing": Lack(
        "billing", 6, "gcloud billing projects link tpuflex-dev", {"billing": {"enabled": False}}
    ),
    "guest attributes": forbidden(
        "compute.disableGuestAttributesAccess",
        "disable-enforce compute.disableGuestAttributesAccess --project=tpuflex-dev",
    ),
    "shielded VM": forbidden("compute.requireShieldedVm", "secure_boot: true"),
    "service accounts": forbidden(
        "iam.disableServiceAccountCreation", "disable-enforce iam.disableServiceAccountCreation"
    ),
    "NAT": forbidden(
        "compute.restrictCloudNATUsage",
        "egress: google",
        "deny_all",
        network={"egress": "internet"},
    ),
    "permission": Lack(
        "tpuflex up",
        6,
        "--role=roles/tpu.admin",
        {"permissions": {"missing": ["tpu.nodes.create"]}},
    ),
    "quota": Lack(
        "quota in us-east5-a",
        6,
        "https://console.cloud.google.com/iam-admin/quotas",
        capacity={"quota": quota(0, 0)},
    ),
    "accelerator": Lack(
        "v5litepod-4 in us-east5-a",
        5,
        "accelerator-types list --zone=us-east5-a",
        settings={"slice": {"accelerator_type": "v5litepod-4"}},
    ),
    "runtime": Lack(
        "v6e-1 in us-east5-a",
        5,
        "tpuflex:slice.runtime_version",
        settings={"slice": {"runtime_version": "v2-alpha-tpuv7"}},
    ),
    "image": Lack("image", 4, "tpuflex:serving.image", {"registry": {"absent": [DIGEST]}}),
    "repository": Lack(
        "image",
        4,
        "gcloud artifacts repositories create dockerhub2",
        settings={"serving": {"image": f"{MIRROR}2/vllm/vllm-tpu@{DIGEST}"}},
    ),
}


@pytest.mark.parametrize("lacking", MISSING)
def test_one_thing_is_missing(doctor: Doctor, lacking: str) -> None:
    """The doctor names what is missing with its remedy, nothing else fails, and `up` refuses with
    the same words and the exit code of its kind."""
    lack = MISSING[lacking]
    doctor.strict(**lack.areas)
    doctor.capacity(**lack.capacity)
    for section, values in lack.settings.items():
        doctor.change(section, **values)

    failed = [check for check in doctor.checks().values() if check.standing is Standing.FAILED]
    assert [check.name for check in failed] == [lack.check]
    assert lack.remedy in failed[0].remedy

    with pytest.raises(TpuflexError) as refused:
        require_ready(doctor.cloud)
    assert refused.value.exit_code == lack.code
    assert failed[0].text in refused.value.message
    assert lack.remedy in str(refused.value)
    assert "`tpuflex up --skip-check" in refused.value.hint
