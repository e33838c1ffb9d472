"""How strict the embedded cloud is: what is in force, how it changes, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from embedded_cloud.core.errors import CloudError
from embedded_cloud.core.strictness import LENIENT, Strictness
from embedded_cloud.server import EmbeddedCloud
from embedded_cloud.strict.book import PRESETS, STRICT
from tests.embedded_cloud.api import TOKEN, Api, error_of
from tpuflex.cli.emulator import command as emulator_command

#: What a project has or may, not what Google refuses: the strict preset leaves them as they are.
_NEVER_STRICT = {"billing", "docker", "iam", "organization_policies", "permissions"}


def _strictness(api: Api, change: Any = None, **query: str) -> Any:
    method = "GET" if change is None and not query else "POST"
    answer = api.call(method, "/_emulator/strictness", body=change, **query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_nothing_is_refused_or_delayed_unless_asked(api: Api) -> None:
    """The default is lenient in every area."""
    assert Strictness.from_json(_strictness(api)) == LENIENT
    assert LENIENT.areas == ()


def test_the_preset_is_strict_in_every_area() -> None:
    """STRICT leaves no area lenient, and survives its own JSON."""
    everything = set(LENIENT.to_json())
    assert set(STRICT.areas) | _NEVER_STRICT == everything | _NEVER_STRICT
    assert Strictness.from_json(json.loads(json.dumps(STRICT.to_json()))) == STRICT


def test_a_change_leaves_alone_what_it_does_not_name(api: Api) -> None:
    """One key of one area at a time; null makes a key lenient again."""
    _strictness(api, {"apis": {"enforced": True}})
    changed: Any = {"apis": {"enforced": True, "answers_after_s": 5}}
    merged = Strictness.from_json(_strictness(api, {"apis": {"answers_after_s": 5}}))
    assert merged == Strictness.from_json(changed)
    merged = Strictness.from_json(_strictness(api, {"apis": {"enforced": None}}))
    assert merged == Strictness.from_json({"apis": {"answers_after_s": 5}})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"api": {}}, "api: Unexpected keyword"),
        ({"apis": {"enforce": True}}, "apis.enforce: Unexpected keyword"),
        ({"apis": {"enforced": "yes"}}, "apis.enforced: Input should be a valid boolean"),
        ({"apis": {"answers_after_s": -1}}, "apis.answers_after_s: Input should be greater"),
        ({"apis": True}, "apis: Input should be an object"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(api: Api, change: Any, named: str) -> None:
    """400 that names the key; nothing has changed."""
    answer = api.call("POST", "/_emulator/strictness", body=change)
    assert error_of(answer)[:2] == (400, "INVALID_ARGUMENT")
    assert named in error_of(answer)[2]
    assert Strictness.from_json(_strictness(api)) == LENIENT
    with pytest.raises(CloudError, match="areas: "):
        Strictness.from_json(change)


@pytest.mark.parametrize("query", [{"preset": "harsh"}, {"preset": ""}])
def test_only_presets_that_exist_are_set(api: Api, query: dict[str, str]) -> None:
    """400 with the names of the presets."""
    answer = api.call("POST", "/_emulator/strictness", **query)
    assert error_of(answer)[0] == 400
    assert "lenient, strict" in error_of(answer)[2]


def test_strictness_survives_a_restart(tmp_path: Path) -> None:
    """The same state directory is as strict as before."""
    state = tmp_path / "emulator"
    with EmbeddedCloud(state, token=TOKEN, strictness={"apis": {"enforced": True}}):
        pass
    with EmbeddedCloud(state, token=TOKEN) as cloud:
        assert cloud.cloud.strictness.current().apis.enforced


def test_a_reset_returns_to_the_preset(api: Api) -> None:
    """A single change is forgotten; a preset is not."""
    for preset in ("lenient", "strict"):
        _strictness(api, preset=preset)
        _strictness(api, {"apis": {"answers_after_s": 1}})
        assert api.call("POST", "/_emulator/reset").status_code == 200
        assert Strictness.from_json(_strictness(api)) == PRESETS[preset]


def test_the_command_line_knows_the_presets() -> None:
    """`tpuflex emulator strictness NAME` takes the names that exist."""
    assert set(emulator_command._PRESETS) == set(PRESETS)
