"""checkov on what the shipped program makes, and on the same with each property broken once.

It has an environment of its own.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.environments import environment
from tests.acceptance.policy.terraform import NETWORK, TYPES, address, terraform_plan
from tests.components.pulumi_plan import run_program
from tests.unit.stack_sections import sections
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.policy.planned import Planned
from tpuflex.program import deploy
from tpuflex.settings.load import parse

#: Checks that are not asked, each with the reason.
SKIPPED = {
    "CKV_GCP_62": "access logs of the weights' bucket would need a second bucket that outlives it;"
    " Cloud Audit Logs say who reads, where the project has them on",
}
#: Types of ours that Terraform has no name for, or that are no resources of Google's.
NOT_TRANSLATED = {
    QUEUED_RESOURCE: "no provider of Terraform's knows Flex-start queued resources",
    "tpuflex:tpu:StateId": "a number in the state",
}
FIREWALL = "gcp:compute/firewall:Firewall"
BUCKET = "gcp:storage/bucket:Bucket"
BUCKET_ROLE = "gcp:storage/bucketIAMMember:BucketIAMMember"
PROJECT_ROLE = "gcp:projects/iAMMember:IAMMember"
SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
ZONE = "gcp:dns/managedZone:ManagedZone"


def open_to(*ports: str) -> dict[str, object]:
    """A rule that lets the internet in to ``ports``, all if there are none."""
    allowed = {"protocol": "tcp", "ports": list(ports)} if ports else {"protocol": "all"}
    return {"sourceRanges": ["0.0.0.0/0"], "allows": [allowed]}


@dataclass(frozen=True)
class Broken:
    """One property that is broken: the check that has to notice, and where."""

    check: str
    name: str
    type: str
    changed: dict[str, object]


ADMIN, EDITOR = "roles/iam.serviceAccountAdmin", "roles/editor"
BROKEN = (
    Broken("CKV_GCP_114", "vllm-weights", BUCKET, {"publicAccessPrevention": "inherited"}),
    Broken("CKV_GCP_29", "vllm-weights", BUCKET, {"uniformBucketLevelAccess": False}),
    Broken("CKV_GCP_78", "vllm-weights", BUCKET, {"versioning": {"enabled": False}}),
    Broken("CKV_GCP_28", "vllm-weights-reader", BUCKET_ROLE, {"member": "allUsers"}),
    Broken("CKV_GCP_2", "vllm-network-ssh", FIREWALL, open_to("22")),
    Broken("CKV_GCP_3", "vllm-network-ssh", FIREWALL, open_to("3389")),
    Broken("CKV_GCP_75", "vllm-network-ssh", FIREWALL, open_to("21")),
    Broken("CKV_GCP_77", "vllm-network-ssh", FIREWALL, open_to("20")),
    Broken("CKV_GCP_88", "vllm-network-ssh", FIREWALL, open_to("3306")),
    Broken("CKV_GCP_106", "vllm-network-ssh", FIREWALL, open_to("80")),
    Broken("CKV2_GCP_12", "vllm-network-ssh", FIREWALL, open_to()),
    Broken("CKV_GCP_117", "vllm-host-logs", PROJECT_ROLE, {"role": EDITOR}),
    Broken("CKV_GCP_41", "vllm-host-logs", PROJECT_ROLE, {"role": "roles/iam.serviceAccountUser"}),
    Broken(
        "CKV_GCP_42",
        "vllm-host-logs",
        PROJECT_ROLE,
        {"role": EDITOR, "member": "serviceAccount:a@p.iam.gserviceaccount.com"},
    ),
    Broken(
        "CKV_GCP_46",
        "vllm-host-logs",
        PROJECT_ROLE,
        {"member": "serviceAccount:1234-compute@developer.gserviceaccount.com"},
    ),
    Broken("CKV_GCP_49", "vllm-host-logs", PROJECT_ROLE, {"role": ADMIN}),
    Broken("CKV_GCP_26", "vllm-network-subnet", SUBNETWORK, {"logConfig": None}),
    Broken("CKV_GCP_74", "vllm-network-subnet", SUBNETWORK, {"privateIpGoogleAccess": False}),
    Broken(
        "CKV_GCP_17",
        "vllm-network-dns-gcr",
        ZONE,
        {"dnssecConfig": {"defaultKeySpecs": [{"algorithm": "rsasha1", "keyType": "zoneSigning"}]}},
    ),
    Broken("CKV2_GCP_18", "vllm-network", NETWORK, {"name": "without-rules"}),
)


def planned_by(egress: str) -> tuple[Planned, ...]:
    """What the shipped program makes, open to some clients, with that way out."""
    settings = parse(
        sections(
            {
                "model.weights": {"manifest_sha256": "0" * 64},
                "network.egress": egress,
                "network.allowed_cidrs": ["203.0.113.0/24"],
            }
        ),
        "test",
    )
    run = partial(deploy, settings, project="tpuflex", stack="dev", environ={})
    plan = run_program(run)
    found = []
    for where, inputs in plan.inputs.items():
        type_, name = where.split(" ", 1)
        if not type_.startswith(("pulumi:", "tpuflex:index:")):
            found.append(Planned(type_, name, inputs))
    return tuple(found)


def renamed(planned: Planned, prefix: str) -> Planned:
    """``planned`` in a plan beside others like it."""
    return replace(planned, name=f"{prefix}-{planned.name}")


@dataclass(frozen=True)
class Checked:
    """What checkov says, by the address of a resource."""

    passed: dict[str, set[str]]
    failed: dict[str, set[str]]
    parsing_errors: int


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    """One run of checkov over the shipped program's resources and the broken ones."""
    checkov = environment("checkov") / "checkov"
    good = {egress: planned_by(egress) for egress in ("google", "internet")}
    resources = [renamed(each, egress) for egress, plan in good.items() for each in plan]
    for number, broken in enumerate(BROKEN):
        (original,) = (
            each for each in good["google"] if (each.type, each.name) == (broken.type, broken.name)
        )
        inputs = {**original.inputs, **broken.changed}
        kept = {key: value for key, value in inputs.items() if value is not None}
        resources.append(renamed(replace(original, inputs=kept), f"broken-{number}"))
    file = tmp_path_factory.mktemp("checkov") / "plan.json"
    file.write_text(json.dumps(terraform_plan(resources)))
    return _run(checkov, file)


def _run(checkov: Path, file: Path) -> Checked:
    command = [
        str(checkov),
        "--file",
        str(file),
        "--framework",
        "terraform_plan",
        "--output",
        "json",
    ]
    skipped = ["--skip-check", ",".join(SKIPPED), "--skip-download", "--compact"]
    done = subprocess.run(
        [*command, *skipped], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    report = json.loads(done.stdout)
    report = report if isinstance(report, dict) else report[0]

    def by_address(checks: list[dict[str, Any]]) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for check in checks:
            found.setdefault(check["resource"], set()).add(check["check_id"])
        return found

    results = report["results"]
    return Checked(
        by_address(results["passed_checks"]),
        by_address(results["failed_checks"]),
        report["summary"]["parsing_errors"],
    )


def of(found: dict[str, set[str]], prefix: str) -> Iterator[tuple[str, str]]:
    """Address and check of the resources whose names begin with ``prefix``."""
    for where, checks in found.items():
        if where.partition(".")[2].startswith(f"{prefix}-"):
            yield from ((where, check) for check in checks)


@pytest.mark.parametrize("egress", ["google", "internet"])
def test_nothing_of_ours_fails(checked: Checked, egress: str) -> None:
    """checkov finds nothing wrong in what the shipped program makes, whichever way out it has."""
    assert checked.parsing_errors == 0
    assert list(of(checked.failed, egress)) == []
    assert len(list(of(checked.passed, egress))) > 30


@pytest.mark.parametrize("number", range(len(BROKEN)), ids=lambda n: BROKEN[n].check)
def test_a_broken_property_fails(checked: Checked, number: int) -> None:
    """The translation carries the property: broken, its check fails."""
    failed = {check for _, check in of(checked.failed, f"broken-{number}")}

    assert BROKEN[number].check in failed


def test_every_check_that_passes_can_fail(checked: Checked) -> None:
    """Each check that ours pass is failed by one of the broken ones."""
    passed = {check for egress in ("google", "internet") for _, check in of(checked.passed, egress)}

    assert passed <= {broken.check for broken in BROKEN}


def test_all_of_ours_is_translated() -> None:
    """Every type that the program makes has a name in Terraform, or a reason why it has none."""
    types = {each.type for egress in ("google", "internet") for each in planned_by(egress)}

    assert types == {*TYPES, *NOT_TRANSLATED}
    assert all(reason for reason in (*SKIPPED.values(), *NOT_TRANSLATED.values()))


def test_addresses_are_unique() -> None:
    """No two resources of a plan share an address, of which checkov would look at one."""
    addresses = [address(each) for each in planned_by("google") if each.type in TYPES]

    assert len(addresses) == len(set(addresses))
