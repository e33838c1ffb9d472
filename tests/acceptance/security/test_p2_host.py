"""P2: the host serves the weights that it was made for, or nothing."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from tests.startup.cloud import FILES, PREFIX, manifest_of
from tests.startup.conftest import host
from tests.startup.host import StartupHost
from tests.startup.test_failure import failed
from tpuflex.catalog.weight_formats import allowed_patterns
from tpuflex.startup.manifest import ManifestError, records

__all__ = ["host"]

MANIFEST = f"{PREFIX}/MANIFEST.json"


def pin(host: StartupHost) -> str:
    """Have the node made for the manifest that is in the bucket now; its hash."""
    found = hashlib.sha256(host.cloud.objects[MANIFEST]).hexdigest()
    config: dict[str, Any] = host.config()
    host.cloud.config = config | {"weights": config["weights"] | {"manifest_sha256": found}}
    return found


def test_another_manifest_is_refused_at_once(host: StartupHost) -> None:
    """S7: a manifest that was replaced together with the files is not served, though it agrees
    with them; the error says what to do, and comes before anything is fetched."""
    planned = pin(host)
    host.cloud.put_weights({**FILES, "config.json": b'{"architectures": ["Other"]}'})
    found = hashlib.sha256(host.cloud.objects[MANIFEST]).hexdigest()

    error = failed(host)

    assert error.startswith("weights-changed: ")
    assert planned in error
    assert found in error
    assert "tpuflex weights push --stack dev" in error
    assert "tpuflex up" in error
    assert host.cloud.asked("safetensors") == 0
    assert host.docker_calls("run") == []
    assert host.cloud.last("weights") == ""


def test_a_manifest_that_changes_later_is_refused_at_the_next_boot(host: StartupHost) -> None:
    """S7: what the host serves is what it reports; a change in the bucket ends the next boot, with
    the weights of the first still in memory."""
    planned = pin(host)
    run = host.run()
    assert run.status == 0, run.output
    assert host.cloud.last("weights") == planned

    host.cloud.put_weights({**FILES, "model-1.safetensors": b"other"})
    host.cloud.reports.clear()

    assert failed(host).startswith("weights-changed: ")
    assert host.cloud.last("weights") == ""


def refused(document: object) -> str:
    """Why the host takes no manifest like ``document``."""
    with pytest.raises(ManifestError) as caught:
        records(document, "bucket-1", PREFIX, list(allowed_patterns()))
    return str(caught.value)


@pytest.mark.parametrize(
    "name", ["modeling_tiny.py", "pytorch_model.bin", "nested/model.gguf", "run.sh", "a.PY"]
)
def test_only_data_is_served(name: str) -> None:
    """S7: a manifest that names code, pickles or unknown formats is refused as a whole."""
    assert name in refused(manifest_of({**FILES, name: b"import os"}))


def test_what_the_stack_file_allows_is_served(host: StartupHost) -> None:
    """With a pattern of `extra_files` the host takes such files."""
    config: dict[str, Any] = host.config()
    formats = [*config["weights"]["formats"], "modeling_*.py"]
    host.cloud.config = config | {"weights": config["weights"] | {"formats": formats}}
    files = {**FILES, "modeling_tiny.py": b"import os"}
    host.cloud.put_weights(files)

    run = host.run()

    assert run.status == 0, run.output
    assert host.weights() == files


@pytest.mark.parametrize(
    ("change", "said"),
    [
        *(({"size": size}, "size") for size in (2**63, 2**64 + 5, -1, 1e30, 5 * 2**40 + 1, True)),
        ({"size": "12"}, "not valid"),
        ({"sha256": "short"}, "not valid"),
        *(({"path": path}, "not below the weights") for path in ("../../x", "/etc/passwd", "a\nb")),
        ({"path": f"{'a' * 300}.json"}, "too long"),
        ({"path": f"{'é' * 45}.json"}, "too long"),
        ({"path": "model-1.safetensors"}, "twice"),
        ({"path": "\udcff.json"}, ""),
    ],
)
def test_what_a_manifest_may_say_is_bounded(change: dict[str, Any], said: str) -> None:
    """S17: a size that overflows the shell's arithmetic, or a name that is no file's, is refused
    before anything is computed with it."""
    document = manifest_of(FILES)
    document["files"][0] |= change
    assert said in refused(document)


def test_the_number_of_files_is_bounded() -> None:
    """S17: a manifest cannot name more files than the host goes through."""
    entry = manifest_of(FILES)["files"][0]
    files = [{**entry, "path": f"{n}.json"} for n in range(10_001)]
    assert "more than 10000 files" in refused(manifest_of(FILES) | {"files": files})


def test_a_manifest_without_end_is_cut(host: StartupHost) -> None:
    """S17: no more is stored of a manifest than one may have, whatever the bucket sends."""
    pin(host)
    host.cloud.objects[MANIFEST] += b" " * (32 * 1024 * 1024)

    assert failed(host).startswith("weights-changed: ")
    (stored,) = host.root.rglob("manifest.json")
    assert stored.stat().st_size <= 8 * 1024 * 1024


def test_an_object_that_grew_is_cut_and_refused(host: StartupHost) -> None:
    """S17: an object that is longer than the manifest says is not stored to its end, and not
    served."""
    pin(host)
    host.cloud.objects[f"{PREFIX}/model-1.safetensors"] += b" " * (32 * 1024 * 1024)

    assert failed(host).startswith("weights-checksum: model-1.safetensors")
    sizes = [path.stat().st_size for path in host.memory().rglob("*") if path.is_file()]
    assert max(sizes) < 1024 * 1024
