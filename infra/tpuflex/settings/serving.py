"""vLLM's settings, under vLLM's own names (`vllm serve --help=all`, 0.32.0)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tpuflex.settings.base import Frozen

#: A container image pinned by digest: a tag can be moved under a running stack.
ImageDigest = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._/:-]*@sha256:[0-9a-f]{64}$")]
EnvironmentName = Annotated[str, Field(pattern=r"^[A-Z_][A-Z0-9_]*$")]
#: Whether the serving container runs without the rights and the network of its host.
Isolation = Literal["required", "preferred", "none"]
JsonObject = dict[str, str | int | float | bool]


class ServingFlags(Frozen):
    """Flags of `vllm serve` under their own names; a flag that is absent keeps vLLM's default."""

    tensor_parallel_size: int | None = Field(default=None, ge=1)
    """Chips that share each layer; by default all chips of the slice."""
    dtype: Literal["auto", "bfloat16", "float16", "float32"] | None = None
    kv_cache_dtype: Literal["auto", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"] | None = None
    gpu_memory_utilization: float | None = Field(default=None, gt=0, le=1)
    block_size: int | None = Field(default=None, ge=1)
    max_model_len: int | None = Field(default=None, ge=1)
    max_num_seqs: int | None = Field(default=None, ge=1)
    max_num_batched_tokens: int | None = Field(default=None, ge=1)
    speculative_config: JsonObject | None = None
    additional_config: dict[str, object] | None = None
    limit_mm_per_prompt: dict[str, int] | None = None
    enable_prefix_caching: bool | None = None
    async_scheduling: bool | None = None
    disable_chunked_mm_input: bool | None = None
    language_model_only: bool | None = None
    enforce_eager: bool | None = None
    trust_remote_code: bool | None = None
    safetensors_load_strategy: Literal["lazy", "eager", "prefetch", "torchao"] | None = None
    load_format: str | None = None
    enable_auto_tool_choice: bool | None = None
    tool_call_parser: str | None = None
    reasoning_parser: str | None = None
    shutdown_timeout: int | None = Field(default=None, ge=0)
    """Seconds that running requests get on SIGTERM before they are aborted."""


class ServingSettings(Frozen):
    """The container that serves the model."""

    image: ImageDigest
    """Serving image, pinned by digest."""
    flags: ServingFlags = ServingFlags()
    env: dict[EnvironmentName, str] = {}
    """Environment of the container. Never a secret: it is readable in the node's metadata."""
    port: int = Field(default=8000, ge=1024, le=65535)
    """Port on which the endpoint listens."""
    shm_size: str = Field(default="16g", pattern=r"^\d+[mg]$")
    """Shared memory of the container."""
    isolation: Isolation = "preferred"
    """What the container gets of its host: `required`, only the TPU devices and the port of the
    endpoint; `preferred`, the same, but a server that cannot start so is started again with all
    rights on the host, which `status` then shows; `none`, all rights from the start."""
