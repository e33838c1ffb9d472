"""`tpuflex emulator start --strict` and `tpuflex emulator strictness`."""

from __future__ import annotations

import json

import pytest

from embedded_cloud.strictness import LENIENT, STRICT, Strictness
from tests.cli.typing import TypeIn


def test_strictness_is_shown_set_and_kept_over_a_reset(type_in: TypeIn) -> None:
    """Strict from the start, changed in one area, lenient again by name."""

    def shown(*words: str) -> Strictness:
        typed = type_in("emulator", "strictness", *words)
        assert typed.code == 0, typed.err
        return Strictness.from_json(json.loads(typed.out))

    assert type_in("emulator", "start", "--port", "0", "--strict").code == 0
    try:
        assert shown() == STRICT
        changed = shown('{"apis": {"answers_after_s": 1}}')
        assert changed == STRICT.merged({"apis": {"answers_after_s": 1}})
        assert type_in("emulator", "reset", "--yes").code == 0
        assert shown() == STRICT
        assert shown("lenient") == LENIENT
        wrong = type_in("emulator", "strictness", '{"apis": {"enforce": 1}}')
        assert wrong.code != 0
        assert "apis.enforce: Unexpected keyword" in wrong.err
    finally:
        type_in("emulator", "stop")


@pytest.mark.parametrize("change", ["harsh", "[1]", "{'apis': 1}"])
def test_what_is_no_preset_and_no_json_is_refused(type_in: TypeIn, change: str) -> None:
    """Exit code 2 with an example, before anything is asked."""
    typed = type_in("emulator", "strictness", change)
    assert typed.code == 2
    assert "JSON object" in typed.err or '{"apis": {"enforced": true}}' in typed.err
