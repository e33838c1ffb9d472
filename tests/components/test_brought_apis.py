"""An endpoint in a project whose APIs others enable, under Pulumi's mocks."""

from __future__ import annotations

from collections.abc import Callable

from tests.components.pulumi_plan import Plan
from tests.unit.stack_sections import embedded

Deploy = Callable[..., Plan]

SERVICE = "gcp:projects/service:Service"


def test_no_api_is_enabled_where_others_do_that(deployed: Deploy) -> None:
    """Nothing else changes: what waited for the APIs is made as before, and the state says why."""
    before = deployed(embedded()).counts()
    plan = deployed(embedded({"manage_apis": False}))

    assert before.pop(SERVICE) > 1
    assert before.pop("tpuflex:index:ApiServices") == 1
    assert plan.counts() == before
    assert plan.inputs["tpuflex:index:VllmEndpoint vllm"]["manage_apis"] is False


def test_by_default_the_state_says_nothing_of_it(deployed: Deploy) -> None:
    """States that are older than the setting have no change."""
    for given in (embedded(), embedded({"manage_apis": True})):
        plan = deployed(given)
        assert "manage_apis" not in plan.inputs["tpuflex:index:VllmEndpoint vllm"]
