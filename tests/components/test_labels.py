"""Labels of the user's on what an endpoint makes, under Pulumi's mocks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.components.pulumi_plan import Plan
from tests.unit.stack_sections import sections

Deploy = Callable[..., Plan]

#: What carries labels: everything else of an endpoint can carry none.
LABELLED = {
    "gcp:dns/managedZone:ManagedZone": 3,
    "gcp:secretmanager/secret:Secret": 3,
    "gcp:storage/bucket:Bucket": 1,
    "tpuflex:tpu:QueuedResource": 1,
}
MINE = {"cost-centre": "4711", "team": "search", "empty": ""}


def labels_of(plan: Plan) -> dict[str, dict[str, str]]:
    """The labels of each resource that has some."""
    found = {key: inputs.get("labels") for key, inputs in plan.inputs.items()}
    made = {key: value for key, value in found.items() if value and not key.startswith("tpuflex:i")}
    return {key: dict(value) for key, value in made.items()}


@pytest.mark.parametrize("preview", [False, True])
def test_all_that_can_carry_labels_has_those_of_the_user(deployed: Deploy, preview: bool) -> None:
    """Beside the marks by which a teardown finds it, and these stay as they were."""
    more = {"secrets.tls_certificate_version": 1}
    before = labels_of(deployed(sections(more), preview=preview))
    plan = deployed(sections({**more, "labels": MINE}), preview=preview)
    after = labels_of(plan)

    types = [key.split(" ")[0] for key in after]
    assert {type_: types.count(type_) for type_ in types} == LABELLED
    assert after == {key: {**MINE, **value} for key, value in before.items()}
    assert plan.inputs["tpuflex:index:VllmEndpoint vllm"]["labels"] == MINE


def test_every_type_with_labels_is_labelled(deployed: Deploy) -> None:
    """A resource that is added one day, and could carry labels, is not forgotten."""
    import pulumi_gcp

    plan = deployed(sections({"labels": MINE}))
    labelled = {key.split(" ")[0] for key in labels_of(plan)}
    modules = {"gcp": pulumi_gcp}
    for key in plan.inputs:
        type_ = key.split(" ")[0]
        if not type_.startswith("gcp:"):
            continue
        module, name = type_.split(":")[1].split("/")[0], type_.rpartition(":")[2]
        class_ = getattr(getattr(modules["gcp"], module), name)
        assert hasattr(class_, "labels") == (type_ in labelled), type_
