"""Secrets: a home that moves takes them without their values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.cli.typing import NOON, Captured
from tpuflex.cli.preview.comment import preview_markdown
from tpuflex.cli.preview.run import show
from tpuflex.cli.stack_plan import show_plan
from tpuflex.deploy.plan import (
    StackPlan,
    replaced_secret_texts,
    replaced_secrets,
    require_first_versions,
)
from tpuflex.deploy.stack_preview import Preview
from tpuflex.engine.events import Drift, EnginePlan, Step
from tpuflex.errors import SettingsError
from tpuflex.inventory.kinds import SECRET
from tpuflex.naming import API_KEY, METRICS_KEY, TLS_CERTIFICATE
from tpuflex.planning.cost import run_cost
from tpuflex.settings.secrets import SecretsSettings
from tpuflex.stack.stack import Stack
from tpuflex.terminal.output import Output


def with_secrets(stack: Stack, **versions: object) -> Stack:
    """The stack with these pinned versions."""
    secrets = SecretsSettings.model_validate(versions)
    return replace(stack, settings=stack.settings.model_copy(update={"secrets": secrets}))


def plan(stack: Stack, operation: str, *roles: str) -> EnginePlan:
    """What is done with the secrets for ``roles``."""
    return EnginePlan(
        tuple(
            Step(operation, SECRET.type, f"vllm-secrets-{role}", f"urn:{role}", {"secretId": id_})
            for role in roles
            for id_ in (stack.names.secret(role),)
        )
    )


def test_who_agrees_is_told_that_clients_need_another_key(stack: Stack, capsys: Captured) -> None:
    """In the plan that `up` and `preview` show, in that for scripts and in the comment."""
    moved = StackPlan(stack, plan(stack, "replace", API_KEY), run_cost(stack.settings))
    show_plan(Output(json=False, verbose=False), moved)

    said = (
        "tpuflex-dev-vllm-api-key is made anew in us-east5, with a new key: the one that clients"
        " have is gone with it, so give them the new one"
    )
    assert f"  secret     {said}\n" in capsys.readouterr().out
    assert moved.to_json()["secrets_made_anew"] == ["api-key"]
    report = Preview("dev", "p", moved, "0" * 64, NOON, None)
    assert f"> [!WARNING]\n> `{said}`" in preview_markdown(report)
    show(report, Output(json=False, verbose=False))
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("operation", ["create", "update", "delete", "same"])
def test_other_plans_say_nothing_of_it(stack: Stack, operation: str) -> None:
    """A secret that is changed in place keeps its versions; a first one has none to lose."""
    other = plan(stack, operation, API_KEY)

    assert replaced_secrets(stack, other) == ()
    require_first_versions(with_secrets(stack, api_key_version=3), other)


def test_what_only_somebody_else_can_put_again(stack: Stack) -> None:
    """A certificate is nothing that `up` could make: whoever has it puts it again."""
    mine = with_secrets(stack, tls_certificate_version=1, metrics_key_version=1)

    certificate, metrics = replaced_secret_texts(
        mine, plan(mine, "replace", TLS_CERTIFICATE, METRICS_KEY)
    )

    assert "have its value at hand" in certificate
    assert "`tpuflex secrets put tls-certificate --stack dev`" in certificate
    assert "give it to what collects the metrics" in metrics


def test_what_somebody_has_deleted_gets_another_value(stack: Stack) -> None:
    """Before the question it is said of a secret that was deleted outside, and not of one that is
    made for the first time."""
    mine = with_secrets(stack, tls_certificate_version=1)
    made = plan(mine, "create", API_KEY, TLS_CERTIFICATE, METRICS_KEY)
    gone = [Drift(step.type, step.name) for step in made.steps[:2]]

    key, certificate = replaced_secret_texts(mine, replace(made, drift=tuple(gone)))

    assert "was deleted, and is made again with a new key: the one that clients have" in key
    assert "made again, empty: put its value with `tpuflex secrets put tls-cert" in certificate
    assert [*replaced_secret_texts(mine, made)] == []


def test_a_later_version_of_a_new_secret_is_refused_at_the_plan(stack: Stack) -> None:
    """It would fail when the slice that served is deleted already: each is refused by its key."""
    mine = with_secrets(stack, api_key_version=2, tls_certificate_version=3, metrics_key_version=1)
    moved = plan(mine, "replace", API_KEY, TLS_CERTIFICATE, METRICS_KEY)

    with pytest.raises(SettingsError) as refused:
        require_first_versions(mine, moved)

    keys = [(each.key, each.remedy) for each in refused.value.findings]
    assert keys == [
        ("tpuflex:secrets.api_key_version", "Write 1. Nothing was changed."),
        ("tpuflex:secrets.tls_certificate_version", "Write 1. Nothing was changed."),
    ]
    assert "its versions begin with 1" in refused.value.findings[0].problem
    require_first_versions(with_secrets(stack), plan(stack, "replace", API_KEY))
