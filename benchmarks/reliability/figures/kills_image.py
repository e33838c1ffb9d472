"""Figure 14e: kill -9 at every call of `library image push`, for a stack in two regions."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Self

from reliability.figures.callers import callers
from reliability.figures.figure import Case, Figure, Json, Result
from reliability.figures.power_failures import kill, killed
from reliability.situation_rig import SituationRig
from tpuflex.boot.places import image_prefix, weights_buckets
from tpuflex.cli.library_image import PATTERNS
from tpuflex.naming import ENDPOINT_NAME, Names
from tpuflex.settings.load import load_stack_file

_ZONES = ["us-east5-a", "europe-west4-a"]
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


class ImageRig(SituationRig):
    """The dev stack in two regions, whose image is to come from its library. One command."""

    words = ("library", "image", "push", "--layout", "image", "--yes")

    def __enter__(self) -> Self:
        super().__enter__()
        digest = _write_layout(self.home / "image")
        self.change(lambda config: _write(config, f"acme/vllm@{digest}"))
        settings = load_stack_file(self.stack_file, deploying=False).settings
        names = Names(self.project, self.stack, ENDPOINT_NAME)
        self.buckets = tuple(weights_buckets(settings, names).values())
        self.set = image_prefix(settings.serving.image)
        return self


def cases(rig: ImageRig, _seed: int) -> list[Case]:
    """Stage x call of every API; nothing is there before it, not even the library."""
    rig.stand("nothing", ())
    calls = [call for call, _ in callers(rig, *rig.words)]
    return list(killed("library image push", {}, calls))


def judge(rig: ImageRig, case: Case) -> Result:
    """Kill all of it and type the same command again: no half image verifies meanwhile, and in the
    end the whole one is in both regions once, and nothing else is there."""
    rig.stand("nothing", ())
    result = kill(rig, case, rig.words, lambda: rig.damage(rig.buckets, PATTERNS))
    ended = rig.run(*rig.words)
    text = f"again it exits with {ended.exit_code}: {rig.said[-1].stderr}"
    result.wanted(ended.exit_code == 0, "manual", text)
    damage = rig.damage(rig.buckets, PATTERNS)
    result.wanted(not damage, "half", f"in the end: {damage}")
    for bucket in rig.buckets:
        whole = [one.prefix for one in rig.bucket(bucket).list() if one.manifest is not None]
        result.wanted(whole == [rig.set], "lost", f"sets in {bucket}: {whole}")
        versions = rig.objects(bucket, versions=True)
        result.wanted(len(versions) == 4, "duplicate", f"objects in {bucket}: {versions}")
    names = rig.names()
    names.pop("objects", None)
    keys = [len(names.pop(kind, [])) for kind in ("secrets", "versions")]
    result.wanted(keys == [2, 2], "duplicate", f"secrets, versions: {keys}")
    result.wanted(names == {"buckets": sorted(rig.buckets)}, "orphan", f"there are: {names}")
    return result


def _write(config: Json, image: str) -> None:
    config["tpuflex:model"]["weights"] = {"bucket": "library", "source": "model"}
    config["tpuflex:serving"].update(image=image, compile_cache="host")
    config["tpuflex:slice"]["zones"] = _ZONES
    ranges = {"subnetwork_cidrs": {"europe-west4": "10.128.16.0/20"}}
    config.setdefault("tpuflex:network", {}).update(ranges)


def _write_layout(directory: Path) -> str:
    """Write an image of one layer into ``directory``; gives its digest."""
    blobs = directory / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def put(content: bytes, kind: str) -> Json:
        sha256 = hashlib.sha256(content).hexdigest()
        (blobs / sha256).write_bytes(content)
        return {"mediaType": kind, "digest": f"sha256:{sha256}", "size": len(content)}

    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("usr/bin/vllm"))
    unpacked = f"sha256:{hashlib.sha256(layer.getvalue()).hexdigest()}"
    packed = gzip.compress(layer.getvalue(), mtime=0)
    rootfs = {"type": "layers", "diff_ids": [unpacked]}
    about = {"os": "linux", "architecture": "amd64", "rootfs": rootfs}
    kind = "application/vnd.oci.image"
    document = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": put(json.dumps(about).encode(), f"{kind}.config.v1+json"),
        "layers": [put(packed, f"{kind}.layer.v1.tar+gzip")],
    }
    return str(put(json.dumps(document).encode(), _MANIFEST)["digest"])


def rig(home: Path) -> ImageRig:
    """The rig of the cases, in a directory of its own."""
    return ImageRig(home / "project", speed=10.0)


FIGURE = Figure(
    key="14e",
    counted=("half", "lost", "duplicate", "orphan", "manual"),
    title="kill -9 at every API call of `library image push`, which makes the library, pushes the"
    " image to its home and copies it to another region; the same command again",
    rig=rig,
    cases=cases,
    judge=judge,
    share=10,
    spare=30,
)
