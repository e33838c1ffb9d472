"""An endpoint in a project whose APIs others enable, under Pulumi's mocks."""

from __future__ import annotations

from collections.abc import Callable

from tests.components.pulumi_plan import Plan
from tests.unit.stack_sections import embedded, sections

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


def test_no_registry_is_asked_for_an_image_of_the_library(deployed: Deploy) -> None:
    """Its API is not enabled, which an organisation may forbid; all others are, and nothing changes
    for a stack whose hosts ask one."""
    library = {
        "serving.image_source": "library",
        "serving.image_manifest_sha256": "6b" * 32,
        "model.weights.bucket": "library",
    }
    asking, own = deployed(sections()), deployed(sections(library))

    def enabled(plan: Plan) -> set[str]:
        services = (name for name in plan.inputs if name.startswith(f"{SERVICE} "))
        return {str(plan.inputs[name]["service"]) for name in services}

    assert enabled(asking) - enabled(own) == {"artifactregistry.googleapis.com"}
    assert enabled(own) <= enabled(asking)
    assert plan_inputs(asking) == {"project": "acme-serving"}
    assert plan_inputs(own) == {"project": "acme-serving", "asksRegistries": False}


def plan_inputs(plan: Plan) -> dict[str, object]:
    """What the state shows of the component that enables them."""
    return dict(plan.inputs["tpuflex:index:ApiServices vllm-apis"])
