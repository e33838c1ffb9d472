"""The text of a new stack file: it says what it was given, and reads back as that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.stack_sections import embedded, sections
from tpuflex.errors import SettingsError
from tpuflex.settings.load import load_stack_file, parse
from tpuflex.settings.stack_text import stack_text

ROOT = Path(__file__).parents[2]

_SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**60), 2**60),
    st.text(),
    st.floats(allow_nan=False, allow_infinity=False),
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_the_whole_text() -> None:
    """Schema, heading, comments above their keys, values each on one line, in the given order."""
    text = stack_text(
        sections({"serving.flags": {"max_model_len": 2048, "limit_mm_per_prompt": {"image": 4}}}),
        ["A stack that was made", "", "for a test."],
        comments={
            "slice": ["The chips."],
            "serving.flags.max_model_len": ["The longest prompt", "with its answer."],
        },
        schema="stack.schema.json",
    )

    assert text == (ROOT / "tests" / "goldens" / "stack-text.yaml").read_text()


def test_it_reads_back_as_the_same_settings(tmp_path: Path) -> None:
    """A file with the text has the settings that the sections have."""
    given_sections = embedded({"slice.renew_before": "1h", "network.allowed_cidrs": ["10.0.0.0/8"]})
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(stack_text(given_sections))

    assert load_stack_file(file).settings == parse(given_sections, "sections")


def test_settings_objects_are_taken_too(tmp_path: Path) -> None:
    """Sections of a stack that was read can be written again."""
    settings = load_stack_file(ROOT / "stacks" / "Pulumi.dev.yaml").settings
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(
        stack_text({name: getattr(settings, name) for name in type(settings).model_fields})
    )

    assert load_stack_file(file).settings == settings


def test_embedded_stacks_have_the_salt_of_their_passphrase() -> None:
    """The engine finds a salt, and need not write one into the file."""
    dev = yaml.safe_load((ROOT / "stacks" / "Pulumi.dev.yaml").read_text())

    assert yaml.safe_load(stack_text(embedded()))["encryptionsalt"] == dev["encryptionsalt"]
    assert "encryptionsalt" not in stack_text(sections())


@given(value=_VALUES, remark=st.text())
def test_any_value_and_any_comment(value: Any, remark: str) -> None:
    """Whatever a value or a comment holds, the value reads back, and the comment adds nothing."""
    flags = {"additional_config": {"a": value, "b": 1}}
    text = stack_text(
        {"serving": {"flags": flags}},
        [remark],
        comments={"serving.flags": [remark]},
        schema=remark,
    )
    read = yaml.safe_load(text)

    assert list(read) == ["config"]
    assert list(read["config"]) == ["tpuflex:serving"]
    found = read["config"]["tpuflex:serving"]["flags"]["additional_config"]
    assert found == {"a": value, "b": 1}


def test_settings_without_a_value_are_left_out() -> None:
    """None and empty sections say nothing; a null inside of a value of vLLM's does."""
    text = stack_text(
        {
            "network": {"allowed_cidrs": None},
            "serving": {"env": {}, "flags": {"dtype": None, "additional_config": {"a": None}}},
        }
    )

    assert yaml.safe_load(text)["config"] == {
        "tpuflex:serving": {"flags": {"additional_config": {"a": None}}}
    }


def test_a_comment_that_belongs_to_no_key() -> None:
    """A comment whose key is misspelt is an error, and is not lost."""
    with pytest.raises(KeyError, match=r"slice\.zone "):
        stack_text(sections(), comments={"slice.zone": ["The zone."]})


def test_a_value_that_no_stack_file_can_hold() -> None:
    """It is refused with its key."""
    with pytest.raises(SettingsError, match="tpuflex:project"):
        stack_text(sections({"project": float("nan")}))
