"""Checkpoints in a bucket of the embedded cloud: their headers are read, in ranges."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import requests

from tests.checkpoints import smollm2, write_safetensors
from tests.google.conftest import PROJECT
from tpuflex.errors import AccessError, ConflictError, NotFoundError, WeightsError
from tpuflex.google.storage_client import storage_bucket
from tpuflex.settings.weights_source import GsUrl
from tpuflex.weights.checkpoint_bucket import CheckpointObjects, checkpoint_objects
from tpuflex.weights.source import read_checkpoint

if TYPE_CHECKING:
    from tests.google.conftest import Clients

TODAY = dt.date(2026, 11, 22)


def upload(clients: Clients, name: str, path: Path) -> None:
    """Put a file into the bucket."""
    bucket = storage_bucket("bucket-1", project=PROJECT, environ=clients.environ)
    bucket.blob(name).upload_from_filename(str(path))


@pytest.fixture
def checkpoint(clients: Clients, tmp_path: Path) -> GsUrl:
    """A small Llama in two files in the bucket, and another file below it."""
    directory = tmp_path / "tiny"
    layer = {
        "self_attn.q_proj.weight": (64, 64),
        "self_attn.k_proj.weight": (32, 64),
        "self_attn.v_proj.weight": (32, 64),
        "self_attn.o_proj.weight": (64, 64),
        "mlp.gate_proj.weight": (4096, 64),
        "mlp.up_proj.weight": (4096, 64),
        "mlp.down_proj.weight": (64, 4096),
        "input_layernorm.weight": (64,),
        "post_attention_layernorm.weight": (64,),
    }
    shapes = {"model.embed_tokens.weight": (512, 64), "model.norm.weight": (64,)}
    for number in range(2):
        shapes |= {f"model.layers.{number}.{name}": shape for name, shape in layer.items()}
    config = {
        **smollm2().config,
        "hidden_size": 64,
        "intermediate_size": 4096,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_hidden_layers": 2,
        "vocab_size": 512,
    }
    tensors = {name: ("BF16", shape) for name, shape in shapes.items()}
    tiny = type(smollm2())("tiny", config, tensors)
    for file in tiny.write(directory, shards=2).iterdir():
        upload(clients, f"models/tiny/1/{file.name}", file)
    write_safetensors(directory / "old.safetensors", tensors)
    upload(clients, "models/tiny/1/original/old.safetensors", directory / "old.safetensors")
    return GsUrl("bucket-1", "models/tiny/1")


def test_a_bucket_gives_the_row_and_the_exact_bytes(clients: Clients, checkpoint: GsUrl) -> None:
    """What lies at the prefix counts; what lies deeper is another checkpoint."""
    found = read_checkpoint(checkpoint, environ=clients.environ, today=TODAY)

    assert (
        found.model.text_params == 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 64 * 4096 + 128) + 513 * 64
    )
    assert found.weight_bytes == 2 * found.model.text_params
    assert found.model.source.where == "gs://bucket-1/models/tiny/1"
    assert found.model.name == "tiny"


def test_only_headers_are_fetched(
    clients: Clients, checkpoint: GsUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 3 MB of weights only headers come over the wire."""
    fetched: list[int] = []
    send = requests.Session.send

    def counted(
        session: requests.Session, request: requests.PreparedRequest, **how: object
    ) -> requests.Response:
        answer = send(session, request, **how)  # type: ignore[arg-type]
        fetched.append(int(answer.headers.get("Content-Length", 0)))
        return answer

    monkeypatch.setattr(requests.Session, "send", counted)
    found = read_checkpoint(checkpoint, environ=clients.environ, today=TODAY)

    assert (found.weight_bytes or 0) > 3_000_000
    assert 0 < sum(fetched) < 30_000


def objects(clients: Clients, prefix: str, bucket: str = "bucket-1") -> CheckpointObjects:
    """The files at a prefix."""
    return checkpoint_objects(bucket, prefix, environ=clients.environ)


def test_parts_are_what_was_asked_for(clients: Clients, checkpoint: GsUrl) -> None:
    """A range is exact, ends with the file, and may be empty."""
    files = objects(clients, checkpoint.prefix)
    size = files.sizes()["config.json"]
    whole = files.read("config.json", 0, size)

    assert len(whole) == size
    assert files.read("config.json", 3, 5) == whole[3:8]
    assert files.read("config.json", size - 2, 100) == whole[-2:]
    assert files.read("config.json", 0, 0) == b""


def test_a_file_that_was_replaced_is_not_read(
    clients: Clients, checkpoint: GsUrl, tmp_path: Path
) -> None:
    """Size and content are those of one object: a push in between is noticed."""
    files = objects(clients, checkpoint.prefix)
    files.sizes()
    (tmp_path / "other").write_text("{}")
    upload(clients, f"{checkpoint.prefix}/config.json", tmp_path / "other")

    with pytest.raises(ConflictError, match="was replaced since it was listed"):
        files.read("config.json", 0, 10)


def test_an_empty_file_is_refused(clients: Clients, checkpoint: GsUrl, tmp_path: Path) -> None:
    """An object without bytes, of which no range can be asked for, is no safetensors file."""
    (tmp_path / "empty").touch()
    upload(clients, f"{checkpoint.prefix}/model-00002-of-00002.safetensors", tmp_path / "empty")

    with pytest.raises(WeightsError, match="empty"):
        read_checkpoint(checkpoint, environ=clients.environ, today=TODAY)


def test_what_is_not_there_is_said(clients: Clients) -> None:
    """No such bucket, and nothing at the prefix, are told apart; both say what to write."""
    with pytest.raises(NotFoundError, match="gs://no-such-bucket does not exist") as no_bucket:
        objects(clients, "x", "no-such-bucket").sizes()
    assert "gs://BUCKET/PREFIX" in str(no_bucket.value.hint)
    with pytest.raises(NotFoundError, match="gs://bucket-1/nothing/ holds no files"):
        objects(clients, "nothing").sizes()


def test_whoever_may_not_read_is_told_the_role(clients: Clients) -> None:
    """A token that the cloud does not accept is refused with what reading needs."""
    environ = {
        **clients.environ,
        "GOOGLE_OAUTH_ACCESS_TOKEN": clients.environ["GOOGLE_OAUTH_ACCESS_TOKEN"] + "x",
        "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": "",
    }
    with pytest.raises(AccessError, match="gs://bucket-1") as refused:
        checkpoint_objects("bucket-1", "x", environ=environ).sizes()
    assert "Storage Object Viewer" in str(refused.value.hint)
