"""The dev stack whose weights a machine copies within the region, in the ways that leave traces in
different places."""

from __future__ import annotations

import base64
import json
import shutil
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from embedded_cloud.address import read_address
from reliability import processes
from reliability.situation_rig import Json, SituationRig
from tpuflex.boot.places import weights_buckets, weights_prefix
from tpuflex.copier.storage import CHUNK_BYTES
from tpuflex.naming import COPY_ROLE, ENDPOINT_NAME, Names
from tpuflex.settings.load import load_stack_file

PUSH = ("weights", "push", "--from-region", "--yes")
#: The program on the machine, found by its command line.
MACHINE = "machine"
_PROGRAM = "copier.pyz"
_MODEL = "acme/tiny"
_TOKEN = "hf_" + "t0ken" * 4
_SECRET = "projects/acme-vault/secrets/hub"


@dataclass(frozen=True, slots=True)
class Way:
    """A stack, and what is there before the command.

    Attributes:
        before: the commands that lead there.
        weights: of the stack file, beside the source.
        zones: of the slice.
        gated: whether the model needs the token in a secret that others look after.
    """

    before: tuple[tuple[str, ...], ...] = ()
    weights: Mapping[str, str] | None = None
    zones: tuple[str, ...] = ("us-east5-a",)
    gated: bool = False


#: Into the stack's own bucket, which it makes; and into what outlives the stack, as its roles do.
WAYS: Mapping[str, Way] = {
    "into the stack's own bucket": Way(),
    "into a library in two regions, with a token of yours": Way(
        (("library", "up", "--yes"),),
        {"bucket": "library"},
        ("us-east5-a", "europe-west4-a"),
        gated=True,
    ),
}


class RegionRig(SituationRig):
    """One command: :data:`PUSH`, in a way of :data:`WAYS`. TPU hosts run nothing, machines do."""

    def __enter__(self) -> Self:
        super().__enter__()
        self._written = self.stack_file.read_text()
        self._clean: dict[str, dict[str, list[str]]] = {}
        self._hub = self.home / ".tpuflex" / "emulator" / "hub" / _MODEL
        self._hub.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(self.home / "model", self._hub)
        # Sent in two calls, where the other file takes one.
        tensor = {"dtype": "U8", "shape": [CHUNK_BYTES], "data_offsets": [0, CHUNK_BYTES]}
        header = json.dumps({"w": tensor}).encode()
        content = struct.pack("<Q", len(header)) + header + bytes(CHUNK_BYTES)
        (self._hub / "model.safetensors").write_bytes(content)
        return self

    def begin(self, name: str) -> None:
        """Let the stack be as in the way ``name``, and nothing be there but what that says."""
        way = WAYS[name]
        self.stack_file.write_text(self._written)
        self.change(lambda config: _write(config, way))
        (self._hub / ".gated").unlink(missing_ok=True)
        self.stand(name, way.before)
        if way.gated:
            self._gate()
        settings = load_stack_file(self.stack_file, deploying=False).settings
        names = Names(self.project, self.stack, ENDPOINT_NAME)
        self.set = weights_prefix(settings.model)
        self.buckets = tuple(weights_buckets(settings, names).values())
        self._copy = names.compute(COPY_ROLE)

    def clean(self, name: str) -> dict[str, list[str]]:
        """The names of all that there is after a command in the way ``name`` that nothing kills."""
        if name not in self._clean:
            self.begin(name)
            assert self.run(*PUSH).exit_code == 0, self.said[-1].stderr
            self._clean[name] = self.names()
        return self._clean[name]

    def left(self) -> list[str]:
        """What is there of the machine and all that was made with it."""
        return [
            f"{kind} {name}"
            for kind, names in self.names().items()
            for name in names
            if self._copy in name and kind != "objects"
        ]

    def members(self) -> list[str]:
        """The machine's account in policies, once for each role, also where it was deleted."""
        query = "optionsRequestedPolicyVersion=3"
        paths = [f"storage/v1/b/{each}/iam?{query}" for each in self.buckets]
        paths.append(f"v1/{_SECRET}:getIamPolicy?options.requestedPolicyVersion=3")
        answers = [self.call("GET", path) for path in paths]
        bindings = [each for found in answers for each in found.json().get("bindings", [])]
        return [who for each in bindings for who in each["members"] if self._copy in who]

    def _gate(self) -> None:
        (self._hub / ".gated").write_text(_TOKEN)
        body: Json = {"replication": {"automatic": {}}}
        self.call("POST", "v1/projects/acme-vault/secrets?secretId=hub", body)
        payload = {"payload": {"data": base64.b64encode(_TOKEN.encode()).decode()}}
        answer = self.call("POST", f"v1/{_SECRET}:addVersion", payload)
        assert answer.ok, answer.text

    def _register(self, pid: int) -> None:
        """As usual; the program on the machine is a descendant of the embedded cloud."""
        address = read_address(self.home / ".tpuflex" / "emulator")
        assert address is not None
        mark = f"{processes.MARK}={self.mark}"
        roles = {"root": address.pid, "mark": mark, "cli": pid, MACHINE: _PROGRAM}
        self.control.call("POST", "faults", {"roles": roles})


def _write(config: Json, way: Way) -> None:
    config["tpuflex:model"]["weights"] = {"source": f"hf://{_MODEL}", **(way.weights or {})}
    config["tpuflex:serving"]["compile_cache"] = "host"
    config["tpuflex:slice"]["zones"] = list(way.zones)
    if way.gated:
        config["tpuflex:secrets"] = {"hf_token": f"{_SECRET}/versions/1"}
    if len(way.zones) > 1:
        ranges = {"subnetwork_cidrs": {"europe-west4": "10.128.16.0/20"}}
        config.setdefault("tpuflex:network", {}).update(ranges)
