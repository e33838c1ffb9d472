"""`weights hash` of a model in a bucket: what is printed, and exit codes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_hub_source import write_source
from tests.cli.typing import TypeIn
from tests.full_disk import full_from
from tests.hub_models import safetensors
from tpuflex.gcp.storage_client import storage_bucket

PLACE = "gs://acme-models/team/tiny"
GOLDENS = Path(__file__).parents[1] / "goldens" / "stacks"
#: Source, exit code, and all that is printed for people.
REFUSALS = (
    (
        "gs://acme-models/team/nothing",
        4,
        "Error: gs://acme-models/team/nothing/ holds no files\n"
        "Name the prefix below which config.json lies: gs://BUCKET/PREFIX.\n",
    ),
    (
        "gs://nobodys-models/tiny",
        4,
        "Error: gs://nobodys-models does not exist\n"
        "Name a bucket that exists: gs://BUCKET/PREFIX.\n",
    ),
    (
        f"{PLACE}/pickles",
        7,
        f"Error: {PLACE}/pickles holds no config.json, which vLLM on TPU loads\n"
        "Name the prefix below which config.json and the *.safetensors files lie:"
        " gs://BUCKET/PREFIX.\n",
    ),
    (
        "gs://UPPER",
        5,
        "Error: Pulumi.dev.yaml has 1 problem:\n"
        "  tpuflex:model.weights.source: 'gs://UPPER' does not name a place in Cloud Storage"
        " (line 21). Write gs://BUCKET/PREFIX.\n",
    ),
)


@pytest.fixture(autouse=True)
def _bucket(type_in: TypeIn) -> Iterator[None]:
    """A bucket of the running embedded cloud with a model."""
    assert type_in("emulator", "start", "--port", "0").code == 0
    try:
        found = {str(k): str(v) for k, v in type_in("emulator", "env", "--json").document.items()}
        bucket = storage_bucket("acme-models", project="acme", environ=found)
        bucket.create(location="us-east5")
        files = {
            "config.json": b"{}",
            "model.safetensors": safetensors(),
            "tokenizer.json": b"{}",
            "pytorch_model.bin": b"a pickle",
            "pickles/pytorch_model.bin": b"a pickle",
        }
        for name, content in files.items():
            bucket.blob(f"team/tiny/{name}").upload_from_string(content)
        yield
    finally:
        type_in("emulator", "stop")


def test_a_model_in_a_bucket(type_in: TypeIn, project: Path) -> None:
    """A model in a bucket is fetched once; what is none is refused with text, hint and the code of
    its kind, before anything is fetched."""
    for source, code, printed in REFUSALS:
        write_source(project, source)
        typed = type_in("weights", "hash", "-s", "dev")
        assert (typed.code, typed.out, typed.err) == (code, "", printed)
    kept = json.loads((GOLDENS / "dev.boot.json").read_text())["weights"]
    own = f"gs://{kept['bucket']}/{kept['prefix']}"
    write_source(project, own)
    typed = type_in("weights", "hash", "-s", "dev")
    assert typed.code == 5
    assert f"weights.source: it is {own}, where the stack keeps its weights" in typed.err
    assert not (project / ".tpuflex" / "models").exists()

    write_source(project, PLACE)
    typed = type_in("weights", "hash", "-s", "dev")
    assert typed.code == 0
    assert re.fullmatch(
        rf"weights: 3 files, \d+ MB, of {PLACE}, two at a time through"
        rf" {project}/\.tpuflex/models/fetching-[0-9a-f]+; left out, as no data formats:"
        r" pytorch_model\.bin, pickles/",
        typed.err.splitlines()[0],
    )
    again = type_in("weights", "hash", "-s", "dev")
    assert (again.code, again.out, again.err) == (0, typed.out, "")


def test_a_disk_that_gets_full_is_told(type_in: TypeIn, project: Path) -> None:
    """The command ends with the code of its kind and says which file and what to do; the next one
    brings what is missing."""
    write_source(project, PLACE)
    with full_from(1_000_000):
        typed = type_in("weights", "hash", "-s", "dev")
    assert (typed.code, typed.out) == (7, "")
    assert re.search(
        r"Error: .*/model\.safetensors cannot be written: File too large\n"
        r"Make room, or set TPUFLEX_HOME to a directory on a larger disk\.\n$",
        typed.err,
    )

    again = type_in("weights", "hash", "-s", "dev")
    assert again.code == 0
    assert re.fullmatch(r"manifest_sha256: [0-9a-f]{64}\n", again.out)
