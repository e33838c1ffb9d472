"""A bucket of the user's own: nothing of others in it is replaced, or taken for weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.checkpoints import pushing
from tpuflex.errors import AccessError, AlreadyExistsError, ConflictError, NotFoundError
from tpuflex.google.existing_bucket import (
    PUSHES,
    held_in,
    made_by_tpuflex,
    read_existing_bucket,
    require_pushable,
)
from tpuflex.planning.model_files import WeightsProblem
from tpuflex.settings.bucket import ExistingBucket
from tpuflex.weights.bucket import WeightsBucket, weights_bucket
from tpuflex.weights.push import PushReport

if TYPE_CHECKING:
    from tests.google.conftest import Clients
    from tpuflex.google.transport import JsonObject

MINE = ExistingBucket("bucket-1", "llm")
PREFIX = "llm/models/tiny/1"


def mine(clients: Clients) -> WeightsBucket:
    return weights_bucket("bucket-1", project="my-project", environ=clients.environ, existing=MINE)


def push(clients: Clients, directory: Path) -> PushReport:
    """Push as the command line does."""
    return mine(clients).push(pushing(directory, PREFIX))


def put(clients: Clients, name: str, text: str) -> None:
    """Somebody else writes an object."""
    bucket = mine(clients)._bucket
    bucket.blob(name).upload_from_string(text)


def everything(clients: Clients) -> dict[str, str]:
    """What is in the bucket, with the generation of each object."""
    items = clients.storage.call("GET", "/storage/v1/b/bucket-1/o").get("items", [])
    assert isinstance(items, list)
    return {str(item["name"]): str(item["generation"]) for item in items if isinstance(item, dict)}


def test_what_a_push_has_written_a_push_replaces(clients: Clients, checkpoint: Path) -> None:
    """Also after one that broke off before its manifest, with another directory."""
    push(clients, checkpoint)
    clients.delete(f"{PREFIX}/MANIFEST.json")
    (checkpoint / "model.safetensors").write_bytes(b"two" * 1000)

    report = push(clients, checkpoint)

    assert report.sent == ("model.safetensors",)
    assert mine(clients).verify(PREFIX).problems == ()


@pytest.mark.parametrize("name", ["config.json", "MANIFEST.json"])
def test_what_others_have_written_is_left(clients: Clients, checkpoint: Path, name: str) -> None:
    """A push that would replace it is refused by name, and has sent nothing."""
    put(clients, f"{PREFIX}/{name}", "theirs")
    before = everything(clients)

    with pytest.raises(ConflictError) as caught:
        push(clients, checkpoint)

    assert caught.value.message == (
        f"gs://bucket-1/{PREFIX} holds files that no push has written, and that a push would"
        f" replace: {name}. Nothing was sent."
    )
    assert str(caught.value.hint) == (
        "Write another prefix to tpuflex:model.weights.bucket, or another revision."
    )
    assert everything(clients) == before


def test_a_file_that_somebody_has_put_over_ours_is_left(clients: Clients, checkpoint: Path) -> None:
    """The manifest names it, and that proves nothing of what is there now."""
    push(clients, checkpoint)
    put(clients, f"{PREFIX}/model.safetensors", "theirs")
    before = everything(clients)

    assert mine(clients).verify(PREFIX).problems == (WeightsProblem("model.safetensors", "size"),)
    with pytest.raises(ConflictError, match=r"replace: model\.safetensors\. Nothing"):
        push(clients, checkpoint)
    assert everything(clients) == before


def test_only_weights_below_the_prefix_are_listed(clients: Clients, checkpoint: Path) -> None:
    """Others' objects beside and among them are no weights, and no damage either."""
    push(clients, checkpoint)
    for name in ("models/tiny/1/a.bin", "llm/models/other/1/a.bin", f"{PREFIX}/notes.txt"):
        put(clients, name, "theirs")

    (found,) = mine(clients).list()
    assert (found.prefix, found.files, found.total_bytes) == (PREFIX, 2, 3002)
    assert mine(clients).verify(PREFIX).problems == ()


def test_a_set_that_broke_off_is_listed_as_incomplete(clients: Clients, checkpoint: Path) -> None:
    """What a push has written is known without its manifest."""
    push(clients, checkpoint)
    clients.delete(f"{PREFIX}/MANIFEST.json")

    (found,) = mine(clients).list()
    assert (found.manifest, found.files) == (None, 2)


def test_what_a_push_has_left_is_told_beside_the_set(clients: Clients, checkpoint: Path) -> None:
    """Its mark says that a push has written it; what others have put there is not even told."""
    (checkpoint / "more.safetensors").write_bytes(b"two" * 1000)
    push(clients, checkpoint)
    clients.delete(f"{PREFIX}/MANIFEST.json")
    (checkpoint / "more.safetensors").unlink()
    push(clients, checkpoint)
    put(clients, f"{PREFIX}/notes.txt", "theirs")

    check = mine(clients).verify(PREFIX)

    assert (check.problems, check.beside) == ((), ("more.safetensors",))


def test_a_bucket_that_is_not_there(clients: Clients) -> None:
    """Says how it is made, in the region of the chips."""
    gone = ExistingBucket("bucket-2")
    with pytest.raises(NotFoundError) as caught:
        read_existing_bucket(clients.storage, gone, "us-east5")

    assert caught.value.message == (
        "gs://bucket-2, which tpuflex:model.weights.bucket names, does not exist"
    )
    assert str(caught.value.hint) == (
        "Make it: gcloud storage buckets create gs://bucket-2 --location=us-east5"
        " --uniform-bucket-level-access --public-access-prevention"
    )
    require_pushable(clients.storage, gone)  # nobody can tell: the push itself does


@pytest.mark.parametrize(
    "labels", [{"tpuflex-owner": "0123456789abcdef"}, {"managed-by": "tpuflex-bootstrap"}]
)
def test_a_bucket_of_tpuflex_is_none_of_yours(clients: Clients, labels: JsonObject) -> None:
    """Whoever made it deletes it, with whatever is in it: a stack's and a library's, and that with
    the states of a bootstrap."""
    clients.storage.call("PATCH", "/storage/v1/b/bucket-1", body={"labels": labels})
    with pytest.raises(AlreadyExistsError) as caught:
        read_existing_bucket(clients.storage, MINE, "us-east5")

    whole = f"{caught.value.message}\n{caught.value.hint}"
    assert whole == made_by_tpuflex(MINE, labels)


def test_a_bucket_whose_readers_pay_is_refused(clients: Clients) -> None:
    """Neither hosts nor pushes name a project that pays; said with the command that ends it."""
    clients.storage.call(
        "PATCH", "/storage/v1/b/bucket-1", body={"billing": {"requesterPays": True}}
    )
    with pytest.raises(AccessError) as caught:
        read_existing_bucket(clients.storage, MINE, "us-east5")
    assert str(caught.value.hint) == (
        "Run: gcloud storage buckets update gs://bucket-1 --no-requester-pays\n"
        "Or name another bucket, which holds a copy."
    )


def test_the_caller_may_push(clients: Clients) -> None:
    """The bucket itself is asked, as the right may be granted there alone."""
    assert held_in(clients.storage, "bucket-1", PUSHES) == set(PUSHES)
    require_pushable(clients.storage, MINE)
