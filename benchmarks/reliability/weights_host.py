"""A bucket with a model on an embedded cloud, and a host that brings it into memory.

The startup script's own functions fetch and check the weights, up to where a server would start
with them; only reports and the metadata server are left out.
"""

from __future__ import annotations

import dataclasses
import os
import random
import subprocess
import sys
from base64 import b64encode
from contextlib import ExitStack
from pathlib import Path

import google_crc32c
import requests

from embedded_cloud.server import EmbeddedCloud
from tpuflex.boot.config import boot_config
from tpuflex.boot.manifest import MANIFEST_NAME, manifest_sha256
from tpuflex.boot.manifest_document import FileEntry, FileSums, manifest_document
from tpuflex.boot.metadata import startup_script
from tpuflex.naming import Names
from tpuflex.settings.load import load_stack_file

#: Ends the script, so that it can be given something else to do.
_MAIN = 'main "$@"'
_STACK = Path(__file__).parents[2] / "stacks" / "Pulumi.dev.yaml"
_BUCKET, _PREFIX = "weights-of-figures", "models/tiny/1"
#: Bytes of a part, fewer than in a real manifest.
PART_BYTES = 16_384
_BOOT_S = 120

_DRIVER = """
phase() { :; }
report() { :; }
detail() { :; }
fail() { printf '%s: %s' "$1" "$2" >"$TPUFLEX_ROOT/refused"; exit 1; }
metadata() {
    [[ $1 == */ip ]] || return 1
    printf 127.0.0.1 >"$2"
}
metadata_config() { cp "$TPUFLEX_ROOT/config.json" "$STATE_DIR/config.json"; }
authorize() { printf 'Authorization: Bearer %s\\n' "$TOKEN" >"$AUTHORIZATION"; }
export -f authorize
trap 'on_error $? $LINENO' ERR
make_directories
read_config
fetch_weights
"""


def model() -> dict[str, bytes]:
    """The model: shards of the same size with several parts each, a smaller one, and one of a
    single part."""
    chance = random.Random(20261123)  # noqa: S311 - the same in every run
    sizes = [*[4 * PART_BYTES + 1000] * 10, 3 * PART_BYTES, 9_000]
    return {
        "config.json": b'{"architectures": ["LlamaForCausalLM"]}',
        **{f"shards/{n:02d}.safetensors": chance.randbytes(size) for n, size in enumerate(sizes)},
    }


@dataclasses.dataclass(frozen=True, slots=True)
class Boot:
    """How the weights came.

    Attributes:
        refused: code and text of the boot's error; empty if a server would have started.
        weights: the files that it would have read.
    """

    refused: str
    weights: dict[str, bytes]


class WeightsHost:
    """One host, and the bucket of its weights; a context manager.

    Args:
        directory: where both are.
    """

    def __init__(self, directory: Path) -> None:
        self.files = model()
        self._root = directory / "root"
        self._cloud = EmbeddedCloud(directory / "emulator")
        self._script = directory / "script"
        self._running = ExitStack()

    def __enter__(self) -> WeightsHost:
        self._running.enter_context(self._cloud)
        script = startup_script().rstrip()
        if not script.endswith(_MAIN):
            raise AssertionError(f"the startup script does not end with {_MAIN}")
        self._script.write_text(script.removesuffix(_MAIN) + _DRIVER)
        document = _manifest(self.files)
        config = boot_config(
            load_stack_file(_STACK).settings, Names("p", "dev", "e"), manifest_sha256(document)
        )
        weights = {"bucket": _BUCKET, "prefix": _PREFIX, "manifest": MANIFEST_NAME}
        config = config.model_copy(update={"weights": config.weights.model_copy(update=weights)})
        self._root.mkdir()
        (self._root / "config.json").write_text(config.to_json())
        self._call(
            "POST", "/storage/v1/b", params={"project": "my-project"}, json={"name": _BUCKET}
        )
        for path, content in {**self.files, MANIFEST_NAME: document}.items():
            self.put(path, content)
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    @property
    def memory(self) -> Path:
        """Where the host has its weights; made by its first boot."""
        (directory,) = (self._root / "run" / "tpuflex" / "memory" / "weights").iterdir()
        return directory

    def put(self, path: str, content: bytes) -> None:
        """Replace a file of the model in the bucket."""
        params = {"uploadType": "media", "name": f"{_PREFIX}/{path}"}
        self._call("POST", f"/upload/storage/v1/b/{_BUCKET}/o", params=params, data=content)

    def forget(self) -> None:
        """Empty the host's memory, as a reboot does."""
        run = self._root / "run"
        subprocess.run(["rm", "-rf", str(run)], check=True)

    def boot(self) -> Boot:
        """Bring the weights into memory."""
        refused = self._root / "refused"
        refused.unlink(missing_ok=True)
        done = subprocess.run(
            ["/bin/bash", str(self._script)],
            env={
                "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
                "LANG": "C.UTF-8",
                "TPUFLEX_ROOT": str(self._root),
                "STORAGE_EMULATOR_HOST": self._cloud.url,
                "TOKEN": self._cloud.cloud.access.host_token("n1"),
            },
            cwd=self._root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_BOOT_S,
            check=False,
        )
        said = refused.read_text() if refused.exists() else ""
        if done.returncode and not said:
            said = f"status {done.returncode}: {done.stderr.decode(errors='replace')[-300:]}"
        paths = [path for path in self.memory.rglob("*") if path.is_file()]
        found = {str(path.relative_to(self.memory)): path.read_bytes() for path in paths}
        return Boot(said, found)

    def _call(self, method: str, path: str, **arguments: object) -> None:
        headers = {"Authorization": f"Bearer {self._cloud.token}"}
        answer = requests.request(
            method,
            f"{self._cloud.url}{path}",
            headers=headers,
            timeout=60,
            **arguments,  # type: ignore[arg-type]
        )
        answer.raise_for_status()


def _manifest(files: dict[str, bytes]) -> bytes:
    entries = []
    for path, content in sorted(files.items()):
        sums = FileSums(PART_BYTES)
        sums.update(content)
        crc32c = b64encode(google_crc32c.value(content).to_bytes(4)).decode()
        entries.append(FileEntry(path, sums.size, crc32c, sums.sha256, sums.parts))
    return manifest_document(
        entries,
        model="tiny",
        revision="1",
        schema=2,
        total_bytes=sum(map(len, files.values())),
        part_bytes=PART_BYTES,
    ).encode()
