"""The weights manifest: what it may name, and that it reads back."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from tpuflex.boot.manifest import Manifest, WeightsFile, manifest

GOOD = {"path": "a/b.safetensors", "size": 3, "crc32c": "AAAAAA==", "sha256": "0" * 64}


def test_sums_and_sorts() -> None:
    """Files are listed by path, with their total."""
    files = tuple(WeightsFile.model_validate(GOOD | {"path": path}) for path in ("b", "a", "c"))
    made = manifest(files, model="m", revision="1")
    assert [file.path for file in made.files] == ["a", "b", "c"]
    assert made.total_bytes == 9


def test_reads_back_what_it_wrote() -> None:
    """The document round-trips, under the name `schema` that it has in the bucket."""
    made = manifest((WeightsFile.model_validate(GOOD),), model="m", revision="1")
    assert json.loads(made.to_json())["schema"] == 1
    assert Manifest.model_validate_json(made.to_json()) == made


@pytest.mark.parametrize(
    "change",
    [
        *({"path": path} for path in ("", "/a", "../a", "a/../b", "a//b", "./a", "a\nb", "a\0")),
        {"path": "MANIFEST.json"},
        {"size": -1},
        {"crc32c": "AAAA"},
        {"sha256": "0" * 63},
        {"sha256": "G" * 64},
    ],
)
def test_refuses_what_a_host_would_refuse(change: dict[str, object]) -> None:
    """A file that could land elsewhere, or could not be checked, gets into no manifest."""
    with pytest.raises(ValidationError):
        WeightsFile.model_validate(GOOD | change)


def test_other_schema_is_refused() -> None:
    """A later format is not read as this one."""
    document = {"schema": 2, "model": "m", "revision": "1", "created": "t"}
    with pytest.raises(ValidationError):
        Manifest.model_validate(document | {"total_bytes": 0, "files": []})
