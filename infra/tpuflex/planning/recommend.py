"""Which chips for a model and a load: options with fit, price, limits and evidence, ranked.

A stack is one slice of one host. Where its KV cache holds fewer sequences than are wanted, an
option is as many stacks as hold them all, at the price of all of them. The order is decided by the
first of these in which two options differ: whether it fits, the budget, the time to the first
token, the price of the stacks, their number, what was seen. Each option says all of them in one
line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from math import floor
from typing import TYPE_CHECKING, Literal

from tpuflex.catalog.rows import Source
from tpuflex.catalog.zones import region_of
from tpuflex.planning.compatibility import Compatibility, compatibility
from tpuflex.planning.cost import usd
from tpuflex.planning.figure import Figure, ceiling, with_source_table
from tpuflex.planning.first_token import FirstToken, judge_first_token
from tpuflex.planning.memory import MemoryPlan, nearest_that_fit, plan_memory
from tpuflex.planning.published import PublishedRate, rates_of
from tpuflex.planning.request import CacheType, Load, MemoryRequest, NotPlannable
from tpuflex.planning.stack_cost import hourly
from tpuflex.planning.throughput import bandwidth_ceiling
from tpuflex.planning.token_cost import generated_price, token_prices

if TYPE_CHECKING:
    from tpuflex.catalog.catalog import Catalog
    from tpuflex.catalog.rows import Accelerator, Model
    from tpuflex.planning.scenarios import Scenario

Fit = Literal["fits", "not_known", "does_not_fit"]
BudgetVerdict = Literal["within", "not_known", "over", "not_asked"]

#: What decides the order of options, in the order in which it does.
ORDER = (
    "whether it fits",
    "the budget",
    "the time to the first token",
    "the price of the stacks that hold all sequences",
    "their number",
    "what was seen",
)
#: Tokens in one step that options are planned with; the largest bucket that is compiled.
BATCHED_TOKENS = 4096
#: The rules by which the memory planner computes.
_PLANNER = Source(
    where="tpu-inference 0.32.0, worker/tpu_worker.py and runner/kv_cache.py",
    date=date(2026, 11, 21),
)
#: Places in the order. What is known to fit, or known not to, comes before what nobody knows; an
#: unknown budget or first token is worse than a yes and better than a no.
_FIT_ORDER: dict[Fit, int] = {"fits": 0, "does_not_fit": 1, "not_known": 2}
_BUDGET_ORDER: dict[BudgetVerdict, int] = {"within": 0, "not_asked": 0, "not_known": 1, "over": 2}
_FIRST_TOKEN_ORDER = {"met": 0, "not_asked": 0, "not_known": 1, "missed": 2, "impossible": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What is wanted.

    Attributes:
        load: context and concurrency.
        ttft: seconds within which the first token is wanted; None if that does not matter.
        budget: US dollars per hour for chips; None if that does not matter.
    """

    load: Load
    ttft: float | None = None
    budget: Decimal | None = None

    def to_json(self) -> dict[str, object]:
        """The requirements in a JSON document."""
        return {
            "context": self.load.context,
            "concurrency": self.load.concurrency,
            "ttft_seconds": self.ttft,
            "budget_usd_per_hour": usd(self.budget),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an option holds and reaches at most.

    Attributes:
        cached_tokens: tokens in the KV cache.
        sequences: sequences of full length in the cache at once.
        arithmetic: tokens per second that the chips compute at peak.
        decode: output tokens per second at peak arithmetic and bandwidth, with as many of the
            wanted sequences as the cache holds, each of full length.
        usd_per_million: US dollars per million tokens at the arithmetic ceiling: no less.
        usd_per_million_generated: US dollars per million output tokens at the decoding ceiling.
    """

    cached_tokens: Figure
    sequences: Figure
    arithmetic: Figure
    decode: Figure
    usd_per_million: Figure
    usd_per_million_generated: Figure

    def to_json(self) -> dict[str, object]:
        """The limits in a JSON document."""
        return {
            "cached_tokens": self.cached_tokens.to_json(),
            "sequences": self.sequences.to_json(),
            "arithmetic_ceiling": self.arithmetic.to_json(),
            "decode_ceiling": self.decode.to_json(),
            "least_usd_per_million": self.usd_per_million.to_json(),
            "least_usd_per_million_generated": self.usd_per_million_generated.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One model on one accelerator type with one data type of the cache.

    Attributes:
        request: what would be served.
        plan: its memory; why there is none where it cannot be planned.
        zones: zones of one region that are documented or were seen to accept such requests.
        per_hour: price of the chips of one stack.
        stacks: stacks that hold all wanted sequences at full length.
        total: price of the chips of all of them.
        fit: whether it can be served.
        budget: whether the price of all stacks is within the budget.
        first_token: what is known of the time to the first token, with the load of one stack.
        seen: what was seen.
        limits: what it holds and reaches at most; None where it does not fit.
        unproven: what nobody has shown.
    """

    request: MemoryRequest
    plan: MemoryPlan | NotPlannable
    zones: tuple[str, ...]
    per_hour: Figure
    stacks: Figure
    total: Figure
    fit: Fit
    budget: BudgetVerdict
    first_token: FirstToken
    seen: Compatibility
    limits: Limits | None
    unproven: tuple[str, ...]

    @property
    def name(self) -> str:
        """The option in a few words."""
        request = self.request
        cache = "" if request.kv_cache_dtype == "bfloat16" else f", {request.kv_cache_dtype} cache"
        return f"{request.model.name} on {request.accelerator.name}{cache}"

    @property
    def place(self) -> dict[str, object]:
        """What would be served on which chips, in a JSON document."""
        return {
            "model": self.request.model.name,
            "accelerator_type": self.request.accelerator.name,
            "kv_cache_dtype": self.request.kv_cache_dtype,
        }

    @property
    def rank(self) -> tuple[float, ...]:
        """Place in the order, lowest first: see :data:`ORDER`."""
        return (
            _FIT_ORDER[self.fit],
            _BUDGET_ORDER[self.budget],
            _FIRST_TOKEN_ORDER[self.first_token.verdict],
            _or_infinity(self.total.value),
            _or_infinity(self.stacks.value),
            self.seen.level,
            self.request.accelerator.chips,
        )

    @property
    def obstacle(self) -> str:
        """Why it cannot be served; empty where it can."""
        if isinstance(self.plan, NotPlannable):
            return self.plan.reason
        return "; ".join(one.what for one in self.plan.problems)

    def to_json(self) -> dict[str, object]:
        """The option in a JSON document."""
        return {
            **self.place,
            "chips": self.request.accelerator.chips,
            "zones": list(self.zones),
            "fit": self.fit,
            "obstacle": self.obstacle,
            "usd_per_hour": self.per_hour.to_json(),
            "stacks": self.stacks.to_json(),
            "total_usd_per_hour": self.total.to_json(),
            "budget": self.budget,
            "first_token": self.first_token.to_json(),
            "limits": None if self.limits is None else self.limits.to_json(),
            "seen": self.seen.to_json(),
            "unproven": list(self.unproven),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """What comes nearest where nothing fits.

    Attributes:
        shorter: the option with the longest context that fits; None where no context does.
        roomiest: the option that lacks least memory for its weights; None where they fit.
        elsewhere: accelerator types that hold a model, and that the Cloud TPU API does not have.
    """

    shorter: Option | None = None
    roomiest: Option | None = None
    elsewhere: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """What comes nearest, in a JSON document."""
        shorter, roomiest = self.shorter, self.roomiest
        return {
            "shorter_context": None
            if shorter is None
            else {
                **shorter.place,
                "context": shorter.request.max_model_len,
                "total_usd_per_hour": shorter.total.to_json(),
            },
            "roomiest": None
            if roomiest is None
            else {**roomiest.place, "obstacle": roomiest.obstacle},
            "elsewhere": list(self.elsewhere),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """Which chips to take, or what to take instead of them.

    Attributes:
        scenario: what the requirements were taken from, if anything.
        requirements: what the options are for; None where the scenario is not for this tool.
        options: all options, best first; none where the scenario is not for this tool.
        nearest: what comes nearest; None where something fits, or nothing can be judged.
        published: what was published of the first option, not measured by this project.
    """

    scenario: Scenario | None = None
    requirements: Requirements | None = None
    options: tuple[Option, ...] = ()
    nearest: Nearest | None = None
    published: tuple[PublishedRate, ...] = ()

    def to_json(self) -> dict[str, object]:
        """The document of ``tpuflex recommend --json``."""
        document: dict[str, object] = {
            "scenario": None if self.scenario is None else self.scenario.to_json()
        }
        if self.requirements is not None:
            models = dict.fromkeys(option.request.model.name for option in self.options)
            document["request"] = {"models": list(models), **self.requirements.to_json()}
        document["options"] = [option.to_json() for option in self.options]
        if self.requirements is not None:
            document["fits"] = any(option.fit == "fits" for option in self.options)
            document["nearest"] = None if self.nearest is None else self.nearest.to_json()
            document["published"] = [one.to_json() for one in self.published]
        return with_source_table(document)


def recommend(
    models: Iterable[Model],
    requirements: Requirements,
    catalog: Catalog,
    scenario: Scenario | None = None,
) -> Recommendation:
    """All options for ``requirements``, best first.

    Every accelerator type of one host that the TPU API can request on Flex-start is tried, on all
    of its chips: tpuflex serves on one host. An 8-bit cache is an option of its own only where it
    holds more tokens.

    Args:
        models: what may be served; at least one.
        requirements: what is wanted.
        catalog: chips, zones and prices.
        scenario: what the requirements were taken from, if anything.
    """
    models = tuple(models)
    options = _options(models, requirements, catalog, flex_start=True)
    best = options[0].request
    return Recommendation(
        scenario=scenario,
        requirements=requirements,
        options=options,
        nearest=_nearest(models, options, requirements, catalog),
        published=tuple(rates_of(best.model.name, best.accelerator.name, requirements.load)),
    )


def _options(
    models: tuple[Model, ...], requirements: Requirements, catalog: Catalog, *, flex_start: bool
) -> tuple[Option, ...]:
    """The options on what the Cloud TPU API has on Flex-start, or on what it has not; best first,
    equals in their order."""
    found = [
        option
        for model in models
        for accelerator in catalog.accelerators.values()
        if accelerator.flex_start_api == flex_start and accelerator.hosts == 1
        for option in _of(model, accelerator, requirements, catalog)
    ]
    return tuple(sorted(found, key=lambda option: option.rank))


def _nearest(
    models: tuple[Model, ...],
    options: tuple[Option, ...],
    requirements: Requirements,
    catalog: Catalog,
) -> Nearest | None:
    if options[0].fit != "does_not_fit":
        return None
    elsewhere = _options(models, requirements, catalog, flex_start=False)
    names = dict.fromkeys(
        option.request.accelerator.name for option in elsewhere if option.fit == "fits"
    )
    shorter = [
        _with_context(option, fitting.max_model_len, requirements, catalog)
        for option in options
        if option.fit == "does_not_fit"
        for fitting in nearest_that_fit(option.request)
        if fitting.tensor_parallel_size == option.request.tensor_parallel_size
        and fitting.kv_cache_dtype == option.request.kv_cache_dtype
    ]
    shorter.sort(key=lambda option: (-option.request.max_model_len, option.rank))
    return Nearest(
        shorter=shorter[0] if shorter else None,
        roomiest=None if shorter else max(options, key=_room),
        elsewhere=tuple(names),
    )


def _with_context(
    option: Option, context: int, requirements: Requirements, catalog: Catalog
) -> Option:
    request = option.request
    load = replace(requirements.load, context=context)
    return _option(
        request.model,
        request.accelerator,
        request.kv_cache_dtype,
        replace(requirements, load=load),
        catalog,
    )


def _room(option: Option) -> float:
    """The memory of a chip as a share of the weights that would be on it."""
    plan = option.plan
    return plan.hbm_bytes / plan.weight_bytes if isinstance(plan, MemoryPlan) else 0.0


def _of(
    model: Model, accelerator: Accelerator, requirements: Requirements, catalog: Catalog
) -> Iterator[Option]:
    wide = _option(model, accelerator, "bfloat16", requirements, catalog)
    yield wide
    narrow = _option(model, accelerator, "fp8", requirements, catalog)
    if _tokens(narrow) > _tokens(wide):
        yield narrow


def _tokens(option: Option) -> int:
    return option.plan.cached_tokens if isinstance(option.plan, MemoryPlan) else 0


def _option(
    model: Model,
    accelerator: Accelerator,
    cache: CacheType,
    requirements: Requirements,
    catalog: Catalog,
) -> Option:
    request = MemoryRequest(
        model=model,
        accelerator=accelerator,
        tensor_parallel_size=accelerator.devices,
        max_model_len=requirements.load.context,
        kv_cache_dtype=cache,
        max_num_seqs=requirements.load.concurrency,
        max_num_batched_tokens=BATCHED_TOKENS,
    )
    plan = plan_memory(request, catalog.accelerators.values())
    zones, per_hour = cheapest_region(accelerator, catalog)
    stacks = _stacks(request, plan)
    total = _total(stacks, per_hour)
    return Option(
        request=request,
        plan=plan,
        zones=zones,
        per_hour=per_hour,
        stacks=stacks,
        total=total,
        fit=_fit(plan),
        budget=_budget(total, requirements.budget),
        first_token=judge_first_token(
            model, accelerator, _of_one_stack(requirements.load, stacks), requirements.ttft
        ),
        seen=compatibility(model, accelerator),
        limits=_limits(request, plan, requirements.load, per_hour),
        unproven=tuple(_unproven(request, plan, zones)),
    )


def _fit(plan: MemoryPlan | NotPlannable) -> Fit:
    if isinstance(plan, NotPlannable):
        return "not_known"
    return "fits" if plan.fits else "does_not_fit"


def _stacks(request: MemoryRequest, plan: MemoryPlan | NotPlannable) -> Figure:
    if not isinstance(plan, MemoryPlan) or not plan.fits:
        return Figure(None, "stacks", "one stack does not serve it")
    held = int(plan.full_length_sequences)
    words = f"{request.max_num_seqs:,} sequences, of which one stack holds {held:,} at full length"
    sources = (request.model.source, request.accelerator.source, _PLANNER)
    return Figure(ceiling(request.max_num_seqs, held), "stacks", words, sources)


def _of_one_stack(load: Load, stacks: Figure) -> Load:
    """The part of ``load`` that each of the stacks has, at most."""
    return replace(load, concurrency=ceiling(load.concurrency, int(stacks.value or 1)))


def _total(stacks: Figure, per_hour: Figure) -> Figure:
    if stacks.value is None or per_hour.value is None:
        return Figure(None, per_hour.unit, per_hour.basis, per_hour.sources)
    amount = int(stacks.value) * Decimal(per_hour.value)
    words = f"{stacks.value:,} x ({per_hour.basis})" if stacks.value > 1 else per_hour.basis
    return Figure(amount, per_hour.unit, words, per_hour.sources)


def _budget(total: Figure, budget: Decimal | None) -> BudgetVerdict:
    if budget is None:
        return "not_asked"
    if total.value is None:
        return "not_known"
    return "within" if total.value <= budget else "over"


def cheapest_region(accelerator: Accelerator, catalog: Catalog) -> tuple[tuple[str, ...], Figure]:
    """Zones of the region in which ``accelerator`` costs least, among those that are documented or
    were seen to accept Flex-start, and the price there; unknown prices come last."""
    zones = catalog.accepting_zones(accelerator.generation)
    if not zones:
        words = f"no zone is known to accept {accelerator.generation} on Flex-start"
        return (), Figure(None, "USD per hour", words)
    regions = dict.fromkeys(map(region_of, zones))
    prices = {
        region: hourly(accelerator, catalog.price(accelerator.generation, region), region)
        for region in regions
    }
    best = min(prices, key=lambda region: _or_infinity(prices[region].value))
    return tuple(zone for zone in zones if region_of(zone) == best), prices[best]


def _or_infinity(value: Decimal | int | float | None) -> float:
    return float("inf") if value is None else float(value)


def _limits(
    request: MemoryRequest, plan: MemoryPlan | NotPlannable, load: Load, per_hour: Figure
) -> Limits | None:
    if not isinstance(plan, MemoryPlan) or not plan.fits:
        return None
    model, accelerator = request.model, request.accelerator
    sources = (model.source, accelerator.source)
    tokens = token_prices(accelerator, model, per_hour)
    decode = bandwidth_ceiling(request, plan.full_length_sequences)
    return Limits(
        cached_tokens=Figure(plan.cached_tokens, "tokens", "memory planner", (*sources, _PLANNER)),
        sequences=Figure(
            floor(plan.full_length_sequences * 100) / 100,
            "sequences",
            f"memory planner: {load.context:,} tokens each",
            (*sources, _PLANNER),
        ),
        arithmetic=tokens.ceiling,
        decode=decode,
        usd_per_million=tokens.least,
        usd_per_million_generated=generated_price(per_hour, decode),
    )


def _unproven(
    request: MemoryRequest, plan: MemoryPlan | NotPlannable, zones: tuple[str, ...]
) -> Iterator[str]:
    yield "nothing of this was run on a TPU by this project"
    if not zones:
        yield f"no zone is known to accept {request.accelerator.generation} on Flex-start"
    if isinstance(plan, MemoryPlan):
        for concern in plan.concerns:
            yield f"{concern.what}. {concern.nearest}".strip()
    if request.kv_cache_dtype == "fp8":
        yield "no boot log shows the tokens that an fp8 cache gains; they follow from its shape"
