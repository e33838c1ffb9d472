"""llm-d's Benchmark Report 0.2.1, written and read: one report for each point.

https://github.com/llm-d/llm-d-benchmark/tree/main/benchmark-report (package llmd-benchmark-report
0.2.1, read 2026-11-28). It is for aggregates: requests one by one, verdicts and ceilings have no
place in it but the free-form configuration of the load generator.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tpuflex.measure.run import (
    Load,
    Measured,
    Point,
    Quantiles,
    Rate,
    Run,
    Seconds,
    Server,
)

VERSION = "0.2.1"
#: Versions that are read: 0.2.1 has added optional fields to 0.2.
VERSIONS = ("0.2", VERSION)
#: What the components are called within a report.
_LABEL = "vllm"
#: In place of what the format wants and is not known.
_UNKNOWN = "not known"


# -- written -----------------------------------------------------------------------------------


def report_of_point(run: Run, point: Point) -> dict[str, Any]:
    """The report on ``point``, which has measured something."""
    measured = point.measured
    if measured is None:
        raise ValueError("a point that was not measured has no report")
    return {
        "version": VERSION,
        "run": _run(run, point, measured),
        "scenario": {"stack": [_engine(run)], "load": _load(run, point)},
        "results": {
            "request_performance": {"aggregate": _aggregate(point.load, measured)},
            "observability": {"components": [_observed(measured)]},
        },
    }


def file_name(load: Load) -> str:
    """What the report on ``load`` is called, within its run."""
    shared = f"_shared{load.shared}" if load.shared else ""
    return (
        f"benchmark_report_v{VERSION}_c{load.concurrency}_i{load.context}_o{load.output}"
        f"{shared}.yaml"
    )


def _run(run: Run, point: Point, measured: Measured) -> dict[str, Any]:
    time = {"duration": f"PT{measured.seconds}S"}
    if point.at is not None:
        time["start"] = point.at.isoformat()
        time["end"] = (point.at + timedelta(seconds=measured.seconds)).isoformat()
    key = "-".join(map(str, point.load.key))
    return {
        "uid": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{run.id} {key}")),
        "eid": str(uuid.uuid5(uuid.NAMESPACE_URL, run.id)),
        "description": run.name,
        "time": time,
    }


def _engine(run: Run) -> dict[str, Any]:
    server = run.server
    args = _arguments(server.args)
    tensor = str(args.get("--tensor-parallel-size") or 1)
    return {
        "metadata": {"label": _LABEL, "cfg_id": run.stack_hash or _hash(server)},
        "standardized": {
            "kind": "inference_engine",
            "tool": "vllm",
            "tool_version": server.image or server.vllm or _UNKNOWN,
            "role": "replica",
            "replicas": 1,
            "model": {"name": server.model},
            "accelerator": {
                "model": server.accelerator or _UNKNOWN,
                "count": server.chips,
                "parallelism": {"tp": int(tensor) if tensor.isdecimal() else 1},
            },
        },
        "native": {"args": args, "config": server.model_dump(mode="json", exclude={"args"})},
    }


def _load(run: Run, point: Point) -> dict[str, Any]:
    load = point.load
    prefix = {
        "prefix": {
            "prefix_len": _fixed(load.shared),
            "num_groups": 1,
            "num_users_per_group": load.concurrency,
            "num_prefixes": 1,
        }
    }
    tool, version = _tool(run.generator)
    return {
        "metadata": {"cfg_id": _hash(load)},
        "standardized": {
            "tool": tool,
            "tool_version": version,
            "source": "random",
            "input_seq_len": _fixed(load.context),
            "output_seq_len": _fixed(load.output),
            "concurrency": load.concurrency,
            **(prefix if load.shared else {}),
        },
        "native": {
            "args": {"command": list(run.command)},
            "config": {
                "tpuflex": run.tpuflex,
                "load": load.model_dump(),
                "verdict": point.verdict,
                "flags": list(point.flags),
                "ceilings": point.ceilings.model_dump(),
                "usd_per_million_generated_tokens": point.model_dump(mode="json")[
                    "usd_per_million"
                ],
                "price_source": run.server.price_source,
            },
        },
    }


def _aggregate(load: Load, measured: Measured) -> dict[str, Any]:
    failed = sum(measured.failures.values())
    prompt_length, output_length = _lengths(load, measured)
    prompt = measured.requests_per_second * prompt_length
    times = {
        "time_to_first_token": ("s", measured.ttft),
        "time_per_output_token": ("s/token", measured.tpot),
        "inter_token_latency": ("s/token", measured.inter_token),
        "request_latency": ("s", measured.latency),
    }
    rates = {
        "input_token_rate": ("tokens/s", prompt),
        "output_token_rate": ("tokens/s", measured.output_per_second),
        "total_token_rate": ("tokens/s", prompt + measured.output_per_second),
        "request_rate": ("queries/s", measured.requests_per_second),
    }
    return {
        "requests": {
            "total": measured.completed + failed,
            "failures": failed,
            "input_length": {"units": "count", "mean": prompt_length},
            "output_length": {"units": "count", "mean": output_length},
        },
        "latency": {
            name: {"units": units, **quantiles.model_dump()}
            for name, (units, quantiles) in times.items()
            if quantiles is not None
        },
        "throughput": {
            name: {"units": units, "mean": mean} for name, (units, mean) in rates.items()
        },
    }


def _lengths(load: Load, measured: Measured) -> tuple[float, float]:
    """Mean tokens of a prompt and of an answer: of the answered requests where each is known."""
    requests = measured.requests
    columns = zip(requests.prompt_tokens, requests.output_tokens, requests.error, strict=False)
    answered = [(prompt, output) for prompt, output, error in columns if not error]
    if not answered:
        return load.context, load.output
    prompts, outputs = zip(*answered, strict=True)
    return sum(prompts) / len(answered), sum(outputs) / len(answered)


def _observed(measured: Measured) -> dict[str, Any]:
    counted = measured.counted
    if counted is None or not counted.prompt_tokens:
        return {"component_label": _LABEL}
    hits = counted.cached_tokens / counted.prompt_tokens * 100
    return {
        "component_label": _LABEL,
        "aggregate": {
            "cache_hit_rate": {"units": "percent", "mean": hits},
            "preemptions": {"units": "count", "mean": counted.preemptions},
        },
    }


def _fixed(value: int) -> dict[str, Any]:
    return {"distribution": "fixed", "value": value}


def _tool(generator: str) -> tuple[str, str]:
    """The name of a load generator, and its version."""
    name, _, version = generator.rpartition(" ")
    if not re.match(r"v?\d", version):
        name, version = generator, ""
    return name or _UNKNOWN, version or _UNKNOWN


def _arguments(words: Sequence[str]) -> dict[str, Any]:
    """Options of a command line, each with its value; None for one without."""
    options: dict[str, Any] = {}
    last = ""
    for word in words:
        if word.startswith("--"):
            last, equals, value = word.partition("=")
            options[last] = value if equals else None
        elif last and options[last] is None:
            options[last] = word
        elif last:
            options[last] = f"{options[last]} {word}"
    return options


def _hash(value: BaseModel) -> str:
    written = json.dumps(value.model_dump(mode="json"), sort_keys=True)
    return hashlib.sha256(written.encode()).hexdigest()


# -- read --------------------------------------------------------------------------------------


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Statistics(_Part):
    units: Literal["s", "ms", "s/token", "ms/token", "tokens/s", "queries/s", "count", "pixels"]
    mean: Seconds
    p50: Seconds | None = None
    p90: Seconds | None = None
    p95: Seconds | None = None
    p99: Seconds | None = None
    max: Seconds | None = None

    @property
    def seconds(self) -> Quantiles | None:
        """These as seconds; None if one of the quantiles is missing."""
        unit = 0.001 if self.units.startswith("ms") else 1.0
        values = self.model_dump(exclude={"units"})
        if None in values.values():
            return None
        return Quantiles(**{name: value * unit for name, value in values.items()})


class _Requests(_Part):
    total: int = Field(ge=0)
    failures: int | None = Field(None, ge=0)
    output_length: _Statistics | None = None


class _Latency(_Part):
    time_to_first_token: _Statistics | None = None
    time_per_output_token: _Statistics | None = None
    inter_token_latency: _Statistics | None = None
    request_latency: _Statistics | None = None


class _Throughput(_Part):
    input_token_rate: _Statistics | None = None
    output_token_rate: _Statistics
    request_rate: _Statistics


class _Aggregate(_Part):
    requests: _Requests
    latency: _Latency = _Latency()
    throughput: _Throughput


class _RequestPerformance(_Part):
    aggregate: _Aggregate


class _Results(_Part):
    request_performance: _RequestPerformance


class _Length(_Part):
    value: Rate


class _Prefix(_Part):
    prefix_len: _Length


class _LoadStandardized(_Part):
    tool: str
    tool_version: str
    input_seq_len: _Length
    output_seq_len: _Length | None = None
    prefix: _Prefix | None = None
    concurrency: float | None = None


class _Load(_Part):
    standardized: _LoadStandardized


class _Named(_Part):
    name: str


class _Accelerator(_Part):
    model: str = ""
    count: int = 0


class _Engine(_Part):
    kind: str
    tool_version: str = ""
    model: _Named | None = None
    accelerator: _Accelerator = _Accelerator()


class _Component(_Part):
    standardized: _Engine


class _Scenario(_Part):
    stack: tuple[_Component, ...] | None = None
    load: _Load


class _Time(_Part):
    start: datetime | None = None


class _Run(_Part):
    uid: str
    eid: str | None = None
    description: str | None = None
    time: _Time | None = None


class _Report(_Part):
    run: _Run
    scenario: _Scenario
    results: _Results


def point_of_report(document: Mapping[str, Any], name: str, unseen: str) -> tuple[Run, Point]:
    """The run that ``document`` is of, and the point that it has.

    Args:
        document: a report.
        name: what the run is called if the report does not say.
        unseen: why such a point is not verified.

    Raises:
        ValidationError: it is not as the format has it, or does not say what a point needs.
        ValueError: it was not measured at a concurrency.
    """
    report = _Report.model_validate(document)
    asked = report.scenario.load.standardized
    aggregate = report.results.request_performance.aggregate
    load = _load_of(asked, aggregate.requests)
    failed = aggregate.requests.failures or 0
    time = report.run.time
    started = time.start if time is not None else None
    run = Run(
        id=report.run.eid or report.run.uid,
        name=report.run.description or name,
        started=started,
        server=_server(report.scenario.stack or ()),
        generator=f"{asked.tool} {asked.tool_version}",
        loads=(load,),
    )
    latency, throughput = aggregate.latency, aggregate.throughput
    per_token = latency.time_per_output_token
    prompts = throughput.input_token_rate
    rate = throughput.request_rate.mean
    completed = max(0, aggregate.requests.total - failed)
    times = (latency.time_to_first_token, latency.inter_token_latency, latency.request_latency)
    ttft, inter_token, whole = (each.seconds if each is not None else None for each in times)
    reasons = [f"{failed:,} of {load.requests:,} requests failed"] if failed else [unseen]
    if None in (ttft, inter_token, whole):
        reasons.append("the report has not all of p50, p90, p95, p99 and max of each latency")
    return run, Point(
        load=load,
        verdict="not_a_result" if failed else "not_verified",
        reasons=tuple(reasons),
        measured=Measured(
            seconds=completed / rate if rate else 0.0,
            completed=completed,
            failures={"failed": failed} if failed else {},
            requests_per_second=rate,
            output_per_second=throughput.output_token_rate.mean,
            prompt_per_second=prompts.mean if prompts is not None else rate * load.context,
            ttft=ttft,
            tpot=per_token.seconds if per_token is not None else None,
            inter_token=inter_token,
            latency=whole,
        ),
        at=started,
    )


def _load_of(asked: _LoadStandardized, requests: _Requests) -> Load:
    if asked.concurrency is None or not asked.concurrency.is_integer():
        raise ValueError("it has no concurrency: it was measured at a rate of requests")
    output = asked.output_seq_len.value if asked.output_seq_len is not None else None
    if output is None:
        if requests.output_length is None:
            raise ValueError("it does not say how many tokens were generated for a request")
        output = requests.output_length.mean
    return Load(
        concurrency=int(asked.concurrency),
        context=max(1, round(asked.input_seq_len.value)),
        output=max(1, round(output)),
        requests=requests.total,
        shared=round(asked.prefix.prefix_len.value) if asked.prefix is not None else 0,
    )


def _server(stack: Sequence[_Component]) -> Server:
    """The engine of a stack; of several, the first, with the accelerators of all."""
    engines = [each.standardized for each in stack if each.standardized.kind == "inference_engine"]
    named = [each for each in engines if each.model is not None]
    if not named or named[0].model is None:
        return Server(model=_UNKNOWN)
    engine, model = named[0], named[0].model.name
    # By convention the version is the image.
    is_image = "/" in engine.tool_version or "@" in engine.tool_version
    return Server(
        model=model,
        vllm="" if is_image else engine.tool_version.replace(_UNKNOWN, ""),
        image=engine.tool_version if is_image else "",
        accelerator=engine.accelerator.model.replace(_UNKNOWN, ""),
        chips=sum(each.accelerator.count for each in engines),
    )
