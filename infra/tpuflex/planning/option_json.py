"""Options and scenarios as JSON documents: every figure with its sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.planning.figure import source_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpuflex.catalog.rows import Source
    from tpuflex.planning.recommend import Option, Requirements
    from tpuflex.planning.scenarios import Given, Scenario


def sources_json(sources: Iterable[Source]) -> list[dict[str, object]]:
    """Sources in a JSON document."""
    return [source_json(source) for source in sources]


def requirements_json(requirements: Requirements, models: Iterable[str]) -> dict[str, object]:
    """What was asked for."""
    return {
        "models": list(models),
        "context": requirements.load.context,
        "concurrency": requirements.load.concurrency,
        "ttft_seconds": requirements.ttft,
        "budget_usd_per_hour": None if requirements.budget is None else float(requirements.budget),
    }


def option_json(option: Option) -> dict[str, object]:
    """One option."""
    request, first_token, limits = option.request, option.first_token, option.limits
    return {
        "model": request.model.name,
        "accelerator_type": request.accelerator.name,
        "chips": request.accelerator.chips,
        "kv_cache_dtype": request.kv_cache_dtype,
        "zones": list(option.zones),
        "fit": option.fit,
        "obstacle": option.obstacle,
        "usd_per_hour": option.per_hour.to_json(),
        "stacks": option.stacks.to_json(),
        "total_usd_per_hour": option.total.to_json(),
        "budget": option.budget,
        "first_token": {
            "verdict": first_token.verdict,
            "text": first_token.text,
            "sources": sources_json(first_token.sources),
            "alone": first_token.alone.to_json(),
            "burst": first_token.burst.to_json(),
        },
        "limits": None
        if limits is None
        else {
            "cached_tokens": limits.cached_tokens.to_json(),
            "sequences": limits.sequences.to_json(),
            "arithmetic_ceiling": limits.arithmetic.to_json(),
            "decode_ceiling": limits.decode.to_json(),
            "least_usd_per_million": limits.usd_per_million.to_json(),
            "least_usd_per_million_generated": limits.usd_per_million_generated.to_json(),
        },
        "seen": {
            "text": option.seen.text,
            "reports": [
                {
                    "accelerator": row.accelerator,
                    "result": row.result,
                    "what": row.what,
                    "sources": sources_json((row.source,)),
                }
                for row in option.seen.seen
            ],
        },
        "unproven": list(option.unproven),
    }


def scenario_json(scenario: Scenario) -> dict[str, object]:
    """A scenario with what is said of its matrix."""
    elsewhere = scenario.elsewhere
    return {
        "name": scenario.name,
        "title": scenario.title,
        "advice": scenario.advice,
        "sources": sources_json((scenario.source,)),
        "context": _given_json(scenario, scenario.context),
        "concurrency": _given_json(scenario, scenario.concurrency),
        "ttft_seconds": _given_json(scenario, scenario.ttft),
        "remarks": [
            {
                "claim": remark.claim,
                "finding": remark.finding,
                "sources": sources_json((scenario.source, *remark.sources)),
            }
            for remark in scenario.remarks
        ],
        "elsewhere": None
        if elsewhere is None
        else {
            "instead": elsewhere.instead,
            "why": elsewhere.why,
            "sources": sources_json(elsewhere.sources),
        },
    }


def _given_json(scenario: Scenario, given: Given | None) -> dict[str, object] | None:
    """A number that the scenario fills in; one that is assumed has no source but its reason."""
    if given is None:
        return None
    sources = (scenario.source,) if given.basis == "matrix" else ()
    return {
        "value": given.value,
        "basis": f"{given.basis}: {given.why}",
        "sources": sources_json(sources),
    }
