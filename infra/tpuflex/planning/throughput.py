"""What chips can compute at most: ceilings that no server passes, and claims held against them.

Three bounds, all from peak figures of the accelerator and the shape of the model. They leave out
attention, collectives and sampling, so a server reaches less; none of them is a prediction.

* arithmetic: a token costs two FLOP for each parameter that it is multiplied with
  (https://arxiv.org/abs/2001.08361, section 2.1);
* bandwidth: a decoding step reads the parameters in use, and the KV cache of each sequence, once;
* time to first token: the prompt's FLOP at peak, or one reading of the weights if that is longer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tpuflex.planning.figure import Figure
from tpuflex.planning.kv_cache import CACHE_BYTES, cache_layers, full_attention_layers
from tpuflex.planning.weights import PARAMETER_BYTES

if TYPE_CHECKING:
    from tpuflex.catalog.rows import Accelerator, Model
    from tpuflex.planning.request import MemoryRequest

_FLOP_PER_PARAMETER = 2
#: Share of the arithmetic ceiling from which a claim is not believed: attention, collectives,
#: normalisation and sampling are not in the ceiling. A judgement, not a measured limit.
CREDIBLE_SHARE = 0.9

#: ``impossible``: above what the chips can compute at peak. ``not_credible``: so near to it that
#: nothing is left for what the ceiling does not count.
Verdict = Literal["possible", "not_credible", "impossible"]


def active_params(model: Model) -> int:
    """Parameters that one generated token is multiplied with at least, the output head among them.

    Experts that the token does not pass through are left out, and so is what is looked up or held
    without being computed: tables of embeddings, and the projections to K and V of layers that
    share another's cache.
    """
    if model.active_params is not None and not model.experts:
        return model.active_params  # of a row that does not describe its experts
    idle = model.experts - model.experts_per_token
    idle_experts = model.layers * idle * 3 * model.hidden_size * model.expert_size
    tables = model.vocab_size * model.per_layer_embedding * model.layers
    lookup = 0 if model.tied_embeddings else model.vocab_size * model.hidden_size
    return model.text_params - idle_experts - tables - lookup - _shared_projections(model)


def _shared_projections(model: Model) -> int:
    """Parameters to K and V in layers that share another's cache, which compute neither."""
    owners = max(model.layers - model.kv_shared_layers, 0)
    full = full_attention_layers(model, model.layers) - full_attention_layers(model, owners)
    of_full = (model.global_kv_heads or model.kv_heads) * (model.global_head_dim or model.head_dim)
    of_window = (model.kv_shared_layers - full) * model.kv_heads * model.head_dim
    key_value = 2 if model.global_kv_heads is None else 1
    return model.hidden_size * (key_value * full * of_full + 2 * of_window)


def prompt_params(model: Model) -> int:
    """Parameters that each token of a prompt is multiplied with: without the output head, which
    only the last one needs."""
    return active_params(model) - model.vocab_size * model.hidden_size


def peak_flops(accelerator: Accelerator, *, eight_bit: bool = False) -> float | None:
    """Peak of the whole slice in bfloat16, or the highest of that and its 8-bit types with
    ``eight_bit``, FLOP/s; None when it is not known."""
    peak = accelerator.bf16_tflops
    if peak is None:
        return None
    if eight_bit:
        peak = max(peak, accelerator.int8_tops or 0, accelerator.fp8_tflops or 0)
    return accelerator.chips * peak * 1e12


def arithmetic_ceiling(model: Model, accelerator: Accelerator) -> float | None:
    """Tokens per second that the slice computes at peak, at two FLOP per active parameter; None
    when its peak is not known, or the model's row makes no sense."""
    return _tokens_at_peak(accelerator, active_params(model))


def prompt_ceiling(
    model: Model, accelerator: Accelerator, *, eight_bit: bool = False
) -> float | None:
    """Prompt tokens per second that the slice computes at peak if the output head is left out: the
    highest number that arithmetic allows, in bfloat16 or, with ``eight_bit``, in whatever the chip
    is quickest with."""
    return _tokens_at_peak(accelerator, prompt_params(model), eight_bit=eight_bit)


def _tokens_at_peak(
    accelerator: Accelerator, params: int, *, eight_bit: bool = False
) -> float | None:
    """None also for rows of a user whose numbers cannot be: no parameters, or no end of FLOP."""
    peak = peak_flops(accelerator, eight_bit=eight_bit)
    if peak is None or params <= 0 or not math.isfinite(peak):
        return None
    return peak / (_FLOP_PER_PARAMETER * params)


def kv_bytes_read(
    model: Model, chips: int, context: int, itemsize: int = CACHE_BYTES["bfloat16"]
) -> int:
    """Bytes of KV cache that one decoding step reads per chip for a sequence of ``context`` tokens,
    at least: without padding, within the window, each cache once."""
    return sum(
        count
        * itemsize
        * (context if layer.window is None else min(context, layer.window))
        * 2  # keys and values
        * math.ceil(layer.kv_heads / chips)
        * layer.head_dim
        for layer, count in cache_layers(model).items()
    )


def decode_ceiling(
    model: Model, accelerator: Accelerator, sequences: int, context: int, kv_itemsize: int
) -> float | None:
    """Output tokens per second of ``sequences`` together, each with ``context`` tokens in the
    cache, at the bandwidth of the memory or at peak arithmetic, whichever is lower; None when one
    of the two is not known."""
    compute = arithmetic_ceiling(model, accelerator)
    if compute is None or accelerator.hbm_gbps is None:
        return None
    devices = accelerator.devices
    weights = PARAMETER_BYTES * active_params(model) / devices
    cache = sequences * kv_bytes_read(model, devices, context, kv_itemsize)
    bandwidth = accelerator.hbm_gbps * 1e9 / accelerator.devices_per_chip
    return min(compute, sequences * bandwidth / (weights + cache))


def bandwidth_ceiling(request: MemoryRequest, held: float) -> Figure:
    """Output tokens per second that the memory's bandwidth, or peak arithmetic, allows at most.

    Args:
        request: what is served; its sequences are taken to be of full length.
        held: sequences that the cache holds; no more of them decode at once.
    """
    model, accelerator = request.model, request.accelerator
    unit, sources = "tokens per second", (model.source, accelerator.source)
    if request.quantized_on_load or request.weights_known:
        words = "bandwidth ceiling: not computed for quantised weights"
        return Figure(None, unit, words, sources)
    running = max(1, min(request.max_num_seqs, int(held)))
    rate = decode_ceiling(
        model, accelerator, running, request.max_model_len, CACHE_BYTES[request.kv_cache_dtype]
    )
    sequences = "1 sequence" if running == 1 else f"{running:,} sequences"
    words = (
        f"bandwidth ceiling: {sequences} of {request.max_model_len:,} tokens at once; shorter ones"
        " allow more"
    )
    if request.speculative:
        words += ", and so does each token that speculation guesses right"
    return Figure(None if rate is None else round(rate), unit, words, sources)


@dataclass(frozen=True, slots=True)
class FirstTokenBound:
    """The least time to the first token that arithmetic allows, in seconds.

    Attributes:
        alone: of one request that nothing else delays.
        burst_mean: mean over all requests if they arrive at once and are computed one after the
            other, in the best order for the mean when they are equally long.
    """

    alone: float
    burst_mean: float


def first_token_bound(
    model: Model, accelerator: Accelerator, prompt: int, concurrency: int
) -> FirstTokenBound | None:
    """The least time to the first token for prompts of ``prompt`` tokens, none of which is in the
    prefix cache; None when the peak of the chips is not known."""
    ceiling = prompt_ceiling(model, accelerator)
    if ceiling is None:
        return None
    compute = prompt / ceiling
    reading = 0.0
    if accelerator.hbm_gbps is not None:
        reading = (
            PARAMETER_BYTES
            * prompt_params(model)
            / accelerator.chips
            / (accelerator.hbm_gbps * 1e9)
        )
    alone = max(compute, reading)
    return FirstTokenBound(alone, max(alone, compute * (concurrency + 1) / 2))


@dataclass(frozen=True, slots=True)
class Judgement:
    """A claimed throughput beside the ceiling.

    Attributes:
        verdict: what the arithmetic says of it.
        share: the claim as a share of the arithmetic ceiling; None when that is not known.
        text: the verdict in a sentence; empty when the claim is possible.
    """

    verdict: Verdict
    share: float | None
    text: str = ""


def judge(model: Model, accelerator: Accelerator, tokens_per_second: float) -> Judgement:
    """Hold a claim about computed tokens against the ceiling of ``accelerator``."""
    ceiling = arithmetic_ceiling(model, accelerator)
    highest = prompt_ceiling(model, accelerator, eight_bit=True)
    if ceiling is None or highest is None:
        return Judgement("possible", None)
    share = tokens_per_second / ceiling
    claim = f"{tokens_per_second:,.0f} tokens/s is {share:.0%} of the arithmetic ceiling"
    limit = f"{ceiling:,.0f} on {accelerator.name} at peak in bfloat16"
    if tokens_per_second > highest:
        text = f"{claim} ({limit}): the chips cannot compute that many in any type"
        return Judgement("impossible", share, text)
    if share >= CREDIBLE_SHARE:
        text = (
            f"{claim} ({limit}), which counts neither attention nor overhead: not credible in"
            " bfloat16"
        )
        return Judgement("not_credible", share, text)
    return Judgement("possible", share)
