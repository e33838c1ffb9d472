"""What `tpuflex doctor` reads of a project: billing, organization policies, quota."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from embedded_cloud.core.projects import project_number
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import PROJECT, Api, error_of

_NUMBER = project_number(PROJECT)
_METRICS = f"v1beta1/projects/{PROJECT}/services/tpu.googleapis.com/consumerQuotaMetrics"


def test_a_project_has_a_billing_account_unless_it_is_taken(api: Api) -> None:
    """billingEnabled tells; no account is an empty name."""
    info = f"v1/projects/{PROJECT}/billingInfo"
    assert api.call("GET", info).json() == {
        "name": f"projects/{PROJECT}/billingInfo",
        "projectId": PROJECT,
        "billingAccountName": "billingAccounts/012345-567890-ABCDEF",
        "billingEnabled": True,
    }
    api.strict(billing={"enabled": False})
    answer = api.call("GET", info).json()
    assert (answer["billingEnabled"], answer["billingAccountName"]) == (False, "")


@pytest.mark.parametrize(
    ("constraint", "value", "rule"),
    [
        ("compute.disableGuestAttributesAccess", None, {"enforce": False}),
        ("compute.disableGuestAttributesAccess", True, {"enforce": True}),
        ("compute.vmExternalIpAccess", None, {"allowAll": True}),
        ("compute.vmExternalIpAccess", "deny_all", {"denyAll": True}),
        (
            "gcp.resourceLocations",
            ["in:us-locations"],
            {"values": {"allowedValues": ["in:us-locations"]}},
        ),
    ],
)
def test_the_effective_policy_says_what_holds(
    api: Api, constraint: str, value: Any, rule: Any
) -> None:
    """The constraint's default, or what the organization has set; by id and by number."""
    if value is not None:
        api.strict(organization_policies={"constraints": {constraint: value}})
    for project in (PROJECT, _NUMBER):
        path = f"v2/projects/{project}/policies/{constraint}:getEffectivePolicy"
        assert api.call("GET", path).json() == {
            "name": f"projects/{_NUMBER}/policies/{constraint}",
            "spec": {"rules": [rule]},
        }


@pytest.mark.parametrize(
    ("constraints", "why"),
    [
        ({"compute.noSuch": True}, "compute.noSuch is not known"),
        ({"compute.vmExternalIpAccess": True}, 'must be "allow_all"'),
        ({"compute.requireShieldedVm": "deny_all"}, "must be true or false"),
    ],
)
def test_a_policy_that_cannot_be_imitated_is_refused(
    api: Api, constraints: dict[str, Any], why: str
) -> None:
    """400 that says which constraint, and what would be right."""
    body = {"organization_policies": {"constraints": constraints}}
    answer = api.call("POST", "_emulator/strictness", body=body)
    assert error_of(answer)[0] == 400
    assert why in error_of(answer)[2]


def _zone_limit(api: Api, metric: str) -> Any:
    for found in api.call("GET", _METRICS, view="FULL").json()["metrics"]:
        if found["metric"] == metric:
            return next(
                each
                for each in found["consumerQuotaLimits"]
                if each["unit"] == "1/{project}/{zone}"
            )
    raise AssertionError(metric)


def test_the_quota_that_is_told_is_the_quota_that_refuses(api: Api) -> None:
    """Each pool has a bucket for all zones, one per zone with another limit; 0 is left out."""
    quota = {"*": 8, "us-east5-a": {"preemptible": 0}, "us-east5-b": 16}
    api.capacity(quota=quota)
    limit = _zone_limit(api, "tpu.googleapis.com/tpu-v6e-preemptible")
    assert limit["quotaBuckets"] == [
        {"effectiveLimit": "8", "defaultLimit": "8"},
        {"dimensions": {"zone": "us-east5-a"}},
        {"effectiveLimit": "16", "defaultLimit": "16", "dimensions": {"zone": "us-east5-b"}},
    ]
    assert "us-east5-a" in limit["supportedLocations"]
    refused = (
        "Quota 'TPUV6EPreemptiblePerProjectPerZoneForTPUAPI' exhausted. Limit 0 in zone us-east5-a"
    )
    assert error_of(api.create())[2] == refused
    on_demand = _zone_limit(api, "tpu.googleapis.com/tpu-v6e")["quotaBuckets"]
    assert on_demand[1] == {
        "effectiveLimit": "8",
        "defaultLimit": "8",
        "dimensions": {"zone": "us-east5-a"},
    }


@pytest.mark.gcloud
@pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not on PATH")
def test_gcloud_reads_all_three(cloud: EmbeddedCloud, tmp_path: Path) -> None:
    """gcloud's own commands, which doctor names as a second opinion, understand the answers."""
    environ = {
        **{"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        **cloud.environ(),
        "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
    }

    def gcloud(*words: str) -> Any:
        command = ["gcloud", *words, "--format=json"]
        done = subprocess.run(
            command, env=environ, capture_output=True, text=True, timeout=90, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert gcloud("billing", "projects", "describe", PROJECT)["billingEnabled"] is True
    constraint = "compute.vmExternalIpAccess"
    described = gcloud(
        "org-policies", "describe", constraint, f"--project={PROJECT}", "--effective"
    )
    assert described["spec"]["rules"] == [{"allowAll": True}]
