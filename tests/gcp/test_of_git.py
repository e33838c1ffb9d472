"""A set that lies in the library already is the Hub's only if its files of Git are, too."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tests.copier.jobs import job_of
from tests.gcp.test_weights_copy import PREFIX, push
from tpuflex.cli.region_job import lists, of_git
from tpuflex.copier.job import JobFile

if TYPE_CHECKING:
    from tests.gcp.conftest import Clients


SHARD = "model.safetensors"


def git_id(text: bytes) -> str:
    """Git's object id of a file."""
    return hashlib.sha1(b"blob %d\0" % len(text) + text, usedforsecurity=False).hexdigest()


def test_another_config_of_the_same_size_is_not_the_hubs(
    clients: Clients, checkpoint: Path
) -> None:
    """Of a file in Git the Hub says no SHA-256, so a colleague's set with the Hub's shards and
    another config has all that a manifest can be held to."""
    bucket = clients.bucket()
    push(bucket, checkpoint)
    config, shard = ((checkpoint / name).read_bytes() for name in ("config.json", SHARD))
    files = (
        JobFile("config.json", len(config), "", git_id(config)),
        JobFile(SHARD, len(shard), hashlib.sha256(shard).hexdigest(), ""),
    )
    job = replace(job_of(*files), prefix=PREFIX, model="tiny", revision="1")
    assert of_git(bucket.contents(PREFIX), job)

    (checkpoint / "config.json").write_bytes(b"[" + config[1:-1] + b"]")
    push(bucket, checkpoint)
    there = bucket.contents(PREFIX)
    assert there.manifest is not None
    assert lists(there.manifest, job)
    assert not of_git(there, job)
