"""`tpuflex weights rm` and `ls` of a library in more regions than the stack file names, or with
rights in one of them alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.examined import Doctor
from tests.cli.regions import (
    FAR,
    HOME,
    LIBRARY,
    listed,
    prefix_of,
    push,
    tiny_checkpoint,
    two_regions,
    typed,
)
from tpuflex.cli import weights_uses
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.steps.weights_ls import run_weights_ls
from tpuflex.cli.steps.weights_rm import run_weights_rm
from tpuflex.cli.steps.weights_verdicts import Wanted
from tpuflex.errors import AccessError, NotFoundError

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def pushed(project: Path, tmp_path: Path) -> Iterator[Doctor]:
    """Its weights lie in both regions."""
    with two_regions(project, tmp_path) as found:
        push(found, tiny_checkpoint(tmp_path / "tiny"))
        yield found


def take_away(pushed: Doctor) -> None:
    """Take the region that is not the home out of the stack file."""
    pushed.change("slice", zones=("us-east5-a",))
    pushed.change("network", subnetwork_cidrs={})


def test_a_region_that_was_taken_away_is_seen(
    pushed: Doctor, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ls` names the set that it keeps, with the command that removes it for this stack, whichever
    the shell names; which does."""
    run_weights_ls(pushed.cloud, Invocation(environ={}).output)
    assert "names no zone" not in capsys.readouterr().out
    take_away(pushed)
    monkeypatch.setenv("TPUFLEX_STACK", "big")
    run_weights_ls(pushed.cloud, typed().output)
    rows = json.loads(capsys.readouterr().out)
    run_weights_ls(pushed.cloud, Invocation(environ={}).output)
    told = capsys.readouterr().out

    place = f"gs://{FAR}/{prefix_of(pushed)}"
    assert [(each["region"], each["bucket"], each["complete"]) for each in rows] == [
        ("us-east5", HOME, True),
        ("europe-west4", FAR, True),
    ]
    assert "names no zone in europe-west4. To remove the set there, unless an endpoint" in told
    assert f"tpuflex weights rm --stack dev {place}" in told
    run_weights_rm(typed(), pushed.cloud, Wanted(prefix_of(pushed), bucket=FAR), dry_run=False)
    assert (listed(pushed, FAR), len(listed(pushed, HOME))) == ({}, 3)
    capsys.readouterr()
    run_weights_ls(pushed.cloud, typed().output)
    assert len(json.loads(capsys.readouterr().out)) == 1


def test_a_bucket_that_is_none_of_the_librarys_is_refused(pushed: Doctor) -> None:
    """Whoever made it; and one that is not there."""
    pushed.call("POST", "storage/v1/b?project=tpuflex-dev", {"name": "a-colleagues-bucket"})
    for bucket in ("a-colleagues-bucket", LIBRARY.bucket("tpuflex-dev", "us-central1")):
        wanted = Wanted(prefix_of(pushed), bucket=bucket)
        with pytest.raises(NotFoundError, match=f"gs://{bucket} is neither a bucket of this stack"):
            run_weights_rm(typed(), pushed.cloud, wanted, dry_run=False)


def test_rights_in_one_region_alone_remove_nothing(
    pushed: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is looked at before the first set goes."""

    def held(_api: object, bucket: str, asked: tuple[str, ...]) -> frozenset[str]:
        return frozenset() if bucket == FAR else frozenset(asked)

    monkeypatch.setattr(weights_uses, "held_in", held)
    with pytest.raises(AccessError, match=f"You may not delete gs://{FAR}/") as caught:
        run_weights_rm(typed(), pushed.cloud, Wanted(prefix_of(pushed)), dry_run=False)
    assert caught.value.hint.startswith("Have whoever administers it run: gcloud storage buckets")
    assert len(listed(pushed, HOME)) == len(listed(pushed, FAR)) == 3
    run_weights_rm(typed(), pushed.cloud, Wanted(prefix_of(pushed), bucket=HOME), dry_run=False)
    assert listed(pushed, HOME) == {}
