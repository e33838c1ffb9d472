"""`tpuflex library` with the real engine on the embedded cloud: made, shared, deleted."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from tests.acceptance.killed import stack_run
from tests.acceptance.security.test_p4_two_clones import mutations
from tests.checkpoints import everything_in, tiny
from tests.engine.embedded import Embedded
from tests.engine.libraries import (
    BUCKET,
    MODEL,
    PROJECT,
    Captured,
    bucket_of,
    call,
    command,
    library_down,
    library_status,
    library_up,
    manifest_of,
    said,
    token_of_hosts,
    write_stack,
)
from tpuflex.cli.down.run import run_down
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.weights.run import run_rm, run_verify
from tpuflex.deploy.library_engine import LibraryEngine
from tpuflex.deploy.policy import planned_resources
from tpuflex.deploy.weights_bucket import ensure_weights_bucket
from tpuflex.errors import ConflictError, InterruptedByUser, NotFoundError
from tpuflex.naming import library_names
from tpuflex.policy.storage_rules import BUCKET as BUCKET_TYPE
from tpuflex.policy.storage_rules import far_buckets, object_acls, public_buckets
from tpuflex.stack.connection import Connection
from tpuflex.stack.progress import Question, agree, silent
from tpuflex.weights.library import require_library
from tpuflex.weights.removal import Wanted
from tpuflex.weights.stack_push import push_weights
from tpuflex.weights.stack_weights import StackWeights

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]


def test_made_once_in_its_regions_and_removed(embedded: Embedded) -> None:
    """`up` makes a private bucket per region in the stacks' own backend; the same again changes
    nothing, also from a machine that has seen nothing of it; another region is added and none is
    lost; a bucket that somebody has deleted is made again; `down` shows and deletes all, and then
    there is none."""
    made = library_up(embedded)
    bucket = bucket_of(embedded)
    work = LibraryEngine(command(embedded)[1], regions=("us-east5",))
    planned = planned_resources(work.preview())
    breaches = [
        breach
        for each in planned
        for breach in (*public_buckets(each), *object_acls(each), *far_buckets(each, {"us-east5"}))
    ]
    before = mutations(embedded)
    shutil.rmtree(embedded.root / ".tpuflex" / "library")
    again = library_up(embedded)
    changed = mutations(embedded) - before
    wider = library_up(embedded, "europe-west4")
    lost = call(embedded, "DELETE", f"storage/v1/b/{BUCKET}").ok and bucket_of(embedded) is None
    mended = library_up(embedded)
    shown = library_status(embedded)
    dry = library_down(embedded, dry_run=True)
    there = embedded.remaining()
    gone = library_down(embedded)

    assert any(each.type == BUCKET_TYPE for each in planned)
    assert breaches == []
    assert made["changed"] is True
    assert made["buckets"] == {"us-east5": BUCKET}
    assert (again["changed"], changed) == (False, 0)
    assert list(wider["buckets"]) == ["europe-west4", "us-east5"]
    assert (lost, mended) == (True, wider)
    assert bucket["versioning"]["enabled"] is True
    assert bucket["iamConfiguration"]["publicAccessPrevention"] == "enforced"
    assert bucket["iamConfiguration"]["uniformBucketLevelAccess"]["enabled"] is True
    assert bucket["labels"]["tpuflex-owner"] == library_names(PROJECT).owner
    assert [each["region"] for each in shown["buckets"]] == ["europe-west4", "us-east5"]
    assert {each["state_id"] for each in shown["buckets"]} == {bucket["labels"]["tpuflex-state"]}
    assert (dry["deleted"], there) == (False, ["secrets", "versions", "buckets"])
    assert gone["deleted"] is True
    assert embedded.remaining() == []
    with pytest.raises(NotFoundError, match="has no library"):
        library_down(embedded)
    with pytest.raises(NotFoundError, match="library up --stack dev"):
        library_status(embedded)


def test_two_stacks_share_it_and_one_goes(
    embedded: Embedded, capsys: Captured, tmp_path: Any
) -> None:
    """The first push makes the library, if it may; weights are pushed once; two endpoints of the
    model may read them and nothing else of the library; one endpoint goes down and names what stays
    and its price, and the other's weights verify as before. Neither library nor weights are deleted
    under an endpoint unasked; the last one takes the weights along, if it is told to."""
    directory = tiny(tmp_path / "tiny")
    weights = {"manifest_sha256": manifest_of(directory, MODEL)}
    for name in ("one", "two"):
        write_stack(embedded, name, MODEL, weights, compile_cache="host")
    with pytest.raises(NotFoundError, match="has no bucket in us-east5"):
        require_library(command(embedded, "one")[1])
    with pytest.raises(InterruptedByUser, match="you did not agree"):
        ensure_weights_bucket(command(embedded, "one")[1], consent=lambda _question: False)
    unasked = bucket_of(embedded)
    first = pushed(embedded, "one", directory)
    second = pushed(embedded, "two", directory)
    for name in ("one", "two"):
        stack_run(embedded.root, embedded.engine, embedded.environ, name).up()
    buckets = embedded.cloud.cloud.inventory()["storage"]["buckets"]
    shown = library_status(embedded)["buckets"][0]
    with pytest.raises(ConflictError, match="would find no weights"):
        library_down(embedded)
    prefix = "models/acme-tiny/1"
    with pytest.raises(ConflictError, match="boots with it") as used:
        run_rm(*command(embedded, "one"), Wanted(prefix), dry_run=False)
    run_rm(*command(embedded, "one"), Wanted(unused_days=1), dry_run=False)
    unused = said(capsys)
    forget_use(embedded, prefix)
    before = mutations(embedded)
    with pytest.raises(ConflictError, match="Other endpoints may use"):
        run_down(*command(embedded, "one"), dry_run=False, purge_weights=True)
    untouched = mutations(embedded) - before
    run_down(*command(embedded, "one"), dry_run=False)
    down = said(capsys)
    run_verify(*command(embedded, "two"), None)
    verified = said(capsys)
    left = library_status(embedded)["buckets"][0]
    run_rm(*command(embedded, "two"), Wanted(prefix), dry_run=True)
    dry = said(capsys)
    run_down(*command(embedded, "two"), dry_run=True, purge_weights=True)
    doomed = said(capsys)
    with pytest.raises(ConflictError, match="is under a hold"):
        run_down(*held_meanwhile(embedded, "two", prefix), dry_run=False, purge_weights=True)
    failed = said(capsys)
    hold(embedded, prefix, on=False)
    run_down(*command(embedded, "two"), dry_run=False, purge_weights=True)
    last = said(capsys)
    empty = library_status(embedded)["buckets"][0]
    library_down(embedded)

    assert unasked is None
    assert [len(each.sent) for each in (first, second)] == [3, 0]
    assert [each["name"] for each in buckets] == [BUCKET]
    assert [(each["model"], each["revision"]) for each in shown["models"]] == [(MODEL, "1")]
    assert [each["in_use"] for each in shown["models"]] == [True]
    assert used.value.message.count("an endpoint's account") == 2
    assert "--with-readers" in str(used.value.hint)
    assert (unused["removed"], unused["kept"][0]["prefix"]) == ([], prefix)
    assert shown["usd_per_month"] == 0.0
    assert shown["bytes"] >= first.manifest.total_bytes
    endpoints = [each for each in shown["readers"] if each["endpoint"]]
    assert [each["below"] for each in endpoints] == [prefix, prefix]
    assert len({each["member"] for each in endpoints}) == 2
    assert down["kept_weights"]["place"] == f"gs://{BUCKET}/{prefix}"
    assert down["kept_weights"]["bytes"] == first.manifest.total_bytes
    assert verified["problems"] == []
    assert len([each for each in left["readers"] if each["endpoint"]]) == 1
    assert left["models"] == shown["models"]  # the day of the last use is noted by `down`, too
    assert untouched == 0
    assert dry["dry_run"] is True
    assert [each["prefix"] for each in dry["removed"]] == [prefix]
    assert len(dry["in_use"][prefix]) >= 2  # by its account, and by its slice
    assert doomed["purged_weights"] == last["purged_weights"] == dry["removed"][0]
    assert (failed["destroyed"], failed["purged_weights"]) == (True, None)
    assert failed["kept_weights"]["place"] == down["kept_weights"]["place"]
    assert last["kept_weights"] is None
    assert empty["models"] == []
    assert embedded.remaining() == []


def hold(embedded: Embedded, prefix: str, *, on: bool) -> None:
    """Hold an object of the set, or release it; what is held cannot be deleted."""
    path = f"storage/v1/b/{BUCKET}/o/{prefix.replace('/', '%2F')}%2Fmodel.safetensors"
    call(embedded, "PATCH", path, json={"temporaryHold": on}).raise_for_status()


def held_meanwhile(embedded: Embedded, stack: str, prefix: str) -> tuple[Invocation, Connection]:
    """A command whose user thinks until somebody holds an object of the set, and then agrees."""

    class Thinks(Invocation):
        def consent(self, _question: Question) -> bool:
            hold(embedded, prefix, on=True)
            return True

    invocation, cloud = command(embedded, stack)
    return Thinks(environ=invocation.environ, chosen_stack=stack, json=True), cloud


def forget_use(embedded: Embedded, prefix: str) -> None:
    """Let nothing say when the weights were last used, as where nobody may write that down."""
    path = f"storage/v1/b/{BUCKET}/o/{prefix.replace('/', '%2F')}%2FMANIFEST.json"
    body = {"metadata": {"tpuflex-used": None}}
    call(embedded, "PATCH", path, json=body).raise_for_status()


def pushed(embedded: Embedded, stack: str, directory: Any) -> Any:
    """`tpuflex weights push DIRECTORY`."""
    _, cloud = command(embedded, stack)
    ensure_weights_bucket(cloud, consent=agree)
    return push_weights(StackWeights(cloud), everything_in(directory), silent, lambda: False)


def test_hosts_read_their_own_model_and_nothing_else(embedded: Embedded, tmp_path: Any) -> None:
    """Where bindings decide, an endpoint's account reads its own model, does not read another one
    of the library, lists nothing, and writes nothing. The other model is removed, and on request
    the library goes under its endpoint."""
    names = {"one": MODEL, "two": "acme/other"}
    library_up(embedded)
    for stack, model in names.items():
        directory = tiny(tmp_path / stack, stack)
        write_stack(
            embedded,
            stack,
            model,
            {"manifest_sha256": manifest_of(directory, model)},
            compile_cache="none",
        )
        pushed(embedded, stack, directory)
    run = stack_run(embedded.root, embedded.engine, embedded.environ, "one")
    run.up()
    embedded.cloud.cloud.strictness.change({"iam": {"enforced": True}})
    token = token_of_hosts(embedded, run.resources())
    objects = f"storage/v1/b/{BUCKET}/o"
    own = f"{objects}/models%2Facme-tiny%2F1%2Fconfig.json"
    other = f"{objects}/models%2Facme-other%2F1%2Fconfig.json"

    assert call(embedded, "GET", f"{own}?alt=media", token=token).json()["what"] == "one"
    assert call(embedded, "GET", f"{other}?alt=media", token=token).status_code == 403
    assert call(embedded, "GET", objects, token=token).status_code == 403
    assert call(embedded, "DELETE", own, token=token).status_code == 403
    embedded.cloud.cloud.strictness.change({"iam": {"enforced": False}})
    run_rm(*command(embedded, "two"), Wanted("models/acme-other/1"), dry_run=False)
    left = library_status(embedded)["buckets"][0]["models"]
    assert [each["prefix"] for each in left] == ["models/acme-tiny/1"]
    library_down(embedded, with_readers=True)
    assert bucket_of(embedded) is None


def test_other_weights_replace_none_that_others_serve(embedded: Embedded, tmp_path: Any) -> None:
    """A push of other weights under a name that is taken is refused before a byte is sent, and says
    how to name them; under another revision they lie beside."""
    write_stack(embedded, "one", MODEL, {})
    library_up(embedded)
    pushed(embedded, "one", tiny(tmp_path / "tiny"))
    before = bucket_of(embedded), mutations(embedded)
    tuned = tiny(tmp_path / "tuned", "tuned")
    with pytest.raises(ConflictError, match="holds other weights") as refused:
        pushed(embedded, "one", tuned)
    after = bucket_of(embedded), mutations(embedded)
    write_stack(embedded, "one", MODEL, {"revision": "2"})
    pushed(embedded, "one", tuned)
    models = library_status(embedded)["buckets"][0]["models"]

    assert 'revision: "2"' in str(refused.value.hint)
    assert after == before
    assert [each["revision"] for each in models] == ["1", "2"]
