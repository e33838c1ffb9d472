"""Whatever a stack file holds, the answer is settings or findings that name their keys."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.stack_sections import sections
from tpuflex.errors import SettingsError
from tpuflex.settings.load import parse
from tpuflex.settings.model import StackSettings
from tpuflex.settings.network import NetworkSettings
from tpuflex.settings.rules import warnings
from tpuflex.settings.serving import ServingFlags, ServingSettings
from tpuflex.settings.slice import SliceSettings

_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.dates()
    | st.sampled_from(["4h", "8d", "v6e-4", "us-east5-a", "google", "0.0.0.0/0", "a/b"])
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=8) | st.integers(), inner, max_size=3)
        | st.fixed_dictionaries({"secure": inner})
    ),
    max_leaves=6,
)
_PATHS = st.sampled_from(
    [
        *StackSettings.model_fields,
        *(f"slice.{name}" for name in SliceSettings.model_fields),
        *(f"network.{name}" for name in NetworkSettings.model_fields),
        *(f"serving.{name}" for name in ServingSettings.model_fields),
        *(f"serving.flags.{name}" for name in ServingFlags.model_fields),
        "model.name",
        "model.weights.source",
        "model.weights.revision",
        "secrets.api_key_version",
        "slice.timeouts.queue",
        "serving.env.HF_TOKEN",
        "unknown",
        "slice.unknown",
    ]
)


def outcome(mapping: dict[str, Any]) -> SettingsError | None:
    """None when ``mapping`` is right, the error when it is not; anything else escapes."""
    try:
        result = parse(mapping, "fuzz")
    except SettingsError as error:
        return error
    assert warnings(result) is not None
    assert parse(result.model_dump(mode="json"), "fuzz") == result
    return None


@settings(deadline=None, max_examples=300)
@given(st.dictionaries(st.sampled_from([*StackSettings.model_fields, "x"]), _VALUES, max_size=7))
def test_any_mapping(mapping: dict[str, Any]) -> None:
    """A mapping of nothing but odd values gives findings, each under a key of ours."""
    error = outcome(mapping)

    assert error is not None
    assert error.findings
    assert all(finding.key.startswith("tpuflex:") for finding in error.findings)
    assert all(finding.problem for finding in error.findings)


@settings(deadline=None, max_examples=500)
@given(st.dictionaries(_PATHS, _VALUES, min_size=1, max_size=3))
def test_one_odd_value_in_a_good_stack(changes: dict[str, Any]) -> None:
    """An odd value in a good stack file is accepted or found under a key that it belongs to."""
    try:
        mapping = sections(changes)
    except (AttributeError, TypeError):
        return  # the change was to be made inside of a value that is no section
    error = outcome(mapping)

    if error is not None:
        assert error.findings
        assert all(finding.key.startswith("tpuflex:") for finding in error.findings)


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=40))
def test_any_text_in_a_stack_file(text: str) -> None:
    """Scalars read by YAML go the same way as given values."""
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        return
    outcome(sections({"slice.max_run_duration": value}))
