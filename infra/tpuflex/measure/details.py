"""What an endpoint serves, and how: each figure by the server itself where it says so.

What a server does not report, what its stack file asks for stands in its place, and says that it is
that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from tpuflex.errors import ApiError
from tpuflex.measure.metrics import EngineMetrics, KvCache
from tpuflex.measure.server import ServedModel, ServerClient, open_server
from tpuflex.planning.figure import gib
from tpuflex.planning.memory import MemoryPlan
from tpuflex.planning.request import MemoryRequest
from tpuflex.planning.stack import plan_stack
from tpuflex.stack.progress import Report, silent

if TYPE_CHECKING:
    from tpuflex.settings.model import StackSettings
    from tpuflex.stack.connection import Connection

_T = TypeVar("_T")


class Source(StrEnum):
    """Who says so."""

    SERVER = "server"
    STACK = "stack file"
    CATALOG = "catalog"


@dataclass(frozen=True, slots=True)
class Fact:
    """One figure.

    Attributes:
        name: what it is.
        value: it, in words.
        source: who says so.
        planned: what was planned, where that differs.
    """

    name: str
    value: str
    source: Source = Source.SERVER
    planned: str = ""

    def to_json(self) -> dict[str, object]:
        """The figure in the document of :class:`Details`."""
        return {
            "name": self.name,
            "value": self.value,
            "source": self.source.value,
            "planned": self.planned or None,
        }


@dataclass(frozen=True, slots=True)
class Details:
    """What an endpoint serves.

    Attributes:
        stack: its stack.
        endpoint: its base URL, as it was asked.
        model: the served model, as the server lists it; None where it lists none of that name.
        version: its version of vLLM; empty where it does not say.
        metrics: what it counts; None where it does not say.
        settings: what its stack file asks for.
        missing: why something of that is not known.
    """

    stack: str
    endpoint: str
    model: ServedModel | None
    version: str
    metrics: EngineMetrics | None
    settings: StackSettings
    missing: tuple[str, ...] = ()

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All of it, in the order in which it is shown."""
        return tuple(_facts(self))

    def to_json(self) -> dict[str, object]:
        """The document that ``tpuflex details --json`` prints."""
        metrics = self.metrics
        kv_cache = None if metrics is None else metrics.kv_cache
        return {
            "stack": self.stack,
            "endpoint": self.endpoint,
            "model": self.settings.model.name if self.model is None else self.model.id,
            "max_model_len": None if self.model is None else self.model.max_model_len,
            "vllm": self.version or None,
            "kv_cache": None
            if kv_cache is None
            else {
                "blocks": kv_cache.blocks,
                "block_size": kv_cache.block_size,
                "tokens": kv_cache.tokens,
                "dtype": kv_cache.dtype or None,
                "labels": dict(kv_cache.labels),
            },
            "resident_bytes": None if metrics is None else metrics.resident_bytes,
            "facts": [fact.to_json() for fact in self.facts],
            "missing": list(self.missing),
        }


def details(cloud: Connection, report: Report = silent, *, tunnel: bool = True) -> Details:
    """What the endpoint of the stack of ``cloud`` serves.

    Args:
        cloud: the stack's cloud.
        report: receives why a tunnel is opened.
        tunnel: whether one may be opened.

    Raises:
        ApiError: the server says nothing at all.
        NotFoundError, AccessError, TpuflexError: as
            :func:`tpuflex.measure.server.open_server`, and where the key is refused.
    """
    with open_server(cloud, report, tunnel=tunnel) as server:
        return details_of(server, cloud.stack.name, cloud.stack.settings)


def details_of(server: ServerClient, stack: str, settings: StackSettings) -> Details:
    """What ``server`` serves.

    Args:
        server: the server.
        stack: its stack.
        settings: what that asks for.

    Raises:
        AccessError: it refuses the key.
        ApiError: it says nothing at all.
    """
    missing = list[ApiError]()

    def known(read: Callable[[], _T]) -> _T | None:
        try:
            return read()
        except ApiError as error:
            missing.append(error)
            return None

    models, version, metrics = known(server.models), known(server.version), known(server.metrics)
    if models is None and version is None and metrics is None:
        raise missing[0]
    model = next((each for each in models or () if each.id == server.model), None)
    why = [error.message for error in missing]
    if models is not None and model is None:
        why.append(f"it does not serve {server.model}")
    return Details(stack, server.endpoint, model, version or "", metrics, settings, tuple(why))


def _facts(found: Details) -> Iterator[Fact]:
    settings, metrics = found.settings, found.metrics
    flags, plan = settings.serving.given_flags, plan_stack(settings)
    planned = plan if isinstance(plan, MemoryPlan) else None
    if found.model is None:
        yield Fact("model", settings.model.name, Source.STACK)
    else:
        yield Fact("model", found.model.id)
    context = None if found.model is None else found.model.max_model_len
    if context is not None:
        yield Fact("context", f"{context:,} tokens")
    elif "max_model_len" in flags:
        yield Fact("context", f"{flags['max_model_len']} tokens", Source.STACK)
    if found.version:
        yield Fact("vLLM", found.version)
    yield _weights(settings, planned)
    compute = str(flags.get("dtype", "auto"))
    auto = "" if compute != "auto" else ": the type of the model's files"
    yield Fact("compute", f"{compute}{auto}", Source.STACK)
    if metrics is None:
        return
    if metrics.kv_cache is not None:
        yield from _kv_cache(metrics.kv_cache, context, planned)
    if "max_num_seqs" in flags:
        yield Fact("at once", f"{flags['max_num_seqs']} requests at most", Source.STACK)
    if metrics.resident_bytes is not None:
        text = f"{gib(int(metrics.resident_bytes))}, the API server; each engine is another process"
        yield Fact("process", text)
    if metrics.began is not None:
        yield Fact("started", f"{metrics.began.astimezone():%Y-%m-%d %H:%M %Z}")


def _weights(settings: StackSettings, planned: MemoryPlan | None) -> Fact:
    """How the weights are quantised, which no route of vLLM says."""
    name, flag = "weights", settings.serving.given_flags.get("quantization")
    if flag is not None:
        return Fact(name, f"quantised by {flag}", Source.STACK)
    if (
        planned is not None
        and isinstance(planned.request, MemoryRequest)
        and planned.request.quantized_on_load
    ):
        return Fact(name, "quantised while they are loaded", Source.STACK)
    row = settings.served
    if row is None:
        return Fact(name, "not known whether they are quantised", Source.CATALOG)
    text = f"quantised by {row.quantization}" if row.quantization else "not quantised"
    return Fact(name, text, Source.CATALOG)


def _kv_cache(cache: KvCache, context: int | None, plan: MemoryPlan | None) -> Iterator[Fact]:
    if cache.dtype:
        auto = ": the type that the model computes in" if cache.dtype == "auto" else ""
        yield Fact("KV type", f"{cache.dtype}{auto}")
    if cache.blocks is not None and cache.block_size is not None:
        text = f"{cache.blocks:,} of {cache.block_size:,} tokens"
        differs = plan is not None and (plan.blocks, plan.block_size) != (
            cache.blocks,
            cache.block_size,
        )
        planned = f"{plan.blocks:,} of {plan.block_size:,}" if plan is not None and differs else ""
        yield Fact("KV blocks", text, planned=planned)
    if cache.tokens is not None:
        planned = ""
        # With windows, fewer tokens fit than the blocks have room for; a server may count either.
        if plan is not None and cache.tokens not in (
            plan.cached_tokens,
            plan.blocks * plan.block_size,
        ):
            planned = f"{plan.cached_tokens:,}"
        yield Fact("KV tokens", f"{cache.tokens:,}", planned=planned)
    whole = _full_length(cache, context)
    if whole is not None:
        differs = plan is not None and not math.isclose(
            plan.full_length_sequences, whole, rel_tol=0.01
        )
        planned = f"{plan.full_length_sequences:,.1f}" if plan is not None and differs else ""
        of = "" if context is None else f" of {context:,} tokens"
        yield Fact("full sequences", f"{whole:,.1f}{of} at once", planned=planned)
    caching = {"True": "on", "False": "off"}.get(cache.labels.get("enable_prefix_caching", ""))
    if caching is not None:
        yield Fact("prefix cache", caching)


def _full_length(cache: KvCache, context: int | None) -> float | None:
    """How many sequences of full length the cache holds at once."""
    try:
        said = float(cache.labels.get("kv_cache_max_concurrency", ""))
    except ValueError:
        said = math.nan
    if 0 < said < 1e9:
        return said
    return cache.tokens / context if cache.tokens is not None and context else None
