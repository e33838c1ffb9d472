"""vLLM's settings, under vLLM's own names (`vllm serve --help=all`, 0.32.0), and which registry its
image is in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, NonNegativeInt

from tpuflex.catalog.flags import written_flags
from tpuflex.duration import Duration, format_duration
from tpuflex.planning.hub_config import rope_parts
from tpuflex.settings.base import Frozen, Remedy, refusal

JsonObject = dict[str, str | int | float | bool]
#: A name that becomes the value of a flag; it cannot be taken for another flag.
FlagName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
#: A file of the checkpoint: templates from anywhere else are not served.
ChatTemplate = Annotated[
    str,
    Field(
        max_length=200,
        pattern=r"^(?:[A-Za-z0-9][A-Za-z0-9._-]*/)*[A-Za-z0-9][A-Za-z0-9._-]*\.jinja$",
    ),
]
#: LOCATION-docker.pkg.dev/PROJECT/REPOSITORY/IMAGE
#: (https://cloud.google.com/artifact-registry/docs/docker/names), and gcr.io/PROJECT/IMAGE, which
#: Artifact Registry serves too
#: (https://cloud.google.com/artifact-registry/docs/transition/setup-gcr-repo).
_OF_A_PROJECT = re.compile(
    r"(?:[a-z0-9-]+-docker\.pkg\.dev|(?:(?:us|eu|asia)\.)?gcr\.io)/([^/@]+)/[^@]+(?:@.*)?"
)
#: Registries of Google's own, open to everybody, such as mirror.gcr.io
#: (https://cloud.google.com/artifact-registry/docs/pull-cached-dockerhub-images).
_OF_GOOGLE = re.compile(r"[a-z0-9-]+\.gcr\.io/.+")
#: Formats of `--load-format` that hold data only (`vllm/model_executor/model_loader` of 0.32.0,
#: 2026-11-22). `pt` and `npcache` unpickle, `tensorizer`, `ipc_cache` and `modelexpress` read from
#: elsewhere, and others come with plugins.
LoadFormat = Literal[
    "auto",
    "hf",
    "safetensors",
    "fastsafetensors",
    "instanttensor",
    "mistral",
    "dummy",
    "sharded_state",
    "runai_streamer",
    "runai_streamer_sharded",
]

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
#: Parts of a model's configuration that name code, or what typed settings say.
_NOT_OVERRIDDEN = frozenset(
    {"auto_map", "custom_pipelines", "quantization_config", "compression_config"}
)
_DEEPEST = 8
#: Names of the parameters of RoPE. `patch_rope_parameters` of vLLM 0.32.0 mends what config.json
#: says of them, and not what overrides it.
_ROPE = ("rope_parameters", "rope_scaling")
#: The defaults that a server can set (`ModelConfig.get_diff_sampling_param` of vLLM 0.32.0).
_SAMPLING = frozenset(
    {
        "repetition_penalty",
        "presence_penalty",
        "frequency_penalty",
        "temperature",
        "top_k",
        "top_p",
        "min_p",
        "max_new_tokens",
    }
)
#: What vLLM's chat template is itself, and how it is rendered.
_NOT_TEMPLATE_ARGUMENTS = frozenset({"chat_template", "tokenize"})


def check_overrides(overrides: dict[str, object]) -> dict[str, object]:
    """``overrides`` of a model's configuration if they are numbers, switches and plain words."""
    for path, value in _leaves(overrides, ""):
        names = path.split(".")
        if banned := _NOT_OVERRIDDEN.intersection(names):
            raise refusal(
                f"overrides {min(banned)}, which names code or how the weights are quantized",
                "Remove it.",
            )
        if not all(_WORD.fullmatch(name) for name in names) or len(names) > _DEEPEST:
            raise refusal(f"{path[:60]!r} is no key of a model's configuration", "Remove it.")
        if isinstance(value, str) and not _WORD.fullmatch(value):
            raise refusal(
                f"the value of {path} is no plain word",
                'Write a name such as {"architectures": ["Gemma4ForCausalLM"]}.',
            )
    for part in (overrides, overrides.get("text_config")):
        for name in _ROPE:
            rope = part.get(name) if isinstance(part, dict) else None
            parts = rope_parts(rope) if isinstance(rope, dict) else ()
            if any("rope_type" not in each for each in parts):
                raise refusal(
                    f"{name} names no rope_type, without which vLLM ends",
                    "Write it, such as rope_type: yarn; here `type` does not stand for it.",
                )
    return overrides


def check_template_arguments(arguments: JsonObject) -> JsonObject:
    """``arguments`` of the chat template unless they would replace it."""
    for name in sorted(_NOT_TEMPLATE_ARGUMENTS.intersection(arguments)):
        raise refusal(
            f"{name} is no argument of a chat template",
            "Remove it; write the template's file at tpuflex:serving.flags.chat_template.",
        )
    return arguments


def check_sampling(defaults: dict[str, float]) -> dict[str, float]:
    """``defaults`` of sampling if a server can set them all."""
    for name in sorted(set(defaults) - _SAMPLING):
        reason = " (vLLM on a TPU refuses a request with a seed)" if name == "seed" else ""
        raise refusal(
            f"{name[:40]!r} is no default that vLLM can set{reason}",
            f"Write {', '.join(sorted(_SAMPLING))}.",
        )
    return defaults


def _leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    """Every value that is neither an object nor a list, with its dotted path."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}" if path else str(name))
        if not value and path:
            yield path, None
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, path)
        if not value:
            yield path, None
    else:
        yield path, value


HfOverrides = Annotated[dict[str, object], AfterValidator(check_overrides)]
TemplateArguments = Annotated[JsonObject, AfterValidator(check_template_arguments)]
SamplingDefaults = Annotated[dict[str, float], AfterValidator(check_sampling)]


#: A container image pinned by digest: a tag can be moved under a running stack.
ImageDigest = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._/:-]*@sha256:[0-9a-f]{64}$")]
EnvironmentName = Annotated[str, Field(pattern=r"^[A-Z_][A-Z0-9_]*$")]
#: Whether the serving container runs without the rights and the network of its host.
Isolation = Literal["required", "preferred", "none"]
#: How long the programs are kept that were compiled for the chips.
CompileCache = Literal["bucket", "host", "none"]
#: Variables that name the directory in which they are kept, of vLLM, JAX and vllm-torchtpu.
COMPILE_CACHE_VARIABLES = (
    "VLLM_XLA_CACHE_PATH",
    "JAX_COMPILATION_CACHE_DIR",
    "TORCH_TPU_TIER3_COMPILATION_CACHE_ROOT",
)
#: Method of speculative decoding that loads a Python class.
CODE_METHOD = "custom_class"

_HOST_NAME = re.compile(
    r"(?=.{4,253}$)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])"
)
#: Names that mean something within a network only (RFC 6761, 6762 and 8375; ICANN's .internal).
_PRIVATE_NAMES = re.compile(
    r".*\.(internal|local|localhost|localdomain|arpa|lan|home|corp|intranet|private|test|invalid)"
)


def check_media_domain(name: str) -> str:
    """``name`` if it may be the host of a media URL: a public host name, as vLLM compares it."""
    if not _HOST_NAME.fullmatch(name):
        raise refusal(
            f"{name!r} is not a host name in lower-case letters",
            "Write a whole one, such as upload.wikimedia.org: no address, no port, no wildcard.",
        )
    if _PRIVATE_NAMES.fullmatch(name):
        raise refusal(
            f"{name} is a name of private networks, which a model's users must not reach",
            "Write a public host name, such as upload.wikimedia.org.",
        )
    return name


#: How long a host may ask its server before it is READY: by default, and at most.
WARMUP, LONGEST_WARMUP = timedelta(seconds=45), timedelta(minutes=10)


def check_warmup(value: timedelta) -> timedelta:
    """``value`` if a warm-up may last that long."""
    if value > LONGEST_WARMUP:
        raise refusal(
            f"{format_duration(value)} is longer than {format_duration(LONGEST_WARMUP)}",
            "Write a time such as 45s, or 0s for none.",
        )
    return value


Warmup = Annotated[Duration, AfterValidator(check_warmup)]

MediaDomain = Annotated[str, AfterValidator(check_media_domain)]


def is_import_path(value: object) -> bool:
    """Whether vLLM takes ``value``, a speculative model, for the name of a Python class."""
    if not isinstance(value, str) or "/" in value:
        return False
    parts = value.split(".")
    return len(parts) > 1 and all(part.isidentifier() for part in parts)


class ServingFlags(Frozen):
    """Flags of `vllm serve` under their own names, with underscores or with dashes; a flag that is
    absent keeps vLLM's default."""

    tensor_parallel_size: int | None = Field(default=None, ge=1)
    """Chips that share each layer; by default all chips of the slice."""
    dtype: Literal["auto", "bfloat16", "float16", "float32"] | None = None
    kv_cache_dtype: Literal["auto", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"] | None = None
    gpu_memory_utilization: float | None = Field(default=None, gt=0, le=1)
    block_size: int | None = Field(default=None, ge=1)
    quantization: FlagName | None = None
    """How the weights in the bucket are quantized; vLLM finds that out from most of them."""
    max_model_len: int | None = Field(default=None, ge=1)
    """Tokens of the longest sequence, such as 16384 or, as vLLM reads it, 16K; 16k is 16,000."""
    max_num_seqs: int | None = Field(default=None, ge=1)
    max_num_batched_tokens: int | None = Field(default=None, ge=1)
    max_logprobs: int | None = Field(default=None, ge=-1)
    """Log probabilities that a request may ask for per token; -1 is the whole vocabulary."""
    speculative_config: JsonObject | None = None
    additional_config: dict[str, object] | None = None
    hf_overrides: HfOverrides | None = None
    """What replaces parts of the model's config.json, such as architectures."""
    generation_config: Literal["auto", "vllm"] | None = None
    """Where sampling defaults come from: `auto`, the model's generation_config.json; `vllm`, none
    of the model's."""
    override_generation_config: SamplingDefaults | None = None
    """Sampling defaults that replace those, such as temperature."""
    limit_mm_per_prompt: dict[Literal["image", "video", "audio"], NonNegativeInt] | None = None
    """How many of each a request may hold."""
    enable_prefix_caching: bool | None = None
    enable_chunked_prefill: bool | None = None
    async_scheduling: bool | None = None
    disable_chunked_mm_input: bool | None = None
    language_model_only: bool | None = None
    enforce_eager: bool | None = None
    trust_remote_code: bool | None = None
    safetensors_load_strategy: Literal["lazy", "eager", "prefetch", "torchao"] | None = None
    load_format: LoadFormat | None = None
    chat_template: Annotated[
        ChatTemplate | None,
        Remedy("Write the path of a .jinja file among the weights, such as chat_template.jinja."),
    ] = None
    """Path of a Jinja chat template among the weights, such as chat_template.jinja; by default the
    one that comes with the tokenizer."""
    default_chat_template_kwargs: TemplateArguments | None = None
    """Arguments of the chat template for requests that give none, such as enable_thinking."""
    enable_auto_tool_choice: bool | None = None
    tool_call_parser: FlagName | None = None
    """One of vLLM's own, such as gemma4."""
    reasoning_parser: FlagName | None = None
    """One of vLLM's own, such as gemma4."""
    shutdown_timeout: int | None = Field(default=None, ge=0)
    """Seconds that running requests get on SIGTERM before they are aborted."""


FLAGS_KEY = "tpuflex:serving.flags"


def flag_name(written: str) -> str:
    """The name of the setting that ``written`` is, with dashes as vLLM's command line has it or
    with underscores; ``written`` itself where it is none."""
    name = written.replace("-", "_")
    return name if name in ServingFlags.model_fields else written


class ServingSettings(Frozen):
    """The container that serves the model."""

    image: Annotated[
        ImageDigest,
        Remedy(
            "Write NAME@sha256:DIGEST with all 64 digits; a tag can be moved under a running stack"
            " (`docker buildx imagetools inspect NAME:TAG` shows the digest)."
        ),
    ]
    """Serving image, pinned by digest."""
    flags: ServingFlags = ServingFlags()
    extra_args: tuple[str, ...] = Field(default=(), max_length=64)
    """Further flags of vLLM that have no setting of their own, each word a member of the list, such
    as [--max-num-queued-reqs, "64"]. What opens the server, loads code, reads from elsewhere or is
    unknown to vLLM is refused."""
    env: Annotated[
        dict[EnvironmentName, str],
        Remedy("Write upper-case names with letters, digits and underscores."),
    ] = {}
    """Environment of the container. Never a secret: it is readable in the node's metadata."""
    media_domains: tuple[MediaDomain, ...] = ()
    """Hosts whose images, audio and video a request may name by URL; the server fetches them. None
    by default: media then come within the request, as `data:` URLs. On Google it takes
    `egress: internet` in tpuflex:network; for hosts in googleapis.com `isolation: none` will do."""
    port: int = Field(default=8000, ge=1024, le=65535)
    """Port on which the endpoint listens."""
    shm_size: Annotated[str, Remedy("Write a size such as 16g or 512m.")] = Field(
        default="16g", pattern=r"^\d+[mg]$"
    )
    """Shared memory of the container."""
    isolation: Isolation = "preferred"
    """What the container gets of its host: `required`, only the TPU devices and the port of the
    endpoint; `preferred`, the same, but all rights where the host has no device to give or cannot
    close the container's network, which `status` then shows; `none`, all rights from the start."""
    compile_cache: CompileCache | None = None
    """How long the programs are kept that were compiled for the chips, which takes 20 minutes for a
    large model: `bucket`, in the endpoint's bucket for 90 days or until `down`, so that the next
    host starts with them; with `weights.bucket: library` in the library for 90 days, so that also
    the next `up` does; `host`, on the host's disk, over reboots; `none`, as long as the container.
    By default `bucket`, or `none` if env names a directory of your own (VLLM_XLA_CACHE_PATH or
    JAX_COMPILATION_CACHE_DIR)."""

    warmup: Warmup = WARMUP
    """How long the host may ask its server for completions of the lengths and batches that it will
    serve before it is READY, so that the first user waits no longer than the tenth; at most 10m,
    and 0s for none."""

    @property
    def given_flags(self) -> Mapping[str, object]:
        """Every flag that the server is given, of :attr:`flags` and :attr:`extra_args` alike, by
        its name with underscores. They are read here only: rules, memory plan and boot document
        take from this what they need."""
        return {**self.flags.model_dump(exclude_none=True), **written_flags(self.extra_args)}

    @property
    def kept_programs(self) -> CompileCache:
        """How long compiled programs are kept: :attr:`compile_cache`, unless the stack file names a
        directory of its own for them."""
        own = any(name in self.env for name in COMPILE_CACHE_VARIABLES)
        return self.compile_cache or ("none" if own else "bucket")


def in_google_registry(image: str) -> bool:
    """Whether hosts that reach nothing but Google can pull ``image``."""
    return bool(_OF_A_PROJECT.fullmatch(image) or _OF_GOOGLE.fullmatch(image))


def registry_project(image: str) -> str | None:
    """The Google Cloud project whose registry has ``image``; None if no project's has it."""
    match = _OF_A_PROJECT.fullmatch(image)
    return match[1] if match else None


def on_docker_hub(repository: str) -> str | None:
    """The name on Docker Hub of ``repository``; None if another registry has it."""
    host, slash, rest = repository.partition("/")
    if host in ("docker.io", "index.docker.io"):
        return rest
    if slash and ("." in host or ":" in host or host == "localhost"):
        return None
    return repository if slash else f"library/{repository}"
