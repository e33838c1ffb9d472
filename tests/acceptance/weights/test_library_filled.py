"""Weights that lie in another bucket of the project are copied into the library, with the real
engine: before chips are asked for, and before the bucket goes that had them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from embedded_cloud.faults.effect import Answer
from embedded_cloud.faults.rule import Rule, Where
from tests.engine.embedded import Embedded
from tests.engine.libraries import (
    BUCKET,
    MODEL,
    PROJECT,
    Captured,
    call,
    checkpoint,
    command,
    manifest_of,
    write_stack,
)
from tpuflex.cli.prepare_weights import push_weights
from tpuflex.cli.stack_run import StackRun
from tpuflex.cli.steps.library import run_library_up
from tpuflex.cli.steps.push import run_push
from tpuflex.cli.steps.weights import ensure_bucket
from tpuflex.errors import NotFoundError, TpuflexError, WeightsError
from tpuflex.naming import library_names

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

PREFIX = "models/acme-tiny/1"
FAR = library_names(PROJECT).bucket(PROJECT, "europe-west4")


def write(embedded: Embedded, name: str, zone: str = "us-east5-a", **weights: object) -> None:
    """A stack in ``zone``, in the library unless told otherwise, and without compiled programs."""
    write_stack(embedded, name, MODEL, weights, compile_cache="host")
    file = embedded.root / "stacks" / f"Pulumi.{name}.yaml"
    document = yaml.safe_load(file.read_text())
    document["config"]["tpuflex:slice"]["zones"] = [zone]
    file.write_text(yaml.safe_dump(document))


def objects(embedded: Embedded, bucket: str) -> dict[str, Any]:
    """What is in ``bucket``, by path below the set, with the generation of each."""
    items = call(embedded, "GET", f"storage/v1/b/{bucket}/o").json()["items"]
    return {each["name"].removeprefix(f"{PREFIX}/"): each["generation"] for each in items}


def calls(embedded: Embedded, *words: str) -> list[int]:
    """When, in the order of all calls, something was asked whose path has all ``words``."""
    return [
        place
        for place, made in enumerate(embedded.cloud.cloud.history.entries())
        if made.get("method") == "POST" and all(word in str(made.get("path")) for word in words)
    ]


def brought_up(embedded: Embedded, stack: str) -> StackRun:
    """`tpuflex up`, without the wait for a host."""
    run = StackRun(*command(embedded, stack))
    plan = run.plan()
    run.preparation.check()
    run.up(len(plan.plan.resources))
    return run


def test_another_region_is_filled_before_chips_are_asked_for(
    embedded: Embedded, capsys: Captured, tmp_path: Path
) -> None:
    """The second region's bucket gets the pinned set from the first one's within Cloud Storage:
    nothing is sent from here but the manifest, and it is there before a slice is requested. What
    nothing vouches for is not copied. `weights push` needs neither directory nor source, and the
    same once more does nothing."""
    directory = checkpoint(tmp_path / "tiny")
    pin = manifest_of(directory, MODEL)
    write(embedded, "near", manifest_sha256=pin)
    write(embedded, "far", "europe-west4-a", manifest_sha256=pin)
    write(embedded, "stranger", "europe-west4-a")
    with pytest.raises(NotFoundError, match="no other bucket of the project"):
        run_push(*command(embedded, "far"), None, again=False)
    run_library_up(*command(embedded, "near"), ("europe-west4",))
    invocation, cloud = command(embedded, "near")
    push_weights(cloud, directory, invocation.output, lambda: False)
    (embedded.root / ".tpuflex" / "pushed-weights.json").unlink()
    with pytest.raises(WeightsError, match="nothing here says that they are yours"):
        StackRun(*command(embedded, "stranger")).preparation.check()
    before = calls(embedded, "/upload/")

    capsys.readouterr()
    run = brought_up(embedded, "far")
    told = capsys.readouterr().err

    copied = calls(embedded, f"{BUCKET}/o/", "/rewriteTo/", FAR)
    (written,) = [place for place in calls(embedded, "/upload/") if place not in before]
    (requested,) = calls(embedded, "europe-west4-a/queuedResources")
    assert len(copied) == 2
    assert max(copied) < written < requested
    assert {*objects(embedded, FAR)} == {"MANIFEST.json", "config.json", "model.safetensors"}
    assert command(embedded, "far")[1].weights.verify(PREFIX).sha256 == pin
    assert f"are copied from gs://{BUCKET}/{PREFIX} (us-east5) to gs://{FAR}" in told
    assert run.plan().plan.changes == ()

    capsys.readouterr()
    run_push(*command(embedded, "far"), None, again=False)
    again = json.loads(capsys.readouterr().out)
    assert (again["sent"], again["copied"], len(again["kept"])) == ([], [], 2)
    assert again["manifest_sha256"] == pin


def test_a_stack_moves_into_the_library_with_its_weights(
    embedded: Embedded, tmp_path: Path
) -> None:
    """The stack's own bucket, from which it serves, goes when the library has its weights and not
    before: where the copy is refused, the `up` ends with the bucket as it was, and the same command
    goes on. Nothing is sent from here, without a pin or a source: the slice was made for them."""
    directory = checkpoint(tmp_path / "tiny")
    write(embedded, "one", bucket="own")
    invocation, cloud = command(embedded, "one")
    ensure_bucket(invocation, cloud)
    sha256 = push_weights(cloud, directory, invocation.output, lambda: False).manifest.sha256
    own = cloud.bucket
    brought_up(embedded, "one")
    (embedded.root / ".tpuflex" / "pushed-weights.json").unlink()
    had = objects(embedded, own)
    run_library_up(*command(embedded, "one"), ())
    write(embedded, "one")
    sent = calls(embedded, "/upload/")

    book = embedded.cloud.cloud.faults.book
    where = Where(method="POST", path="model.safetensors/rewriteTo/")
    book.add(Rule(id="no", where=where, times=0, effect=Answer(status=403, message="not now")))
    with pytest.raises(TpuflexError, match="not now"):
        brought_up(embedded, "one")
    struck = book.struck
    book.remove()
    left = objects(embedded, own)
    half = command(embedded, "one")[1].weights.find(PREFIX)
    brought_up(embedded, "one")

    assert struck
    assert left == had
    assert half is None
    assert command(embedded, "one")[1].weights.verify(PREFIX).sha256 == sha256
    assert [place for place in calls(embedded, "/upload/", own) if place not in sent] == []
    assert len([place for place in calls(embedded, "/upload/", BUCKET) if place not in sent]) == 1
    buckets = embedded.cloud.cloud.inventory()["storage"]["buckets"]
    assert [each["name"] for each in buckets] == [BUCKET]


def test_a_push_takes_what_the_stack_had_before(
    embedded: Embedded, capsys: Captured, tmp_path: Path
) -> None:
    """`weights push DIRECTORY` into the library copies what equals the directory from the stack's
    own bucket; with --again every file is sent."""
    directory = checkpoint(tmp_path / "tiny")
    write(embedded, "one", bucket="own")
    invocation, cloud = command(embedded, "one")
    ensure_bucket(invocation, cloud)
    push_weights(cloud, directory, invocation.output, lambda: False)
    write(embedded, "one")
    run_library_up(*command(embedded, "one"), ())
    capsys.readouterr()
    run_push(*command(embedded, "one"), directory, again=False)
    first = json.loads(capsys.readouterr().out)
    run_push(*command(embedded, "one"), directory, again=True)
    second = json.loads(capsys.readouterr().out)

    assert first["copied"] == ["config.json", "model.safetensors"]
    assert first["copied_from"] == f"gs://{cloud.bucket}/{PREFIX}"
    assert (first["sent"], first["bytes_sent"], first["kept"]) == ([], 0, [])
    assert (second["sent"], second["copied"]) == (["config.json", "model.safetensors"], [])
