"""`preview --refresh` and `up --refresh` after somebody has deleted what a stack has made."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
import yaml

from tests.checkpoints import tiny
from tests.engine.embedded import Embedded
from tests.engine.libraries import call, command
from tpuflex.deploy.plan import deleted_secrets
from tpuflex.deploy.stack_preview import Preview, preview, require_as_planned
from tpuflex.deploy.stack_run import StackRun
from tpuflex.errors import NotAsPlannedError
from tpuflex.naming import API_KEY

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

SLICE = ("tpuflex:tpu:QueuedResource", "vllm")


def begin(embedded: Embedded, weights: Path) -> dict[tuple[str, str], str]:
    """Bring the stack up with ``weights``; :func:`ids` of what it has made."""
    file = embedded.root / "stacks" / "Pulumi.dev.yaml"
    document = yaml.safe_load(file.read_text())
    document["config"]["tpuflex:model"] = {"name": "acme/tiny", "weights": {"source": str(weights)}}
    file.write_text(yaml.safe_dump(document))
    return ids(bring_up(embedded))


def ids(run: StackRun) -> dict[tuple[str, str], str]:
    """The ids of what the state has, by type and name."""
    return {
        (each["type"], each["urn"].rpartition("::")[2]): each["id"]
        for each in run.engine.resources()
        if each["custom"]
    }


def bring_up(embedded: Embedded, *, refresh: bool = False) -> StackRun:
    """What `up` does before it waits for the host."""
    run = StackRun(command(embedded)[1])
    run.up(run.plan(refresh=refresh).plan)
    return run


def previewed(embedded: Embedded) -> Preview:
    return preview(command(embedded)[1], refresh=True)


def drift(found: Preview) -> list[tuple[str, str, str]]:
    return [(each.word, each.type, each.name) for each in found.plan.plan.drift]


def is_as_planned(found: Preview) -> bool:
    """Whether `preview --exit-code` succeeds."""
    try:
        require_as_planned(found)
    except NotAsPlannedError:
        return False
    return True


def delete_bucket(embedded: Embedded, name: str) -> None:
    """Delete a bucket with all that is in it."""
    listed = call(embedded, "GET", f"storage/v1/b/{name}/o?versions=true").json()
    for item in listed.get("items", []):
        path = f"storage/v1/b/{name}/o/{quote(item['name'], safe='')}"
        assert call(embedded, "DELETE", f"{path}?generation={item['generation']}").ok
    assert call(embedded, "DELETE", f"storage/v1/b/{name}").ok


def test_what_was_deleted_is_named_and_made_again(embedded: Embedded, tmp_path: Path) -> None:
    """A rule, a secret and the bucket with the weights: each is named, with the roles on it, and
    made again. The slice is neither replaced nor said to be."""
    made = begin(embedded, tiny(tmp_path / "tiny"))
    clean = previewed(embedded)
    rule = ("gcp:compute/firewall:Firewall", "vllm-network-egress-deny-v6")
    bucket = ("gcp:storage/bucket:Bucket", "vllm-weights")
    secret = ("gcp:secretmanager/secret:Secret", "vllm-secrets-api-key")
    assert call(embedded, "DELETE", f"compute/v1/{made[rule]}").ok
    assert call(embedded, "DELETE", f"v1/{made[secret]}").ok
    delete_bucket(embedded, made[bucket])

    found = previewed(embedded)
    again = ids(bring_up(embedded, refresh=True))
    after = previewed(embedded)

    assert [is_as_planned(each) for each in (clean, found, after)] == [True, False, True]
    gone = [
        rule,
        secret,
        ("gcp:secretmanager/secretIamMember:SecretIamMember", "vllm-secrets-api-key-reader"),
        bucket,
        ("gcp:storage/bucketIAMMember:BucketIAMMember", "vllm-weights-compile-cache"),
        ("gcp:storage/bucketIAMMember:BucketIAMMember", "vllm-weights-reader"),
    ]
    assert drift(found) == [("deleted", *each) for each in gone]
    made_again = {(each.operation, each.type, each.name) for each in found.plan.plan.changes}
    # What the weights' hash is, is known when they are pushed again.
    assert made_again == {("replace", *SLICE), *(("create", *each) for each in gone)}
    assert found.plan.request.startswith("is kept, unless what is not known")
    assert again == made
    assert deleted_secrets(found.plan.stack, found.plan.plan) == (API_KEY,)


def test_a_slice_that_was_deleted(embedded: Embedded, tmp_path: Path) -> None:
    """It is named, and `up` asks for another one."""
    made = begin(embedded, tiny(tmp_path / "tiny"))
    assert call(embedded, "DELETE", f"v2alpha1/{made[SLICE]}?force=true").ok
    embedded.cloud.cloud.clock.advance(60)

    found = previewed(embedded)
    bring_up(embedded, refresh=True)
    after = previewed(embedded)

    assert drift(found) == [("deleted", *SLICE)]
    assert [str(each) for each in found.plan.plan.changes] == ["create QueuedResource vllm"]
    assert [is_as_planned(each) for each in (found, after)] == [False, True]
