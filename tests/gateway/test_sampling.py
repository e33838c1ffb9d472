"""Parameters of sampling that a class of requests has."""

from __future__ import annotations

from typing import Any

import pytest

from tpuflex.gateway.door import with_sampling
from tpuflex.settings.gateway import BUILTIN_CLASSES, SamplingSettings

DEFAULTS = SamplingSettings(temperature=0, top_p=0.5, max_tokens=256)
ENFORCED = DEFAULTS.model_copy(update={"enforce": True})


@pytest.mark.parametrize(
    ("said", "sampling", "expected"),
    [
        ({}, SamplingSettings(), {}),
        ({}, DEFAULTS, {"temperature": 0, "top_p": 0.5, "max_tokens": 256}),
        (
            {"temperature": None, "max_tokens": None, "max_completion_tokens": None},
            DEFAULTS,
            {
                "temperature": 0,
                "top_p": 0.5,
                "max_tokens": 256,
                "max_completion_tokens": None,
            },
        ),
        # What a request says itself holds, 0 too.
        (
            {"temperature": 1, "top_p": 1, "max_tokens": 1000},
            DEFAULTS,
            {"temperature": 1, "top_p": 1, "max_tokens": 1000},
        ),
        (
            {"temperature": 0, "max_tokens": 0},
            SamplingSettings(temperature=1, max_tokens=5),
            {"temperature": 0, "max_tokens": 0},
        ),
        # The newer name of the limit is one, too.
        (
            {"max_completion_tokens": 1000},
            SamplingSettings(max_tokens=256),
            {"max_completion_tokens": 1000},
        ),
        # Where it is enforced the lower limit holds, under whichever name.
        (
            {"temperature": 1, "top_p": 1, "max_tokens": 1000},
            ENFORCED,
            {"temperature": 0, "top_p": 0.5, "max_tokens": 256},
        ),
        ({"max_tokens": 10}, ENFORCED, {"temperature": 0, "top_p": 0.5, "max_tokens": 10}),
        (
            {"max_tokens": 10, "max_completion_tokens": 1000},
            ENFORCED,
            {"temperature": 0, "top_p": 0.5, "max_tokens": 10, "max_completion_tokens": 256},
        ),
        ({}, ENFORCED, {"temperature": 0, "top_p": 0.5, "max_tokens": 256}),
        (
            {"temperature": 0.7},
            SamplingSettings(top_p=0.9, enforce=True),
            {"temperature": 0.7, "top_p": 0.9},
        ),
    ],
)
def test_what_a_request_does_not_say_it_gets_from_its_class(
    said: dict[str, Any], sampling: SamplingSettings, expected: dict[str, Any]
) -> None:
    before = dict(said)

    assert with_sampling({"model": "m", **said}, sampling) == {"model": "m", **expected}
    assert said == before


def test_extraction_is_at_temperature_0_with_256_tokens() -> None:
    sampling = BUILTIN_CLASSES["extraction"].sampling

    assert with_sampling({}, sampling) == {"temperature": 0, "max_tokens": 256}
