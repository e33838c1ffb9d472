"""P4: everything that an endpoint makes says which state made it."""

from __future__ import annotations

import pytest

from tests.components.conftest import EMBEDDED_ENVIRON
from tests.components.pulumi_plan import Plan, run_program
from tests.unit.stack_sections import embedded
from tpuflex.inventory.kinds import of_type
from tpuflex.naming import Names
from tpuflex.program import deploy
from tpuflex.settings.load import parse

STATE = "0123456789abcdef0123"  # what the mocks answer
STATE_ID = "tpuflex:tpu:StateId vllm-state"
NAMES = Names("tpuflex", "dev", "vllm")
#: The endpoint has a network without a way to the internet, and so no router.
KINDS_WITH_A_MARK = {
    *("queued resource", "network", "subnetwork", "firewall rule", "DNS zone"),
    *("service account", "bucket", "secret"),
}


def planned(*, preview: bool = False) -> Plan:
    settings = parse({**embedded(), "network": {"allowed_cidrs": ["10.0.0.0/8"]}}, "test")
    given = {"environ": EMBEDDED_ENVIRON, "project": "tpuflex", "stack": "dev"}
    return run_program(lambda: deploy(settings, **given), preview=preview)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def plan() -> Plan:
    return planned()


def marked(plan: Plan) -> list[str]:
    """Addresses of all that can carry a mark of its own."""
    kinds = {address: of_type(address.split(" ")[0]) for address in plan.inputs}
    found = {address: kind for address, kind in kinds.items() if kind and kind.found_by == "api"}
    assert {kind.name for kind in found.values()} == KINDS_WITH_A_MARK
    return [*found]


def test_all_that_can_be_marked_names_its_state(plan: Plan) -> None:
    """S5: labels and descriptions name the state that made a resource, not only its project."""
    for address in marked(plan):
        inputs = plan.inputs[address]
        if "labels" in inputs:
            assert inputs["labels"] == NAMES.labels(STATE), address
        else:
            assert inputs["description"] == NAMES.description(STATE), address


def test_the_state_id_is_made_first_and_deleted_last(plan: Plan) -> None:
    """S5: while anything of a state exists, the state knows its id."""
    assert all(STATE_ID in plan.dependencies[address] for address in marked(plan))


def test_a_preview_promises_no_id() -> None:
    """The id is drawn when it is made; the other labels are known before."""
    labels = planned(preview=True).inputs["tpuflex:tpu:QueuedResource vllm"]["labels"]

    assert NAMES.labels().items() <= labels.items()
