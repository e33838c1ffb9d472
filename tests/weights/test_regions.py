"""Weights of a stack with zones in two regions: pushed, listed, verified, removed and purged in
each, also in one that the stack file names no more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.checkpoints import everything_in, pushing, tiny
from tests.cli.typing import Captured
from tests.doctor.examined import PROJECT, Doctor
from tests.reports import lines_to
from tests.weights.regions import (
    FAR,
    HOME,
    LIBRARY,
    listed,
    prefix_of,
    push,
    remove,
    two_regions,
    typed,
)
from tpuflex.boot.planned import PlannedWeights
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.weights.run import run_ls, run_rm, run_verify
from tpuflex.deploy.preparation import EndpointPreparation
from tpuflex.deploy.purge import planned_copies, planned_purge, purge
from tpuflex.errors import AccessError, ConflictError, NotFoundError, WeightsError
from tpuflex.inventory.library import READER_TITLE, prefix_condition
from tpuflex.weights import removal as weights_removal
from tpuflex.weights import use as weights_uses
from tpuflex.weights.bucket import weights_bucket
from tpuflex.weights.removal import Removal, Wanted
from tpuflex.weights.stack_push import push_weights
from tpuflex.weights.stack_weights import StackWeights
from tpuflex.weights.use import note_use

HOST = "serviceAccount:host-1@tpuflex-dev.iam.gserviceaccount.com"


@pytest.fixture
def doctor(project: Path, tmp_path: Path) -> Iterator[Doctor]:
    """A stack in two regions."""
    with two_regions(project, tmp_path) as found:
        yield found


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Weights of a few bytes."""
    return tiny(tmp_path / "tiny")


def said(capsys: Captured) -> Any:
    """The document that the last command has printed."""
    return json.loads(capsys.readouterr().out)


def lets_read(doctor: Doctor, bucket: str) -> None:
    """An endpoint may read the set in this bucket."""
    account = {"accountId": "host-1"}
    doctor.call("POST", f"{PROJECT}/serviceAccounts", account)
    condition = {"title": READER_TITLE, "expression": prefix_condition(bucket, prefix_of(doctor))}
    reader = {"role": "roles/storage.objectViewer", "members": [HOST], "condition": condition}
    policy = {"version": 3, "bindings": [reader]}
    doctor.call("PUT", f"storage/v1/b/{bucket}/iam", policy)


def test_a_push_fills_every_region(doctor: Doctor, checkpoint: Path, capsys: Captured) -> None:
    """What is pushed to the home is copied from there to the other region; what was damaged there
    is mended by a plain push, without a source; --again copies all of it, and says what the
    network costs."""
    push(doctor, checkpoint)
    first, texts = said(capsys), listed(doctor, FAR)
    push(doctor, checkpoint)
    second = said(capsys)
    shard = f"{prefix_of(doctor)}/model.safetensors"
    remove(doctor, FAR, shard)
    push(doctor, None)
    mended, after = said(capsys), listed(doctor, FAR)
    push(doctor, checkpoint, again=True)
    shown, last = capsys.readouterr(), listed(doctor, FAR)
    third = json.loads(shown.out)

    place = {"region": "europe-west4", "bucket": FAR}
    files = ["config.json", "model.safetensors", "tokenizer.json"]
    assert (first["sent"], first["copies"]) == (files, [{**place, "copied": files}])
    assert texts.keys() == listed(doctor, HOME).keys()
    assert (second["sent"], second["copies"]) == ([], [{**place, "copied": []}])
    assert mended["copies"] == [{**place, "copied": ["model.safetensors"]}]
    assert after.keys() == texts.keys()
    assert third["copies"] == [{**place, "copied": files}]
    assert "weights: 0.00 GB are copied from gs://" in shown.err
    assert f"to gs://{FAR}; nothing passes through here, and the network costs $0.01" in shown.err
    assert last[shard]["generation"] != after[shard]["generation"]


def test_other_weights_in_a_region_are_not_replaced(
    doctor: Doctor, checkpoint: Path, capsys: Captured
) -> None:
    """They may be another stack's: the push names the command that removes them, which then does,
    and in no other region."""
    push(doctor, checkpoint)
    manifest = f"{prefix_of(doctor)}/MANIFEST.json"
    far = StackWeights(doctor.cloud).further()[0].store._bucket.blob(manifest)
    far.upload_from_string(far.download_as_bytes().replace(b'"revision": "1"', b'"revision": "2"'))
    with pytest.raises(ConflictError, match=f"gs://{FAR}/.* holds other weights already") as caught:
        push(doctor, None)
    with pytest.raises(WeightsError, match="is not that of the home") as verified:
        run_verify(typed(), doctor.cloud, None)
    assert str(verified.value.hint) == str(caught.value.hint)
    capsys.readouterr()

    place = f"gs://{FAR}/{prefix_of(doctor)}"
    assert f"tpuflex weights rm {place} --stack dev" in str(caught.value.hint)
    wanted = Wanted(prefix_of(doctor), bucket=FAR)
    run_rm(typed(), doctor.cloud, wanted, dry_run=False)
    assert said(capsys)["bucket"] == FAR
    assert (listed(doctor, FAR), len(listed(doctor, HOME))) == ({}, 4)
    push(doctor, None)
    assert listed(doctor, FAR).keys() == listed(doctor, HOME).keys()


def test_a_damaged_home_wants_its_directory(doctor: Doctor, checkpoint: Path) -> None:
    """Without a source no command serves it, or fills a region from it: the directory has to be
    named."""
    push(doctor, checkpoint)
    remove(doctor, HOME, f"{prefix_of(doctor)}/model.safetensors")
    lines: list[str] = []
    preparation = EndpointPreparation(StackWeights(doctor.cloud), lines_to(lines), lambda: False)
    for command in (
        preparation.plan_weights,
        preparation._ensure_weights,
        lambda: push(doctor, None),
    ):
        with pytest.raises(WeightsError, match="cannot be served") as caught:
            command()
        assert str(caught.value.hint) == "Run: tpuflex weights push DIRECTORY --stack dev"
    assert [each.split()[0] for each in lines] == ["warning"]
    push(doctor, checkpoint)
    run_verify(typed(), doctor.cloud, checkpoint)


def test_a_home_that_moves_serves_what_the_slice_was_made_for(
    doctor: Doctor, checkpoint: Path
) -> None:
    """The new home's bucket of the library has the copy already, and the state says that it is the
    right one; another one there is refused."""
    push(doctor, checkpoint)
    found = StackWeights(doctor.cloud).store.find(prefix_of(doctor))
    assert found is not None
    served = PlannedWeights(HOME, prefix_of(doctor), found.sha256, frozenset({FAR}))
    doctor.change("slice", zones=("europe-west4-a",))
    doctor.change("network", subnetwork_cidrs={})
    preparation = EndpointPreparation(
        StackWeights(doctor.cloud), print, lambda: False, before=lambda: served
    )
    preparation.check()
    assert doctor.cloud.bucket == FAR
    assert preparation._ensure_weights() == found.sha256

    doctor.stack.own_files.joinpath("pushed-weights.json").unlink()
    other = replace(served, manifest_sha256="0" * 64)
    preparation = replace(preparation, before=lambda: other)
    with pytest.raises(WeightsError, match=f"the slice was made for {'0' * 64}"):
        preparation.check()


def test_other_weights_in_a_region_are_found_before_the_upload(
    doctor: Doctor, checkpoint: Path, tmp_path: Path
) -> None:
    """Nothing pins these, and a push that the other region then refuses would have been for
    nothing."""
    other = tiny(tmp_path / "other", "others")
    (far,) = StackWeights(doctor.cloud).further()
    push_weights(far, everything_in(other), print, lambda: False)
    there = listed(doctor, FAR)

    with pytest.raises(ConflictError, match=f"gs://{FAR}/.* holds other weights already") as caught:
        push(doctor, checkpoint)
    assert "Nothing was sent" in caught.value.message
    assert (listed(doctor, HOME), listed(doctor, FAR)) == ({}, there)


def test_a_manifest_that_cannot_be_read_is_not_replaced(doctor: Doctor, checkpoint: Path) -> None:
    """What others serve from a bucket that outlives the stack cannot be told by it: a push goes on
    neither at home nor towards a further region, and says how to find what was there."""
    push(doctor, checkpoint)
    name = f"{prefix_of(doctor)}/MANIFEST.json"
    for each in reversed(StackWeights(doctor.cloud).everywhere()):
        each.store._bucket.blob(name).upload_from_string(b"{")
        before = listed(doctor, HOME), listed(doctor, FAR)
        with pytest.raises(ConflictError, match="a manifest that cannot be read") as caught:
            push(doctor, checkpoint)
        place = each.place
        assert caught.value.message.startswith(place)
        assert f"the object {place}/MANIFEST.json" in str(caught.value.hint)
        assert f"tpuflex weights rm {place} --stack dev" in str(caught.value.hint)
        assert (listed(doctor, HOME), listed(doctor, FAR)) == before


def test_every_region_is_listed(doctor: Doctor, checkpoint: Path, capsys: Captured) -> None:
    """Each with the state of the stack's own set: complete, not there, or no bucket."""
    push(doctor, checkpoint)
    for name in listed(doctor, FAR):
        remove(doctor, FAR, name)
    capsys.readouterr()
    run_ls(typed(), doctor.cloud)
    rows = said(capsys)
    run_ls(Invocation(environ={}), doctor.cloud)
    table = capsys.readouterr().out.splitlines()
    doctor.remove(f"storage/v1/b/{FAR}")
    run_ls(Invocation(environ={}), doctor.cloud)
    gone = capsys.readouterr().out.splitlines()

    assert [(each["region"], each["bucket"], each["complete"], each["files"]) for each in rows] == [
        ("us-east5", HOME, True, 3),
        ("europe-west4", FAR, False, 0),
    ]
    assert table[0].startswith("REGION        PREFIX")
    assert [line.split()[0] for line in table[1:]] == ["us-east5", "europe-west4"]
    assert ("  complete  " in table[1], "  not there  " in table[2]) == (True, True)
    assert "  no bucket  " in gone[2]


def test_every_region_is_verified(doctor: Doctor, checkpoint: Path, capsys: Captured) -> None:
    """What is wrong in one is told with its bucket, and keeps the other from nothing; the exit code
    is the highest: damage before weights that are not there."""
    push(doctor, checkpoint)
    capsys.readouterr()
    run_verify(typed(), doctor.cloud, checkpoint)
    good = said(capsys)
    remove(doctor, FAR, f"{prefix_of(doctor)}/model.safetensors")
    with pytest.raises(WeightsError, match=f"gs://{FAR}/.* is not as it should be"):
        run_verify(typed(), doctor.cloud, checkpoint)
    damaged = said(capsys)
    for name in listed(doctor, HOME):
        remove(doctor, HOME, name)
    with pytest.raises(WeightsError, match=FAR):
        run_verify(typed(), doctor.cloud, checkpoint)
    both = capsys.readouterr()
    for name in listed(doctor, FAR):
        remove(doctor, FAR, name)
    with pytest.raises(NotFoundError, match=HOME):
        run_verify(typed(), doctor.cloud, checkpoint)

    assert good["problems"] == good["copies"][0]["problems"] == []
    assert good["copies"][0]["manifest_sha256"] == good["manifest_sha256"]
    assert all(good["copies"][0]["equals"].values())
    assert damaged["problems"] == []
    problem = {"path": "model.safetensors", "problem": "missing"}
    assert damaged["copies"][0]["problems"] == [problem]
    assert json.loads(both.out)["manifest_sha256"] is None
    assert f"Error: gs://{HOME}/{prefix_of(doctor)} has no usable MANIFEST.json" in both.err
    assert good["error"] is good["copies"][0]["error"] is damaged["error"] is None
    assert damaged["copies"][0]["error"]["kind"] == "WeightsError"
    missing = json.loads(both.out)["error"]
    assert (missing["kind"], missing["exit_code"]) == ("NotFoundError", 4)
    assert missing["hint"] == "To bring them, run: tpuflex weights push --stack dev"


def test_a_set_goes_from_every_region(doctor: Doctor, checkpoint: Path, capsys: Captured) -> None:
    """All regions are looked at before anything goes: an endpoint that may read the set in one of
    them keeps it in all, which --dry-run says, too."""
    push(doctor, checkpoint)
    wanted = Wanted(prefix_of(doctor))
    lets_read(doctor, FAR)
    capsys.readouterr()
    with pytest.raises(ConflictError, match=f"europe-west4: {prefix_of(doctor)}: {HOST}"):
        run_rm(typed(), doctor.cloud, wanted, dry_run=False)
    run_rm(typed(), doctor.cloud, wanted, dry_run=True)
    dry = said(capsys)
    run_rm(Invocation(environ={}), doctor.cloud, wanted, dry_run=True)
    told = capsys.readouterr().out
    assert (dry["refused"], dry["dry_run"], len(dry["removed"])) == (True, True, 1)
    assert dry["copies"][0]["in_use"][wanted.set][0].startswith(HOST)
    assert "It would be refused: endpoints may use it." in told
    assert len(listed(doctor, HOME)) == len(listed(doctor, FAR)) == 4

    owners = {"role": "roles/storage.legacyBucketOwner", "members": ["projectOwner:tpuflex-dev"]}
    doctor.call("PUT", f"storage/v1/b/{FAR}/iam", {"bindings": [owners]})
    run_rm(typed(), doctor.cloud, wanted, dry_run=False)
    removed = said(capsys)
    assert (removed["refused"], removed["bucket"]) == (False, HOME)
    assert [each["bucket"] for each in removed["copies"]] == [FAR]
    assert (listed(doctor, HOME), listed(doctor, FAR)) == ({}, {})
    with pytest.raises(NotFoundError, match=f"gs://{HOME} and gs://{FAR} holds no set"):
        run_rm(typed(), doctor.cloud, wanted, dry_run=False)


def test_what_went_is_told_where_the_next_one_fails(
    doctor: Doctor, checkpoint: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The document and the lines name what is gone, and nothing else; the same command goes on."""
    push(doctor, checkpoint)
    capsys.readouterr()
    delete = weights_removal._delete

    def fails(bucket: Any, blob: Any, **conditions: int) -> None:
        if bucket.name == FAR:
            raise ConflictError("somebody writes there")
        delete(bucket, blob, **conditions)

    wanted = Wanted(prefix_of(doctor))
    with monkeypatch.context() as patch:
        patch.setattr(weights_removal, "_delete", fails)
        with pytest.raises(ConflictError, match="somebody writes there"):
            run_rm(typed(), doctor.cloud, wanted, dry_run=False)
    told = capsys.readouterr()
    document = json.loads(told.out)
    run_rm(typed(), doctor.cloud, wanted, dry_run=False)

    assert [each["prefix"] for each in document["removed"]] == [wanted.set]
    assert document["copies"][0]["removed"] == []
    assert f"removed  gs://{HOME}/{wanted.set}" in told.err
    assert f"removed  gs://{FAR}" not in told.err
    assert listed(doctor, FAR) == {}


def take_away(pushed: Doctor) -> None:
    """Take the region that is not the home out of the stack file."""
    pushed.change("slice", zones=("us-east5-a",))
    pushed.change("network", subnetwork_cidrs={})


def test_a_region_that_was_taken_away_is_seen(pushed: Doctor, capsys: Captured) -> None:
    """`ls` names the set that it keeps, with the command that removes it for this stack, whichever
    the shell names; which does."""
    run_ls(Invocation(environ={}), pushed.cloud)
    assert "names no zone" not in capsys.readouterr().out
    take_away(pushed)
    run_ls(typed(), pushed.cloud)
    rows = json.loads(capsys.readouterr().out)
    run_ls(Invocation(environ={"TPUFLEX_STACK": "big"}), pushed.cloud)
    told = capsys.readouterr().out

    place = f"gs://{FAR}/{prefix_of(pushed)}"
    assert [(each["region"], each["bucket"], each["complete"]) for each in rows] == [
        ("us-east5", HOME, True),
        ("europe-west4", FAR, True),
    ]
    assert "names no zone in europe-west4. To remove the set there, unless an endpoint" in told
    assert f"tpuflex weights rm --stack dev {place}" in told
    run_rm(typed(), pushed.cloud, Wanted(prefix_of(pushed), bucket=FAR), dry_run=False)
    assert (listed(pushed, FAR), len(listed(pushed, HOME))) == ({}, 4)
    capsys.readouterr()
    run_ls(typed(), pushed.cloud)
    assert len(json.loads(capsys.readouterr().out)) == 1


def test_a_bucket_that_is_none_of_the_librarys_is_refused(pushed: Doctor) -> None:
    """Whoever made it; and one that is not there."""
    pushed.call("POST", "storage/v1/b?project=tpuflex-dev", {"name": "a-colleagues-bucket"})
    for bucket in ("a-colleagues-bucket", LIBRARY.bucket("tpuflex-dev", "us-central1")):
        wanted = Wanted(prefix_of(pushed), bucket=bucket)
        with pytest.raises(NotFoundError, match=f"gs://{bucket} is neither a bucket of this stack"):
            run_rm(typed(), pushed.cloud, wanted, dry_run=False)


def test_rights_in_one_region_alone_remove_nothing(
    pushed: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is looked at before the first set goes."""

    def held(_api: object, bucket: str, asked: tuple[str, ...]) -> frozenset[str]:
        return frozenset() if bucket == FAR else frozenset(asked)

    monkeypatch.setattr(weights_uses, "held_in", held)
    with pytest.raises(AccessError, match=f"You may not delete gs://{FAR}/") as caught:
        run_rm(typed(), pushed.cloud, Wanted(prefix_of(pushed)), dry_run=False)
    assert str(caught.value.hint).startswith(
        "Have whoever administers it run: gcloud storage buckets"
    )
    assert len(listed(pushed, HOME)) == len(listed(pushed, FAR)) == 4
    run_rm(typed(), pushed.cloud, Wanted(prefix_of(pushed), bucket=HOME), dry_run=False)
    assert listed(pushed, HOME) == {}


@pytest.fixture
def pushed(project: Path, tmp_path: Path) -> Iterator[Doctor]:
    """A stack in two regions, whose weights were pushed from here and lie in both."""
    with two_regions(project, tmp_path) as found:
        push(found, tiny(tmp_path / "tiny"))
        yield found


def served(pushed: Doctor) -> PlannedWeights:
    """What the slice in the state was made for."""
    found = StackWeights(pushed.cloud).store.find(prefix_of(pushed))
    assert found is not None
    return PlannedWeights(HOME, prefix_of(pushed), found.sha256, frozenset({FAR}))


def planned(
    weights: StackWeights, slice_: PlannedWeights | None
) -> list[tuple[StackWeights, Removal]]:
    """What a purge would remove, in each region."""
    home = planned_purge(weights, slice_)
    return [*([] if home is None else [(weights, home)]), *planned_copies(weights, slice_)]


def forget_pushes(pushed: Doctor) -> None:
    """Let all of it have been pushed from somewhere else."""
    (pushed.stack.own_files / "pushed-weights.json").unlink()


def empty(pushed: Doctor, *buckets: str) -> None:
    """Remove all that the buckets hold."""
    for bucket in buckets:
        for name in listed(pushed, bucket):
            remove(pushed, bucket, name)


def colleague_pushes(pushed: Doctor, directory: Path, bucket: str) -> str:
    """Somebody pushes other weights of the same name from a home of their own; their hash."""
    tiny(directory, "of a colleague")
    there = weights_bucket(bucket, project="tpuflex-dev", environ=pushed.cloud.environ)
    name = pushed.stack.settings.model.name
    report = there.push(pushing(directory, prefix_of(pushed), name=name))
    return report.manifest.sha256


def test_a_colleagues_weights_of_the_same_name_stay(pushed: Doctor, tmp_path: Path) -> None:
    """What was served and pushed from here is known by its hash: in the home, and in every region.
    The refusal says what is there, and what removes it all the same."""
    mine = served(pushed)
    empty(pushed, HOME, FAR)
    theirs = colleague_pushes(pushed, tmp_path / "other", HOME)
    for slice_ in (mine, None):
        with pytest.raises(ConflictError, match=f"manifest {theirs}.*{mine.manifest_sha256}") as at:
            planned_purge(StackWeights(pushed.cloud), slice_)
        assert f"tpuflex weights rm gs://{HOME}/{prefix_of(pushed)} --stack dev" in str(
            at.value.hint
        )
    colleague_pushes(pushed, tmp_path / "other", FAR)
    with pytest.raises(ConflictError, match=f"gs://{FAR}/.* holds other weights"):
        planned_copies(StackWeights(pushed.cloud), mine)
    forget_pushes(pushed)
    with pytest.raises(ConflictError, match="was neither served by this stack nor pushed from"):
        planned_purge(StackWeights(pushed.cloud), None)
    assert len(listed(pushed, HOME)) == len(listed(pushed, FAR)) == 4


def test_what_somebody_pushes_while_the_stack_goes_stays(pushed: Doctor, tmp_path: Path) -> None:
    """Between the question and the removal: other weights, and the same ones once more. What the
    teardown itself notes in the set is no reason to leave it."""
    weights = StackWeights(pushed.cloud)
    (_, home), (far_weights, far) = planned(weights, served(pushed))
    empty(pushed, HOME)
    colleague_pushes(pushed, tmp_path / "other", HOME)
    with pytest.raises(ConflictError, match="somebody has pushed there meanwhile"):
        purge(weights, home)
    assert len(listed(pushed, HOME)) == 4
    note_use(far_weights.store.contents(far.prefix), pushed.cloud.now().date())
    purge(far_weights, far)
    assert listed(pushed, FAR) == {}


def test_what_was_only_pushed_goes_from_every_region(pushed: Doctor) -> None:
    """Without an `up`: a copy from the home is the home's."""
    assert [there.bucket for there, _ in planned(StackWeights(pushed.cloud), None)] == [HOME, FAR]


def test_a_region_that_was_taken_away_keeps_nothing(pushed: Doctor) -> None:
    """The slice in the state says where the weights were, which the stack file does not any more. A
    bucket that is none of the library's is left alone."""
    before = served(pushed)
    pushed.change("slice", zones=("us-east5-a",))
    pushed.change("network", subnetwork_cidrs={})
    forget_pushes(pushed)
    pushed.call("POST", "storage/v1/b?project=tpuflex-dev", {"name": "a-colleagues-bucket"})
    copies = before.copies | {"a-colleagues-bucket", "a-bucket-that-is-gone"}
    slice_ = PlannedWeights(HOME, before.prefix, before.manifest_sha256, copies)
    places = planned(StackWeights(pushed.cloud), slice_)
    for each in places:
        purge(*each)

    assert [there.bucket for there, _ in places] == [HOME, FAR]
    assert (listed(pushed, HOME), listed(pushed, FAR)) == ({}, {})
