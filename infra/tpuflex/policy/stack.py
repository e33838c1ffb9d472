"""What the rules know of the stack beside its planned resources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from tpuflex.catalog.vllm_version import SECURITY_FLOOR
from tpuflex.planning.cost import OtherRuns, run_cost
from tpuflex.settings.model import StackSettings


@dataclass(frozen=True, slots=True)
class KnownVersion:
    """The vLLM in an image of the catalog.

    Attributes:
        version: its version.
        floor: the oldest that may serve from that image.
    """

    version: str
    floor: str


@dataclass(frozen=True, slots=True)
class StackFacts:
    """The stack, as far as the rules ask.

    Attributes:
        image: its serving image; None if there are no settings.
        vllm_versions: what the catalog knows of images, by digest.
        run_usd: what a run costs at most, in US dollars; None if there is no price.
        per_run_usd: the cap for a run; None if there is none.
        per_project_usd: the cap for all runs of the project; None if there is none.
        other_runs: the other runs of the project; None where nothing could ask for them.
    """

    image: str | None = None
    vllm_versions: Mapping[str, KnownVersion] = field(default_factory=dict)
    run_usd: Decimal | None = None
    per_run_usd: Decimal | None = None
    per_project_usd: Decimal | None = None
    other_runs: OtherRuns | None = None

    @classmethod
    def of(cls, settings: StackSettings, other_runs: OtherRuns | None = None) -> StackFacts:
        """The facts of ``settings``, with the other runs of its project."""
        return cls(
            image=settings.serving.image,
            vllm_versions={
                digest: KnownVersion(row.vllm_version, row.security_floor or SECURITY_FLOOR)
                for digest, row in settings.catalog.images.items()
                if row.vllm_version is not None
            },
            run_usd=run_cost(settings).maximum,
            per_run_usd=settings.budget.per_run_usd,
            per_project_usd=settings.budget.per_project_usd,
            other_runs=other_runs,
        )
