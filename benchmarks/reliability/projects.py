"""The projects that the rigs work on."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import yaml

from embedded_cloud.machines.images import read_lock
from tpuflex.host.report import CONFIG_KEY

Json = dict[str, Any]

#: Grants and deletes at once: only what happens matters here, not how long it takes.
SWIFT: Json = {
    "admission_s": 0.0,
    "grant_after_s": 0.2,
    "provisioning_s": 0.1,
    "suspending_s": 0.1,
    "deleting_s": 0.1,
}
#: What a slice boots with: our script reports (:mod:`reliability.serving_hosts`) where it has a
#: configuration.
METADATA = {"startup-script": "exit 0", CONFIG_KEY: "{}"}


def write_stack(home: Path, root: Path) -> None:
    """Write this checkout's project with the dev stack, its weights replaced by a few bytes.

    The serving image counts as installed, because the rig's hosts run nothing.
    """
    write_manifest(home, root)
    stacks = home / "stacks"
    stacks.mkdir()
    document = yaml.safe_load((root / "stacks" / "Pulumi.dev.yaml").read_text())
    document["config"]["tpuflex:model"]["weights"] = {"source": "model"}
    (stacks / "Pulumi.dev.yaml").write_text(yaml.safe_dump(document))
    _write_checkpoint(home / "model")
    state = home / ".tpuflex"
    image = state / "vllm" / read_lock().digest[:12]
    image.mkdir(parents=True)
    (image / "complete").write_text("stands for an installed image; nothing is run from it\n")
    (state / "engine").symlink_to(root / ".tpuflex" / "engine")


def write_manifest(home: Path, root: Path) -> None:
    """Write the project's own file."""
    home.mkdir(parents=True, exist_ok=True)
    manifest = {
        "name": "tpuflex",
        "runtime": {"name": "python"},
        "stackConfigDir": "stacks",
        "plugins": {
            "providers": [{"name": "tpuflex", "path": str(root / "infra" / "plugin")}],
        },
    }
    (home / "Pulumi.yaml").write_text(yaml.safe_dump(manifest))


def _write_checkpoint(directory: Path) -> None:
    """Write a minimal checkpoint: a config, a tokenizer and one tensor with one number."""
    directory.mkdir()
    (directory / "tokenizer.json").write_text("{}")
    (directory / "config.json").write_text(json.dumps({"architectures": ["None"]}))
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    data = struct.pack("<Q", len(header)) + header + struct.pack("<f", 1.0)
    (directory / "model.safetensors").write_bytes(data)


def slice_arguments() -> Json:
    """A queued resource's arguments, as the engine passes them to the provider."""
    return {
        "project": "cloud-project",
        "zones": ["us-east5-a"],
        "acceleratorType": "v6e-4",
        "runtimeVersion": "v2-alpha-tpuv6e",
        "serviceAccount": "slice-host@cloud-project.iam.gserviceaccount.com",
        "maxRunDuration": "14400s",
        "labels": {"team": "search"},
        "metadata": dict(METADATA),
    }
