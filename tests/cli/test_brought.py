"""What commands refuse of secrets that are the user's own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.stack_sections import sections
from tpuflex.cli.stack import OpenStack
from tpuflex.cli.steps.secrets import require_role
from tpuflex.errors import SettingsError
from tpuflex.naming import API_KEY
from tpuflex.settings.load import parse


def with_(stack: OpenStack, **changes: object) -> OpenStack:
    """``stack`` with these settings."""
    named = {key.replace("__", "."): value for key, value in changes.items()}
    return replace(stack, settings=parse(sections(named), "test"))


def test_nothing_is_put_into_a_secret_of_yours(stack: OpenStack) -> None:
    """It is said what to do instead."""
    name = "projects/acme-vault/secrets/vllm-key/versions/3"
    with pytest.raises(SettingsError) as caught:
        require_role(with_(stack, secrets={"api_key": name}), API_KEY)

    assert [str(each) for each in caught.value.findings] == [
        f"tpuflex:secrets.api_key: it is {name}, a secret of yours, to which tpuflex adds nothing."
        " Add the version there, and write its number here; or remove the line for a secret of the"
        " stack's own."
    ]
    require_role(with_(stack), API_KEY)
