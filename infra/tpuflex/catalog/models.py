"""Models of known size, so that a model that cannot fit is reported early."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from tpuflex.catalog import Source

_CONFIGS = Source(
    "built on the meta device with transformers 5.19 from the model's config", date(2026, 11, 1)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One model.

    Attributes:
        name: Hugging Face id.
        text_params_b: parameters of the text model, in billions.
        bf16_gb: size of the text weights in bfloat16, in GB.
        source: where the numbers come from.
    """

    name: str
    text_params_b: float
    bf16_gb: float
    source: Source


MODELS: dict[str, Model] = {
    name: Model(name=name, text_params_b=params, bf16_gb=size, source=_CONFIGS)
    for name, params, size in (
        ("google/gemma-4-31B-it", 30.697, 61.4),
        ("google/gemma-4-26B-A4B-it", 25.233, 50.5),
        ("google/gemma-4-E4B-it", 7.463, 14.9),
        ("google/gemma-4-E2B-it", 4.629, 9.3),
        ("google/gemma-3-27b-it", 27.009, 54.0),
        ("google/gemma-3-12b-it", 11.766, 23.5),
        ("google/gemma-3-4b-it", 3.880, 7.8),
        ("google/gemma-3-1b-it", 1.000, 2.0),
    )
}


def model(name: str) -> Model | None:
    """The model called ``name``, or None; most models are not in the table."""
    return MODELS.get(name)
