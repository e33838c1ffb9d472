"""What the planner is asked about: a load, and a server by its model, its chips and the flags of
vLLM that decide memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from tpuflex.catalog.rows import Accelerator, Implementation, Model

#: Data types of the cache as the TPU back-end allocates it; `auto` is bfloat16, and all of vLLM's
#: fp8 names are 8-bit.
CacheType: TypeAlias = Literal["bfloat16", "fp8"]

#: vLLM's own defaults (`vllm/config/cache.py`, `EngineArgs.get_batch_defaults` of
#: `vllm/engine/arg_utils.py`, 0.32.0) of an API server, where the device gives no larger ones.
DEFAULT_UTILIZATION = 0.92
DEFAULT_MAX_NUM_SEQS = 256
CPU_MAX_NUM_SEQS = 128
DEFAULT_MAX_NUM_BATCHED_TOKENS = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the server has to do.

    Attributes:
        context: tokens of the longest sequence; the prompt is taken to be as long.
        concurrency: sequences at once.
    """

    context: int
    concurrency: int


@dataclass(frozen=True, slots=True)
class NotPlannable:
    """Why no memory plan can be made: something that the planner has no source for.

    Attributes:
        reason: a sentence without a full stop, such as "google/x is not in the catalog".
    """

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRequest:
    """One server on the chips of one host, by the flags that decide its memory.

    Attributes:
        model: shape of the model.
        accelerator: chips; one host, with a known ``hbm_bytes_per_chip``
            (:func:`tpuflex.planning.memory.not_covered` says why not).
        tensor_parallel_size: chips, or other devices of JAX, that share each layer.
        max_model_len: longest sequence, in tokens.
        kv_cache_dtype: data type of the cache.
        gpu_memory_utilization: share of the chip's memory for weights and cache together.
        max_num_seqs: most sequences in one step.
        max_num_batched_tokens: most tokens in one step.
        block_size: tokens in one block of the cache; by default what vLLM chooses.
        blocks: blocks of the cache (`--num-gpu-blocks-override`); by default as many as fit.
        weight_bytes: bytes of weights per chip where they are known better than by the formulas,
            as measured.
        rope_context: the context that a scaling of RoPE in `hf_overrides` is made for, if there is
            one; vLLM takes none from it.
        implementation: implementation of the model, where it is not the one that the image chooses.
        text_only: whether the vision tower is left out, as with
            ``--hf-overrides '{"architectures":["Gemma4ForCausalLM"]}'``. A limit of 0 images does
            not do that.
        quantized_on_load: whether the weights are read in bfloat16 and quantised then (Qwix). The
            plan counts them in bfloat16: what they take afterwards is not published.
        speculative: whether speculative decoding without a draft model (`ngram`) is on.
        async_scheduling: whether vLLM schedules a step ahead; its default, except with `ngram`.
        precompile: whether all shapes are compiled before the first request.
        min_token_bucket: smallest bucket of tokens (`MIN_TOKEN_BUCKET`).
        bucket_padding_gap: step between large buckets (`VLLM_TPU_BUCKET_PADDING_GAP`); 0 doubles.
        compilation_sizes: further buckets of tokens (`compilation_sizes` of
            ``--additional-config``).
        attention_request_buckets: whether attention is compiled per bucket of requests
            (`ATTN_BUCKETIZED_NUM_REQS`).
    """

    model: Model
    accelerator: Accelerator
    tensor_parallel_size: int
    max_model_len: int
    kv_cache_dtype: CacheType = "bfloat16"
    gpu_memory_utilization: float = DEFAULT_UTILIZATION
    max_num_seqs: int = DEFAULT_MAX_NUM_SEQS
    max_num_batched_tokens: int = DEFAULT_MAX_NUM_BATCHED_TOKENS
    block_size: int | None = None
    blocks: int | None = None
    weight_bytes: int | None = None
    rope_context: int | None = None
    implementation: Implementation | None = None
    text_only: bool = False
    quantized_on_load: bool = False
    speculative: bool = False
    async_scheduling: bool = True
    precompile: bool = True
    min_token_bucket: int = 16
    bucket_padding_gap: int = 0
    compilation_sizes: tuple[int, ...] = ()
    attention_request_buckets: bool = False

    @property
    def weights_known(self) -> bool:
        """Whether the bytes of the weights are known better than by the formulas."""
        return self.weight_bytes is not None or self.model.stored is not None

    @property
    def path(self) -> Implementation:
        """The implementation that serves: the one asked for, else the image's choice."""
        return self.implementation or self.model.implementation

    @property
    def by_pytorch(self) -> bool:
        """Whether the image takes its PyTorch implementation at once, and not for want of a class
        of the JAX one."""
        chosen = self.implementation or ("torchax" if self.model.family == "qwen3_moe" else None)
        return chosen == "torchax"

    @property
    def hbm_bytes(self) -> int:
        """Memory of one chip, or other device of JAX, that the runtime reports as usable.

        Raises:
            ValueError: it is not known for the accelerator; such a request cannot be planned.
        """
        if self.accelerator.hbm_bytes_per_chip is None:
            raise ValueError(f"usable memory of {self.accelerator.name} is not known")
        return self.accelerator.hbm_bytes_per_chip // self.accelerator.devices_per_chip

    def to_json(self) -> dict[str, object]:
        """The request in a JSON document."""
        return {
            "model": self.model.name,
            "max_model_len": self.max_model_len,
            "max_num_seqs": self.max_num_seqs,
            "accelerator_type": self.accelerator.name,
            "chips": self.accelerator.chips,
            "implementation": self.path,
            "kv_cache_dtype": self.kv_cache_dtype,
            "gpu_memory_utilization": self.gpu_memory_utilization,
            "max_num_batched_tokens": self.max_num_batched_tokens,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuMemoryRequest:
    """One server on the CPU of the embedded cloud, in one process.

    Attributes:
        model: shape of the model.
        max_model_len: longest sequence, in tokens.
        kv_space_bytes: bytes of the cache (`VLLM_CPU_KVCACHE_SPACE`, in GiB there).
        parameter_bytes: bytes of a parameter: 2, or 4 in float32.
        cache_bytes: bytes of a value in the cache.
        block_size: tokens in one block of the cache.
        max_num_seqs: most sequences in one step.
        max_num_batched_tokens: most tokens in one step.
    """

    model: Model
    max_model_len: int
    kv_space_bytes: int
    parameter_bytes: int
    cache_bytes: int
    block_size: int
    max_num_seqs: int
    max_num_batched_tokens: int

    def to_json(self) -> dict[str, object]:
        """The request in a JSON document."""
        return {
            "model": self.model.name,
            "max_model_len": self.max_model_len,
            "max_num_seqs": self.max_num_seqs,
            "accelerator_type": None,
        }
