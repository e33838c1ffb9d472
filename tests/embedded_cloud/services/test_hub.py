"""The small Hub of the embedded cloud, asked by huggingface_hub itself."""

from __future__ import annotations

import hashlib
from pathlib import Path

import requests
from huggingface_hub import HfApi, snapshot_download

from embedded_cloud.server import EmbeddedCloud
from tests.hub_models import MODEL, put_model, safetensors

SHARD = "model-00001-of-00002.safetensors"


def hub(cloud: EmbeddedCloud, token: str = "") -> HfApi:
    """huggingface_hub, pointed at the embedded cloud."""
    return HfApi(endpoint=f"{cloud.url}/huggingface", token=token or False)


def test_huggingface_hub_fetches_a_model(cloud: EmbeddedCloud, tmp_path: Path) -> None:
    """Huggingface_hub lists a model at its commit, and fetches it whole."""
    model = put_model(cloud.state_dir)
    info = hub(cloud).model_info(MODEL, files_metadata=True)
    shard = next(one for one in info.siblings or () if one.rfilename == SHARD)

    fetched = snapshot_download(
        MODEL,
        endpoint=f"{cloud.url}/huggingface",
        token=False,
        revision=info.sha,
        cache_dir=tmp_path / "cache",
        local_dir=tmp_path / "fetched",
    )

    assert (Path(fetched) / SHARD).read_bytes() == (model / SHARD).read_bytes()
    assert shard.lfs is not None
    assert shard.lfs.sha256 == hashlib.sha256(safetensors()).hexdigest()
    listed = {entry.path for entry in hub(cloud).list_repo_tree(MODEL, recursive=True)}
    assert listed == {one.rfilename for one in info.siblings or ()}


def test_a_range_of_a_file(cloud: EmbeddedCloud) -> None:
    """A part of a file is asked for by a range, and its HEAD says whose it is."""
    put_model(cloud.state_dir)
    url = f"{cloud.url}/huggingface/{MODEL}/resolve/main/{SHARD}"

    part = requests.get(url, headers={"Range": "bytes=10-19"}, timeout=60)
    head = requests.head(url, timeout=60)

    assert (part.status_code, part.content) == (206, safetensors()[10:20])
    assert head.headers["X-Linked-Etag"].strip('"') == hashlib.sha256(safetensors()).hexdigest()
    assert head.headers["X-Repo-Commit"] == hub(cloud).model_info(MODEL).sha


def test_nothing_outside_of_a_model_is_served(cloud: EmbeddedCloud) -> None:
    """Neither a link out of a model nor a path with dots leads to a file elsewhere."""
    model = put_model(cloud.state_dir)
    (cloud.state_dir / "secret.json").write_text("{}")
    (model / "link.json").symlink_to(cloud.state_dir / "secret.json")
    root = f"{cloud.url}/huggingface/{MODEL}/resolve/main"

    for path in ("link.json", "..%2f..%2f..%2fsecret.json"):
        assert requests.get(f"{root}/{path}", timeout=60).status_code == 404
