"""The document in the node's metadata that tells the startup script what to serve.

It is data: the script reads it key by key and never runs any of it. Anyone who may read the
node may read it, so it names secrets and contains none.
"""

from __future__ import annotations

import json
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from tpuflex.boot.manifest import MANIFEST_NAME, SHA256_PATTERN
from tpuflex.catalog.vllm_version import SECURITY_FLOOR
from tpuflex.catalog.weight_formats import allowed_patterns
from tpuflex.naming import Names, SecretRole, library_names, programs_key, slug
from tpuflex.settings.model import ModelSettings, StackSettings
from tpuflex.settings.serving import WARMUP, CompileCache, Isolation, ServingFlags

CONTAINER_NAME = "vllm"
#: Parts of files downloaded at a time; a single stream does not fill a host's network.
PARALLELISM = 16
#: What a TPU host's network gives at least in Gbit/s, for a warning: a set of 62 GB is then there
#: within 20 s. Nobody has measured it for Flex-start (docs/proved.md).
EXPECTED_GBPS = 25
#: How long a host asks for a secret: a new permission takes minutes to take effect, and
#: somebody may still have to add the value.
SECRET_SECONDS = 1800

#: Begins the names of all objects that a host may write.
COMPILE_CACHE_PREFIX = "compile-cache"

#: Begins the names of all objects of images in a library.
IMAGES_PREFIX = "images/"

#: Environment of every serving container, unless the stack file overrides it.
DEFAULT_ENVIRONMENT: dict[str, str] = {
    "DO_NOT_TRACK": "1",
    "VLLM_NO_USAGE_STATS": "1",
    # vLLM's default of ten minutes is too short for compiling a large model for TPU.
    "VLLM_ENGINE_READY_TIMEOUT_S": "3600",
    # vLLM's security guide: no redirects of media URLs, a limit on answers per request.
    "VLLM_MEDIA_URL_ALLOW_REDIRECTS": "0",
    "VLLM_MAX_N_SEQUENCES": "128",
    # Weights come from the bucket alone, and the container has neither a token nor a way out.
    "HF_HUB_OFFLINE": "1",
}


#: Where no media may be fetched from: vLLM takes an empty list for permission to fetch from
#: everywhere, and this name is nobody's (https://www.rfc-editor.org/rfc/rfc6761#section-6.4).
NO_MEDIA_DOMAIN = ("none.invalid",)


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
    warmup_s: int | None = Field(default=None, ge=0)
    """Seconds that a warm-up may last, 0 for none; absent for the 45 that the script has by
    default."""
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


class ImageConfig(_Frozen):
    """Where the image is, if it is in the library: a set of files like the weights, its blobs."""

    bucket: str
    """Bucket name: that of the weights. Where the host may be in one of several regions, it takes
    the image from the bucket from which it takes these."""
    prefix: str
    """Prefix of all objects, without a trailing slash."""
    manifest: str
    """Name of the manifest below the prefix."""
    manifest_sha256: str = Field(pattern=SHA256_PATTERN)
    """SHA-256 of the one manifest that the host accepts."""


class CompileCacheConfig(_Frozen):
    """Where compiled programs are kept."""

    mode: CompileCache
    """How long: see :class:`tpuflex.settings.serving.ServingSettings`."""
    bucket: str | None = None
    """Bucket of their archives, where it is not that of the weights; absent otherwise."""
    prefix: str
    """Prefix of their objects in that bucket, without a trailing slash."""
    keys: dict[str, str] | None = None
    """Of programs in a library, by the region of the host: resource name of the secret that signs
    them, ``projects/P/secrets/S``, whose latest version counts. Absent where the endpoint's first
    API key does."""


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
    """When the host stops admitting requests, in seconds (docs/drain.md)."""

    run_s: int = Field(ge=0)
    """How long Google lets the slice run; 0 where that is not known."""
    drain_s: int = Field(ge=0)
    """How long requests in flight are waited for, where whoever deletes the slice does not say."""
    margin_s: int = Field(ge=0)
    """How long before the end of its run a host drains by itself."""


class BootCommands(_Frozen):
    """Commands for the user when the host waits for something."""

    weights: str
    """Pushes the weights to the bucket."""
    secrets: str
    """Adds the secrets to Secret Manager."""
    image: str | None = None
    """Pushes the image to the library, where it comes from there; absent otherwise."""


class BootConfig(_Frozen):
    """Everything that varies between stacks."""

    version: Literal[1] = Field(default=1, alias="schema")
    """Version of this format, ``schema`` in the document."""
    endpoint: EndpointIdentity
    container: ContainerConfig
    serving: ServingConfig
    weights: WeightsConfig
    image: ImageConfig | None = None
    """Absent where the image is pulled from its registry."""
    compile_cache: CompileCacheConfig
    secrets: tuple[SecretConfig, ...]
    timeouts: BootTimeouts
    drain: DrainConfig
    commands: BootCommands

    def to_json(self) -> str:
        """The document with sorted keys and no whitespace: equal settings give equal text."""
        document = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return json.dumps(document, sort_keys=True, separators=(",", ":"))


def weights_prefix(model: ModelSettings) -> str:
    """Prefix of the weights of ``model`` within their bucket, without a trailing slash."""
    brought = model.weights.brought
    below = f"{brought.prefix}/" if brought is not None and brought.prefix else ""
    return f"{below}models/{slug(model.name)}/{model.weights.revision}"


def programs_prefix(settings: StackSettings, names: Names) -> str:
    """Prefix of the programs that the hosts of a stack compile, within their bucket, without a
    trailing slash: in a library every endpoint has a place of its own, by its owner marker, because
    names that are slugs may meet.

    Args:
        settings: the stack.
        names: its physical names.
    """
    own = f"/{names.prefix}-{names.owner}" if settings.programs_in_library else ""
    return COMPILE_CACHE_PREFIX + own


def image_prefix(image: str) -> str:
    """Prefix of an image in a library, without a trailing slash.

    Args:
        image: the image, pinned by its digest. Under every name of it that is the same place.
    """
    return f"{IMAGES_PREFIX}{image.partition('@')[2].replace(':', '/')}"


def weights_bucket(settings: StackSettings, names: Names) -> str:
    """Name of the bucket that holds the weights of a stack: the stack's, the library's in its home,
    or one that was there before both.

    Args:
        settings: the stack.
        names: its physical names.
    """
    return weights_buckets(settings, names)[settings.region]


def weights_buckets(settings: StackSettings, names: Names) -> dict[str, str]:
    """Names of the buckets that the hosts of a stack read their weights from, by the region of
    their zone.

    Args:
        settings: the stack.
        names: its physical names.
    """
    project, regions = settings.project, settings.slice.regions
    if (brought := settings.model.weights.brought) is not None:
        return dict.fromkeys(regions, brought.name)
    holder = library_names(project) if settings.model.weights.bucket == "library" else names
    return {region: holder.bucket(project, region) for region in regions}


#: The hash of no manifest, which every host refuses: for a configuration that no host boots with.
NO_MANIFEST = "0" * 64


def boot_config(settings: StackSettings, names: Names, manifest_sha256: str) -> BootConfig:
    """The boot configuration of a stack's hosts.

    Args:
        settings: what to deploy.
        names: physical names.
        manifest_sha256: SHA-256 of the manifest of the weights that are to be served.
    """
    row = settings.catalog.accelerator(settings.slice.accelerator_type)
    serving = settings.serving
    image = settings.catalog.image(serving.image.partition("@")[2])
    floor = image.security_floor if image is not None else None
    bucket = weights_bucket(settings, names)
    buckets = weights_buckets(settings, names)
    return BootConfig(
        endpoint=EndpointIdentity(project=names.project, stack=names.stack, name=names.name),
        container=ContainerConfig(
            name=CONTAINER_NAME,
            image=serving.image,
            shm_size=serving.shm_size,
            isolation=serving.isolation,
            egress="internet" if serving.media_domains else "none",
            env={**DEFAULT_ENVIRONMENT, **serving.env},
        ),
        serving=ServingConfig(
            model_name=settings.model.name,
            port=serving.port,
            security_floor=floor or SECURITY_FLOOR,
            chat_template=serving.flags.chat_template or "",
            # At its default it is not written: a document of before is the same to the byte.
            warmup_s=None if serving.warmup == WARMUP else int(serving.warmup.total_seconds()),
            args=(
                *serving_args(serving.flags, row.chips if row else 1),
                *serving.extra_args,
                *("--allowed-media-domains", *(serving.media_domains or NO_MEDIA_DOMAIN)),
            ),
        ),
        weights=WeightsConfig(
            bucket=bucket,
            buckets=buckets if len(buckets) > 1 else None,
            prefix=weights_prefix(settings.model),
            manifest=MANIFEST_NAME,
            manifest_sha256=manifest_sha256,
            formats=allowed_patterns(settings.model.weights.extra_files),
            parallelism=PARALLELISM,
            expected_gbps=EXPECTED_GBPS if settings.cloud == "google" else 0,
        ),
        image=_image_config(settings, bucket),
        compile_cache=_compile_cache_config(settings, names, bucket),
        secrets=tuple(
            SecretConfig(role=role, version=settings.secret_version(names, role))
            for role in settings.secrets.host_roles
        ),
        timeouts=BootTimeouts(
            ready_s=int(settings.slice.timeouts.ready.total_seconds()), secret_s=SECRET_SECONDS
        ),
        drain=DrainConfig(
            run_s=int(settings.slice.max_run_duration.total_seconds()),
            drain_s=int(settings.slice.drain.total_seconds()),
            margin_s=int(settings.slice.drain_margin.total_seconds()),
        ),
        commands=BootCommands(
            weights=f"tpuflex weights push --stack {names.stack}",
            secrets=f"tpuflex secrets ensure --stack {names.stack}",
            image=(
                f"tpuflex library image push --stack {names.stack}"
                if serving.image_source == "library"
                else None
            ),
        ),
    )


def _compile_cache_config(settings: StackSettings, names: Names, bucket: str) -> CompileCacheConfig:
    """Where compiled programs are kept: in the library that is ``bucket`` in the stack's home, or
    in the endpoint's own bucket. In one of the user's own nobody but the user lets anybody write,
    and who writes programs runs code on the chips (docs/adr/0023)."""
    mode, project = settings.serving.kept_programs, settings.project
    prefix = programs_prefix(settings, names)
    if settings.programs_in_library:
        keys = {region: programs_key(project, region) for region in settings.slice.regions}
        return CompileCacheConfig(mode=mode, prefix=prefix, keys=keys)
    own = names.bucket(project, settings.region)
    # Where that is the weights' bucket, too, it is not named twice: a document of before is the
    # same to the byte.
    apart = mode == "bucket" and own != bucket
    return CompileCacheConfig(mode=mode, bucket=own if apart else None, prefix=prefix)


def _image_config(settings: StackSettings, bucket: str) -> ImageConfig | None:
    """Where the image is in the library, whose ``bucket`` has the weights, too; None where it comes
    from its registry."""
    serving = settings.serving
    if serving.image_source != "library":
        return None
    return ImageConfig(
        bucket=bucket,
        prefix=image_prefix(serving.image),
        manifest=MANIFEST_NAME,
        # The rules of the settings want it.
        manifest_sha256=serving.image_manifest_sha256 or NO_MANIFEST,
    )


def serving_args(flags: ServingFlags, chips: int) -> tuple[str, ...]:
    """``flags`` as arguments of vLLM's server on ``chips`` chips, in the order of the fields.

    Names and meaning are vLLM 0.32.0's (`vllm serve --help=all`). Model, served name, host, port
    and chat template are added by the startup script, which alone knows where they are. A flag
    that is not set is not passed, so vLLM's default holds; only the tensor parallel size follows
    the chips, because vLLM's own default of 1 would leave all others idle.
    """
    values = flags.model_dump(exclude_none=True, exclude={"chat_template"})
    if flags.tensor_parallel_size is None and chips > 1:
        values = {"tensor_parallel_size": chips, **values}
    arguments: list[str] = []
    for field, value in values.items():
        name = field.replace("_", "-")
        if value is True:
            arguments.append(f"--{name}")
        elif value is False:
            arguments.append(f"--no-{name}")
        elif isinstance(value, dict):
            arguments += [f"--{name}", json.dumps(value, sort_keys=True, separators=(",", ":"))]
        else:
            arguments += [f"--{name}", str(value)]
    return tuple(arguments)
