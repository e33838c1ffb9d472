"""The document in the node's metadata that tells the startup script what to serve.

It is data: the script reads it key by key and never runs any of it. Anyone who may read the
node may read it, so it names secrets and contains none.
"""

from __future__ import annotations

import json
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from tpuflex.boot.manifest import SHA256_PATTERN
from tpuflex.naming import SecretRole
from tpuflex.settings.serving import CompileCache, Isolation

#: The hash of no manifest, which every host refuses: for a configuration that no host boots with.
NO_MANIFEST = "0" * 64


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class EndpointIdentity(_Frozen):
    """Which endpoint the host belongs to."""

    project: str
    """Pulumi project name."""
    stack: str
    """Pulumi stack name."""
    name: str
    """Logical name of the endpoint."""


class ContainerConfig(_Frozen):
    """The serving container."""

    name: str
    """Its fixed name on the host."""
    image: str
    """Image reference with digest."""
    shm_size: str
    """Shared memory, as docker writes it."""
    isolation: Isolation
    """Whether it runs without the host's rights and network."""
    egress: Literal["none", "internet"]
    """What an isolated one may connect to: nothing, or public addresses."""
    env: dict[str, str]
    """Its environment, none of it secret."""


class ServingConfig(_Frozen):
    """The server in the container."""

    model_name: str
    """Name under which the model is served."""
    port: int
    """Port on the host's internal address."""
    security_floor: str = Field(pattern=r"^\d{1,6}(\.\d{1,6}){0,3}$")
    """The oldest vLLM that may serve; the host asks the server before READY. 0 lets every one."""
    chat_template: str = ""
    """Path of the chat template within the weights; empty for the one that comes with the
    tokenizer."""
    warmup_s: int = Field(ge=0)
    """Seconds that a warm-up may last, 0 for none."""
    max_num_batched_tokens: int = Field(ge=1)
    """Tokens that the server takes in one step, as far as a warm-up asks for them."""
    max_num_seqs: int = Field(ge=1)
    """Sequences that it takes in one step, as far as a warm-up asks for them."""
    args: tuple[str, ...]
    """Arguments beside model, name, host, port and chat template."""


class WeightsConfig(_Frozen):
    """Where the weights are."""

    bucket: str
    """Bucket name; of several, that in the stack's home."""
    buckets: dict[str, str] | None = None
    """Where the host may be in one of several regions: the bucket of each, by region. Absent
    otherwise."""
    prefix: str
    """Prefix of all objects, without a trailing slash."""
    manifest: str
    """Name of the manifest below the prefix."""
    manifest_sha256: str = Field(pattern=SHA256_PATTERN)
    """SHA-256 of the one manifest that the host accepts."""
    formats: tuple[str, ...]
    """Shell patterns of the files that a manifest may name."""
    parallelism: int
    """Parts of files downloaded at a time."""
    expected_gbps: int = Field(ge=0)
    """Gbit/s below which the host says that the download was slow; 0 where nothing is expected of
    its network."""


class CompileCacheConfig(_Frozen):
    """Where compiled programs are kept."""

    mode: CompileCache
    """How long: see :class:`tpuflex.settings.serving.ServingSettings`."""
    bucket: str | None = None
    """Bucket of their archives, where it is not that of the weights; absent otherwise."""
    prefix: str
    """Prefix of their objects in that bucket, without a trailing slash."""
    key: str | None = None
    """Resource name of the version of the secret that signs them,
    ``projects/P/secrets/S/versions/N``; the library's has ``latest``. Absent where none are
    kept."""


class SecretConfig(_Frozen):
    """One secret that the host fetches."""

    role: SecretRole
    """What it is for, and the name of its file."""
    version: str = Field(pattern=r"^projects/[^/]+/secrets/[^/]+/versions/\d+$")
    """Resource name of its pinned version."""


class BootTimeouts(_Frozen):
    """How long the phases may take, in seconds."""

    ready_s: int
    """Waiting for weights, and again for the server."""
    secret_s: int
    """Asking for one secret."""


class DrainConfig(_Frozen):
    """When the host stops admitting requests, in seconds (docs/serving.md)."""

    run_s: int = Field(ge=0)
    """How long Google lets the slice run; 0 where that is not known."""
    drain_s: int = Field(ge=0)
    """How long requests in flight are waited for, where the deletion of the slice does not say."""
    margin_s: int = Field(ge=0)
    """How long before the end of its run a host drains by itself."""


class MonitoringConfig(_Frozen):
    """What the host writes to Cloud Monitoring (docs/how-to/watch.md)."""

    every_s: int = Field(ge=0)
    """Seconds between two points of its series; 0 where it writes none."""


class BootCommands(_Frozen):
    """Commands for the user when the host waits for something."""

    weights: str
    """Pushes the weights to the bucket."""
    secrets: str
    """Adds the secrets to Secret Manager."""


class BootConfig(_Frozen):
    """Everything that varies between stacks."""

    version: Literal[1] = Field(default=1, alias="schema")
    """Version of this format, ``schema`` in the document."""
    endpoint: EndpointIdentity
    container: ContainerConfig
    serving: ServingConfig
    weights: WeightsConfig
    compile_cache: CompileCacheConfig
    secrets: tuple[SecretConfig, ...]
    timeouts: BootTimeouts
    drain: DrainConfig
    monitoring: MonitoringConfig
    commands: BootCommands

    def to_json(self) -> str:
        """The document with sorted keys and no whitespace: equal settings give equal text."""
        document = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return json.dumps(document, sort_keys=True, separators=(",", ":"))
