"""What commands refuse of a bucket and of secrets that are the user's own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.stack_sections import sections
from tpuflex.cli.region_source import region_source, require_grants_allowed
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


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {
                "model__weights__bucket": "gs://acme-models",
                "model__weights__manage_grants": False,
                "identity": {"service_account": "serving@my-project-id.iam.gserviceaccount.com"},
            },
            "tpuflex:model.weights.manage_grants: it is false, so no machine is let into"
            " gs://acme-models.",
        ),
        (
            {
                "secrets": {
                    "hf_token": "projects/acme-vault/secrets/hub/versions/1",
                    "manage_grants": False,
                }
            },
            "tpuflex:secrets.manage_grants: it is false, so no machine may read"
            " projects/acme-vault/secrets/hub/versions/1.",
        ),
    ],
)
def test_no_machine_is_let_in_where_nobody_may_be(
    stack: OpenStack, changes: dict[str, object], said: str
) -> None:
    """Where tpuflex is to grant nothing; the same works from here. Into a bucket, and with a
    secret, where it may, a machine copies."""
    allowed = {"hf_token": "projects/acme-vault/secrets/hub/versions/1"}
    hub, theirs = region_source("hf://acme/tiny"), "gs://acme-models"
    require_grants_allowed(with_(stack, model__weights__bucket=theirs, secrets=allowed), hub)
    with pytest.raises(SettingsError) as caught:
        require_grants_allowed(with_(stack, **changes), hub)

    assert [str(each) for each in caught.value.findings] == [said]
    assert caught.value.hint == f"Push from here: tpuflex weights push --stack {stack.name}"
