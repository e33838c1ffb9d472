"""Scenarios: the rows of published decision matrices, with what holds of them here.

A scenario fills in what its matrix says of models, context and load. Where the matrix gives no
number, one is assumed and named as such. Some rows are not for this tool: they say what is.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from datetime import date
from typing import Literal

from tpuflex.catalog.rows import Source
from tpuflex.planning.figure import sources_json

_MATRIX_31B = Source(
    where="decision matrix of an anonymous rewriting of https://dev.to/gde/gemma4-5fon,"
    " which gives no measurement for it",
    date=date(2026, 11, 21),
)
_MATRIX_E2B = Source(
    where="selection matrix in https://dev.to/gde/debugging-deployments-with-gemma-2b-tpu-v6e-4-mcp"
    "-and-antigravity-cli-539h (written by a model from one practitioner's runs)",
    date=date(2026, 6, 30),
)
_MATRIX_STRATEGIES = Source(
    where="decision matrix of https://local.codcompass.com/en/kb/llm-deployment-strategies-y0rpsi,"
    " which names no measurement",
    date=date(2026, 11, 21),
)
_CLOUD_RUN = Source(
    where="https://docs.cloud.google.com/run/docs/run-gemma-on-cloud-run", date=date(2026, 11, 22)
)
_LLAMA_CPP = Source(where="https://huggingface.co/docs/hub/gguf-llamacpp", date=date(2026, 11, 22))
_GEMINI_API = Source(
    where="https://ai.google.dev/gemma/docs/core/gemma_on_gemini_api", date=date(2026, 11, 22)
)
_ENVOY_AI = Source(where="https://aigateway.envoyproxy.io/docs", date=date(2026, 11, 21))

_31B = "google/gemma-4-31B-it"
_26B = "google/gemma-4-26B-A4B-it"
_12B = "google/gemma-4-12B-it"
_E4B = "google/gemma-4-E4B-it"
_E2B = "google/gemma-4-E2B-it"
_LLAMA = "meta-llama/Llama-3.1-8B-Instruct"

Basis = Literal["matrix", "assumed"]


@dataclass(frozen=True, slots=True)
class Given:
    """A number that a scenario fills in.

    Attributes:
        value: the number.
        basis: whether the matrix names it, or it is assumed here.
        why: the matrix's words, or the reason for the assumption.
    """

    value: float
    basis: Basis
    why: str


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark on a row's claim.

    Attributes:
        claim: what the matrix says.
        finding: what holds of it.
        sources: where the finding comes from, beside the catalog and arithmetic.
    """

    claim: str
    finding: str
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What to use instead of this tool.

    Attributes:
        instead: what is the answer.
        why: why this tool is not.
        sources: where the answer is documented.
    """

    instead: str
    why: str
    sources: tuple[Source, ...]

    def to_json(self) -> dict[str, object]:
        """The answer in a JSON document."""
        return {
            "instead": self.instead,
            "why": self.why,
            "sources": sources_json(self.sources),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One row of a decision matrix.

    Attributes:
        name: what ``--scenario`` takes.
        title: the row's title.
        advice: what the matrix recommends.
        source: the matrix.
        models: models that it recommends, in its order; none where this tool is not the answer.
        context: tokens of the longest sequence.
        concurrency: sequences at once.
        ttft: seconds until the first token, where the row asks for that.
        remarks: remarks on its claims.
        elsewhere: what to use instead, where this tool is not the answer.
    """

    name: str
    title: str
    advice: str
    source: Source
    models: tuple[str, ...] = ()
    context: Given | None = None
    concurrency: Given | None = None
    ttft: Given | None = None
    remarks: tuple[Remark, ...] = ()
    elsewhere: Elsewhere | None = None

    def to_json(self) -> dict[str, object]:
        """The scenario in a JSON document, with what is said of its matrix."""
        return {
            "name": self.name,
            "title": self.title,
            "advice": self.advice,
            "sources": sources_json((self.source,)),
            "context": self._given_json(self.context),
            "concurrency": self._given_json(self.concurrency),
            "ttft_seconds": self._given_json(self.ttft),
            "remarks": [
                {
                    "claim": remark.claim,
                    "finding": remark.finding,
                    "sources": sources_json((self.source, *remark.sources)),
                }
                for remark in self.remarks
            ],
            "elsewhere": None if self.elsewhere is None else self.elsewhere.to_json(),
        }

    def _given_json(self, given: Given | None) -> dict[str, object] | None:
        """A number that is filled in; one that is assumed has no source but its reason."""
        if given is None:
            return None
        sources = (self.source,) if given.basis == "matrix" else ()
        return {
            "value": given.value,
            "basis": f"{given.basis}: {given.why}",
            "sources": sources_json(sources),
        }


_TEMPLATE = "max_model_len of the configuration that comes with the matrix"
_CLAIMED = "no measurement is given for it; not used"

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        name="interactive-api",
        title="Interactive API (first token within 1 s)",
        advice="dense 31B on v6e-4, about $0.40 per hour",
        source=_MATRIX_31B,
        models=(_31B,),
        context=Given(4096, "assumed", "the matrix names none; a chat with some history"),
        concurrency=Given(16, "assumed", "the matrix names none; a small service"),
        ttft=Given(1.0, "matrix", "Sub-1s TTFT"),
        remarks=(
            Remark(
                "0.314 s to the first token",
                "measured with one request of 128 tokens, not under load",
            ),
        ),
    ),
    Scenario(
        name="long-documents",
        title="Long-context document processing",
        advice="26B-A4B (mixture of experts), 256K tokens of context",
        source=_MATRIX_31B,
        models=(_26B,),
        context=Given(262_144, "matrix", "256K"),
        concurrency=Given(1, "assumed", "the matrix names none; one document at a time"),
        remarks=(
            Remark(
                "a shared KV cache of 256K tokens handles long sequences without eviction",
                "Gemma 4 26B-A4B shares no KV cache between layers, and its sliding window saves"
                " nothing on the TPU back-end: whether the cache holds the sequence is below",
                (
                    Source(
                        where="tpu-inference 0.32.0, runner/kv_cache_manager.py",
                        date=date(2026, 11, 21),
                    ),
                ),
            ),
        ),
    ),
    Scenario(
        name="batch",
        title="High-throughput batch pipeline",
        advice="dense 31B with 256 sequences at once",
        source=_MATRIX_31B,
        models=(_31B,),
        context=Given(16_384, "matrix", _TEMPLATE),
        concurrency=Given(256, "matrix", "C256"),
    ),
    Scenario(
        name="multi-tenant",
        title="Multi-tenant platform",
        advice="26B-A4B (mixture of experts)",
        source=_MATRIX_31B,
        models=(_26B,),
        context=Given(16_384, "matrix", _TEMPLATE),
        concurrency=Given(256, "matrix", "max_num_seqs of that configuration"),
        remarks=(
            Remark("7.5 times less active compute per tenant", _CLAIMED),
            Remark(
                "tenants share one endpoint",
                "one key for each client is possible; quotas per client need a gateway in front",
            ),
        ),
    ),
    Scenario(
        name="cost-sensitive",
        title="Cost-sensitive deployment",
        advice="dense 31B with weights of 8 bits, 30 to 40 % cheaper per hour",
        source=_MATRIX_31B,
        models=(_31B, _26B, _E4B, _E2B),
        context=Given(4096, "assumed", "the matrix names none"),
        concurrency=Given(8, "assumed", "the matrix names none"),
        remarks=(
            Remark(
                "8-bit weights make the hour 30 to 40 % cheaper",
                "chips are billed by the hour whatever the data type: weights of 8 bits save money"
                " only where fewer chips hold the model, and there is no slice between one chip and"
                " four. A smaller model on one chip is what costs less",
            ),
            Remark(
                "an edge deployment",
                "TPU v6e is in Google's zones only: see --scenario edge",
            ),
        ),
    ),
    Scenario(
        name="low-traffic",
        title="Low traffic, development, testing",
        advice="E2B or E4B on v6e-1",
        source=_MATRIX_E2B,
        models=(_E2B, _E4B),
        context=Given(16_384, "matrix", "max_model_len 16384"),
        concurrency=Given(32, "matrix", "1 to 32 users"),
        remarks=(
            Remark(
                "development and testing",
                "the dev stack runs on this machine with a small model, and is free: `tpuflex up`",
            ),
        ),
    ),
    Scenario(
        name="high-concurrency",
        title="High-concurrency production",
        advice="E2B or E4B on v6e-4 with an fp8 KV cache",
        source=_MATRIX_E2B,
        models=(_E2B, _E4B),
        context=Given(16_384, "matrix", "max_model_len 16384"),
        concurrency=Given(1024, "matrix", "saturates at 1,024 users"),
        remarks=(
            Remark(
                "an fp8 KV cache doubles the tokens that fit",
                "not with one KV head per chip, which E2B always has and E4B from two chips on: its"
                " cache then takes as much as in bfloat16",
                (
                    Source(
                        where="tpu-inference 0.32.0,"
                        " kernels/ragged_paged_attention/v3/kernel.py, and a boot log",
                        date=date(2026, 11, 21),
                    ),
                ),
            ),
        ),
    ),
    Scenario(
        name="agentic",
        title="Agents, complex reasoning",
        advice="12B on v6e-4, 16,384 tokens",
        source=_MATRIX_E2B,
        models=(_12B,),
        context=Given(16_384, "matrix", "--max-model-len 16384"),
        concurrency=Given(16, "assumed", "the matrix names none"),
    ),
    Scenario(
        name="dedicated",
        title="High throughput at low cost, all day",
        advice="vLLM on chips of one's own",
        source=_MATRIX_STRATEGIES,
        models=(_LLAMA,),
        context=Given(8192, "assumed", "the matrix names none"),
        concurrency=Given(256, "matrix", "--max-num-seqs 256"),
        remarks=(Remark("60 to 70 % cheaper than serverless at scale", _CLAIMED),),
    ),
    Scenario(
        name="serverless",
        title="Low latency, variable traffic",
        advice="serverless managed inference",
        source=_MATRIX_STRATEGIES,
        elsewhere=Elsewhere(
            "Cloud Run with a GPU, which serves Gemma 4 with vLLM and scales to zero",
            "a Flex-start slice waits in a queue for capacity, is billed while it is idle, and does"
            " not scale with traffic",
            (_CLOUD_RUN,),
        ),
        remarks=(Remark("3 to 4 times dearer per token above 50 requests/s", _CLAIMED),),
    ),
    Scenario(
        name="edge",
        title="Edge, devices, offline",
        advice="a quantised GGUF checkpoint with llama.cpp",
        source=_MATRIX_STRATEGIES,
        elsewhere=Elsewhere(
            "llama.cpp with a GGUF checkpoint on the machine itself",
            "TPU v6e chips are in Google's zones only, and an endpoint needs the network",
            (_LLAMA_CPP,),
        ),
    ),
    Scenario(
        name="routing",
        title="Several models, routing and fallback",
        advice="vLLM behind Envoy or a proxy of one's own",
        source=_MATRIX_STRATEGIES,
        elsewhere=Elsewhere(
            "a stack of tpuflex for each model, and a gateway in front, such as Envoy AI Gateway",
            "a stack serves one model, and nothing here routes between stacks",
            (_ENVOY_AI,),
        ),
        remarks=(Remark("5 to 8 % of infrastructure cost on top", _CLAIMED),),
    ),
    Scenario(
        name="prototyping",
        title="Rapid prototyping, internal tools",
        advice="a managed API with its SDK",
        source=_MATRIX_STRATEGIES,
        elsewhere=Elsewhere(
            "a managed API, such as the Gemini API, which also serves Gemma",
            "chips are billed by the hour, used or not, and a first start takes long; to try this"
            " tool itself, the dev stack runs on this machine and is free",
            (_GEMINI_API,),
        ),
        remarks=(Remark("acceptable below 10,000 requests a day", _CLAIMED),),
    ),
)

_BY_NAME = {row.name: row for row in SCENARIOS}


def scenario(name: str) -> Scenario | None:
    """The scenario called ``name``, or None."""
    return _BY_NAME.get(name)


def nearest_scenarios(name: str) -> list[str]:
    """Names like ``name``."""
    return difflib.get_close_matches(name.lower(), _BY_NAME, n=3, cutoff=0.5)
