"""P2: what leaves the disk, and where it goes: typed commands on an embedded cloud."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.acceptance.security.shell import PROJECT, Shell
from tests.hub_models import safetensors
from tests.startup.cloud import manifest_of

PREFIX = "models/huggingfacetb-smollm2-135m-instruct/1"
FILES = {
    "config.json": b'{"architectures": ["LlamaForCausalLM"]}',
    "model.safetensors": safetensors(),
    "chat_template.jinja": b"{{ messages }}",
    "tokenizer.json": b"{}",
}


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A project with an embedded cloud that runs; each test has buckets of its own."""
    shell = Shell(tmp_path_factory.mktemp("push"), dict(os.environ))
    yield shell
    shell.close()


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint that may be pushed."""
    directory = tmp_path / "checkpoint"
    directory.mkdir()
    for name, content in FILES.items():
        (directory / name).write_bytes(content)
    return directory


@pytest.mark.engine
def test_nothing_leaves_for_a_squatted_bucket(shell: Shell, checkpoint: Path) -> None:
    """S6: the bucket's name is taken in another project: push, verify and `up` are refused, name
    the way out, and not one byte of the weights leaves."""
    bucket = shell.make_bucket("somebody-elses")
    before = len(shell.calls())

    for words in (["weights", "push", str(checkpoint)], ["weights", "verify"], ["up", "--yes"]):
        typed = shell.run(*words)
        assert typed.code == 1, typed.text
        assert f"gs://{bucket} exists already" in typed.text
        assert "tpuflex:model.weights.bucket_suffix: " in typed.text

    assert shell.objects(bucket) == []
    assert [call for call in shell.calls()[before:] if "/upload/" in call] == []
    assert not [call for call in shell.calls() if "queuedResources" in call and "POST" in call]


def test_the_way_out_of_a_squatted_name(shell: Shell, checkpoint: Path) -> None:
    """With a suffix the bucket has another name, into which the weights go."""
    before = shell.bucket
    shell.stack(bucket_suffix="0badcafe")
    bucket = shell.make_bucket(PROJECT)

    calls = len(shell.calls())
    typed = shell.run("weights", "push", str(checkpoint))

    assert bucket == f"{before}-0badcafe"
    assert typed.code == 0, typed.text
    assert [call for call in shell.calls()[calls:] if "/upload/" in call]
    assert f"{PREFIX}/model.safetensors" in shell.objects(bucket)


def test_a_manifest_of_somebody_else_is_seen(shell: Shell, checkpoint: Path) -> None:
    """S7: a template replaced together with the manifest is not what was pushed: verify says so,
    also where only the pin or the source can tell."""
    shell.stack(bucket_suffix="000001")
    bucket = shell.make_bucket(PROJECT)
    pushed = shell.run("weights", "push", str(checkpoint))
    (sha256,) = (
        line.rpartition(" ")[2]
        for line in pushed.text.splitlines()
        if line.startswith("manifest_sha256")
    )
    assert shell.run("weights", "verify").code == 0

    files = {**FILES, "chat_template.jinja": b"{{ 'obey me' }}"}
    document = manifest_of(files) | {"model": "HuggingFaceTB/SmolLM2-135M-Instruct"}
    shell.write(bucket, f"{PREFIX}/chat_template.jinja", files["chat_template.jinja"])
    for entry in document["files"]:
        name = quote(f"{PREFIX}/{entry['path']}", safe="")
        entry["crc32c"] = shell.storage("GET", f"/storage/v1/b/{bucket}/o/{name}").json()["crc32c"]
    shell.write(bucket, f"{PREFIX}/MANIFEST.json", json.dumps(document).encode())

    for settings, words in (
        ({}, []),
        ({"manifest_sha256": sha256}, []),
        ({}, [str(checkpoint)]),
        ({"source": str(checkpoint)}, []),
    ):
        shell.stack(bucket_suffix="000001", **settings)
        typed = shell.run("weights", "verify", *words)
        assert typed.code == 7, typed.text
        assert "the manifest is not" in typed.text


def test_links_out_of_a_checkpoint_stay_at_home(shell: Shell, checkpoint: Path) -> None:
    """S14: what a link, a pipe or a device in a checkpoint leads to is not sent: the push is
    refused, naming each that it would take."""
    shell.stack(bucket_suffix="000002")
    bucket = shell.make_bucket(PROJECT)
    secret = checkpoint.parent / "secret"
    secret.mkdir()
    (secret / "notes.json").write_text("canary-a7f3")
    (checkpoint / "notes.json").symlink_to(secret / "notes.json")
    (checkpoint / "etc.json").symlink_to("/etc/passwd")
    (checkpoint / "folder").symlink_to(secret)
    (checkpoint / "parent").symlink_to("..")
    (checkpoint / "loop.json").symlink_to("loop.json")
    (checkpoint / "chain.json").symlink_to("notes.json")
    (checkpoint / "gone.json").symlink_to("nowhere.json")
    (checkpoint / "zero.json").symlink_to("/dev/zero")
    os.mkfifo(checkpoint / "pipe.json")
    names = ["notes", "etc", "loop", "chain", "gone", "zero", "pipe"]

    typed = shell.run("weights", "push", str(checkpoint))

    assert typed.code == 7, typed.text
    for name in names:
        assert f"  {name}.json: " in typed.text
    assert shell.objects(bucket) == []


def test_only_data_is_pushed(shell: Shell, checkpoint: Path) -> None:
    """S7: code and pickles are left out, and named, unless the stack file allows them."""
    shell.stack(bucket_suffix="000003")
    bucket = shell.make_bucket(PROJECT)
    (checkpoint / "modeling_tiny.py").write_text("import os")
    (checkpoint / "LICENSE.py").write_text("import os")
    (checkpoint / "pytorch_model.bin").write_bytes(b"\x80\x04.")

    pushed = shell.run("weights", "push", str(checkpoint))

    assert pushed.code == 0, pushed.text
    assert "served: LICENSE.py, modeling_tiny.py, pytorch_model.bin" in pushed.text
    assert {*shell.objects(bucket)} == {f"{PREFIX}/{name}" for name in (*FILES, "MANIFEST.json")}

    shell.stack(bucket_suffix="000003", extra_files=["modeling_*.py"])
    allowed = shell.run("weights", "push", str(checkpoint))
    assert allowed.code == 0, allowed.text
    assert f"{PREFIX}/modeling_tiny.py" in shell.objects(bucket)

    shell.stack(bucket_suffix="000003")
    verified = shell.run("weights", "verify")
    assert verified.code == 7, verified.text
    assert "modeling_tiny.py: no data format" in verified.text
