"""The weights manifest: what it may name, and that it reads back."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from tpuflex.boot.manifest import PART_BYTES, Manifest, WeightsFile, manifest, read_manifest
from tpuflex.startup.manifest import ManifestError, records

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
    assert json.loads(made.to_json())["schema"] == 2
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


def parts_of(size: int, count: int) -> Manifest:
    """A manifest of one file of this size with so many parts."""
    file = GOOD | {"size": size, "parts": tuple(f"{n:064x}" for n in range(count))}
    return manifest((WeightsFile.model_validate(file),), model="m", revision="1")


@pytest.mark.parametrize(
    ("size", "count"),
    [(0, 0), (PART_BYTES, 0), (PART_BYTES + 1, 2), (3 * PART_BYTES, 3), (3 * PART_BYTES + 1, 4)],
)
def test_a_file_has_the_sums_of_its_parts(size: int, count: int) -> None:
    """A file that is longer than a part has a sum for each of them, no more and no fewer; the
    command line and the host agree on it."""
    made = parts_of(size, count)
    assert read_manifest(made.to_json().encode()) == made
    (record,) = records(json.loads(made.to_json()), "b", "p", ["*.safetensors"])
    assert len(record["sums"]) == max(count, 1)
    for other in {1, count - 1, count + 1} - {count, 0, -1}:
        with pytest.raises(ValidationError):
            parts_of(size, other)


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 3},
        {"part_bytes": 0},
        {"part_bytes": 4095},
        {"part_bytes": 2**30 + 1},
        {"part_bytes": "4096"},
        {"part_bytes": True},
        {"part_bytes": -4096},
        {"part_bytes": None},
        {"parts": ["0" * 64]},
        {"parts": ["0" * 64] * 3},
        {"parts": ["0" * 64, "g" * 64]},
        {"parts": ["0" * 64, 7]},
        {"parts": "0" * 2},
        {"parts": None},
    ],
)
def test_parts_that_do_not_fit_are_refused_by_the_host(change: dict[str, object]) -> None:
    """A host fetches nothing by a manifest whose parts do not cover its files exactly."""
    document = json.loads(parts_of(PART_BYTES + 1, 2).to_json())
    target = document["files"][0] if "parts" in change else document
    target |= change
    with pytest.raises(ManifestError):
        records(document, "b", "p", ["*.safetensors"])
    assert read_manifest(json.dumps(document).encode()) is None


def test_the_number_of_parts_is_bounded() -> None:
    """A manifest cannot name more parts than a host goes through."""
    with pytest.raises(ValidationError, match="50000 parts"):
        parts_of(50_001 * PART_BYTES, 50_001)


def test_other_parts_are_another_set() -> None:
    """A manifest that differs in the sums of its parts alone is not the same."""
    made = parts_of(PART_BYTES + 1, 2)
    (file,) = made.files
    forged = file.model_copy(update={"parts": tuple(reversed(file.parts))})
    assert not made.same_as(made.model_copy(update={"files": (forged,)}))


def test_other_schema_is_refused() -> None:
    """A later format is not read as this one."""
    document = {"schema": 3, "model": "m", "revision": "1", "created": "t"}
    with pytest.raises(ValidationError):
        Manifest.model_validate(document | {"total_bytes": 0, "files": []})
