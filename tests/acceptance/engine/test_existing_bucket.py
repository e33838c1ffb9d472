"""Endpoints whose weights are in a bucket of the user's own, with the real engine."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.killed import stack_run
from tests.checkpoints import everything_in, tiny
from tests.engine.embedded import Embedded
from tests.engine.libraries import call, command, manifest_of, write_stack
from tpuflex.cli.down.run import run_down
from tpuflex.deploy.policy import judge
from tpuflex.deploy.stack_run import StackRun
from tpuflex.deploy.weights_bucket import ensure_weights_bucket
from tpuflex.errors import NotFoundError
from tpuflex.stack.progress import agree
from tpuflex.weights.stack_push import push_weights
from tpuflex.weights.stack_weights import StackWeights

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

MODEL = "acme/tiny"
NAME = "acme-models"
PREFIX = "llm/models/acme-tiny/1"
Captured = pytest.CaptureFixture[str]


def make(embedded: Embedded, location: str = "US-EAST5", **more: object) -> None:
    """Make the bucket, as its team does, with something of its own in it."""
    access = {
        "uniformBucketLevelAccess": {"enabled": True},
        "publicAccessPrevention": "enforced",
        **more,
    }
    body = {"name": NAME, "location": location, "iamConfiguration": access}
    assert call(embedded, "POST", "storage/v1/b?project=acme-data", json=body).ok
    put(embedded, "llm/models/acme-tiny/1/notes.txt", "theirs")


def put(embedded: Embedded, name: str, text: str) -> None:
    """Somebody of its team writes an object."""
    path = f"upload/storage/v1/b/{NAME}/o?uploadType=media&name={name}"
    assert call(embedded, "POST", path, data=text.encode()).ok


def objects(embedded: Embedded) -> dict[str, str]:
    """What is in the bucket, with the generation of each object."""
    items = call(embedded, "GET", f"storage/v1/b/{NAME}/o").json().get("items", [])
    return {item["name"]: item["generation"] for item in items}


def readers(embedded: Embedded) -> list[Any]:
    """Who has a role on the bucket on a condition."""
    path = f"storage/v1/b/{NAME}/iam?optionsRequestedPolicyVersion=3"
    bindings = call(embedded, "GET", path).json().get("bindings", [])
    return [each for each in bindings if "condition" in each]


def write(embedded: Embedded, name: str, **weights: object) -> None:
    """A stack that keeps its weights there, and makes no bucket."""
    place = {"bucket": f"gs://{NAME}/llm", **weights}
    write_stack(embedded, name, MODEL, place, compile_cache="host")


def pushed(embedded: Embedded, stack: str, directory: Path) -> Any:
    """`tpuflex weights push DIRECTORY`."""
    _, cloud = command(embedded, stack)
    ensure_weights_bucket(cloud, consent=agree)
    return push_weights(StackWeights(cloud), everything_in(directory), print, lambda: False)


def test_two_stacks_serve_from_it_and_it_stays(
    embedded: Embedded, capsys: Captured, tmp_path: Path
) -> None:
    """It is in another project; weights are pushed once, below the prefix; each endpoint gets the
    right to read its model there and makes nothing else; a second look finds nothing to change, and
    policy nothing to say; the teardown takes the right away, leaves bucket and weights, and names
    both with the command that deletes the weights."""
    directory = tiny(tmp_path / "tiny")
    pin = manifest_of(directory, MODEL)
    for name in ("one", "two"):
        write(embedded, name, manifest_sha256=pin)
    with pytest.raises(NotFoundError, match="gcloud storage buckets create gs://acme-models"):
        ensure_weights_bucket(command(embedded, "one")[1], consent=agree)
    for plan in (StackRun.plan, StackRun.preview_without_weights):
        with pytest.raises(NotFoundError, match=r"which tpuflex:model\.weights\.bucket names"):
            plan(StackRun(command(embedded, "one")[1]))
    make(embedded)
    first, second = (pushed(embedded, name, directory) for name in ("one", "two"))
    before = objects(embedded)
    run = stack_run(embedded.root, embedded.engine, embedded.environ, "one")
    run.up()
    bound = readers(embedded)
    again = run.preview(refresh=True)
    invocation, cloud = command(embedded, "one")
    found = judge(cloud, again)
    run.refresh()
    capsys.readouterr()
    run_down(invocation, cloud, dry_run=False)
    down = json.loads(capsys.readouterr().out)

    assert [len(each.sent) for each in (first, second)] == [3, 0]
    assert sorted(before) == [
        f"{PREFIX}/{name}"
        for name in (
            *("MANIFEST.json", "config.json", "model.safetensors", "notes.txt"),
            "tokenizer.json",
        )
    ]
    assert [(each["role"], each["condition"]["expression"]) for each in bound] == [
        (
            "roles/storage.objectViewer",
            f"resource.name.startsWith('projects/_/buckets/{NAME}/objects/{PREFIX}/')",
        )
    ]
    assert (again.changes, again.drift) == ((), ())
    assert [str(each) for each in found.findings if "Bucket" in each.type] == []
    assert down["kept"] == [f"gs://{NAME}"]
    assert down["kept_weights"] == {
        "place": f"gs://{NAME}/{PREFIX}",
        "bytes": first.manifest.total_bytes,
        "region": "us-east5",
        "usd_per_month": 0.0,
    }
    assert "acme-models" not in json.dumps(down["resources"] + down["inventory"])
    assert readers(embedded) == []
    assert objects(embedded) == before
    assert sorted(embedded.remaining()) == ["buckets", "objects"]


def test_what_policy_says_of_it_can_be_waived(embedded: Embedded) -> None:
    """One that is public, with ACLs, and far away breaks the three rules for buckets by its name in
    the plan, each with what to do; a waiver with a reason accepts one."""
    make(
        embedded,
        "EUROPE-WEST4",
        uniformBucketLevelAccess={"enabled": False},
        publicAccessPrevention="inherited",
    )
    until = (datetime.now(UTC) + timedelta(days=7)).date().isoformat()
    waiver = {"rule": "bucket-region", "reason": "moves next week", "until": until}
    write(embedded, "one", manifest_sha256="5a" * 32, manage_grants=False)
    file = embedded.root / "stacks" / "Pulumi.one.yaml"
    document = yaml.safe_load(file.read_text())
    document["config"]["tpuflex:waivers"] = [waiver]
    file.write_text(yaml.safe_dump(document))

    plan = stack_run(embedded.root, embedded.engine, embedded.environ, "one").preview()
    found = judge(command(embedded, "one")[1], plan).findings

    mend = "Run: gcloud storage buckets update gs://acme-models --uniform-bucket-level-access"
    said = [(each.rule.id, bool(each.waived), each.remedy) for each in found if each.resource]
    assert [each for each in said if each[0].endswith(("bucket", "region"))] == [
        ("private-bucket", False, f"{mend} --public-access-prevention"),
        ("uniform-bucket", False, f"{mend} --public-access-prevention"),
        (
            "bucket-region",
            True,
            "Write a bucket in us-east5, or waive the rule and pay for the way.",
        ),
    ]
