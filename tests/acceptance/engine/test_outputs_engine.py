"""P9 under the real engine: what an endpoint is given is made by the same program."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
from pulumi import automation
from pulumi.automation.errors import CommandError
from pulumi_gcp import compute, serviceaccount

from tests.acceptance.engine.test_endpoint_engine import Workplace, changes, workplace
from tests.unit.stack_sections import PIN
from tpuflex import VllmEndpoint, VllmEndpointArgs
from tpuflex.settings.load import load_stack_file

__all__ = ["workplace"]

pytestmark = [
    pytest.mark.engine,
    # Pulumi's SDK abandons the event loop of an inline program whose engine failed.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
CANARY = "canary-7d31f0"
SLICE = "tpuflex:tpu:QueuedResource"


class Program:
    """A network and a service account, and an endpoint that has both."""

    def __init__(self, workplace: Workplace) -> None:
        self.settings = load_stack_file(workplace.stack_file).settings
        self.range = "10.20.0.0/16"
        self.secret = False

    def __call__(self) -> None:
        settings = self.settings
        network = compute.Network(
            "team", name="team", project=settings.project, auto_create_subnetworks=False
        )
        subnetwork = compute.Subnetwork(
            "serving",
            name="serving",
            project=settings.project,
            network=network.id,
            region=settings.region,
            ip_cidr_range="10.7.0.0/24",
            private_ip_google_access=True,
        )
        section = {
            "name": network.id,
            "subnetwork": subnetwork.id,
            "egress": "existing",
            "allowed_cidrs": ["10.30.0.0/16", network.id.apply(lambda _: self.range)],
            "tags": network.name.apply(lambda name: [f"from-{name}"]),
        }
        account = serviceaccount.Account(
            "hosts", account_id="serving-hosts", project=settings.project
        )
        identity = {"service_account": account.email}
        team = pulumi.Output.secret(CANARY) if self.secret else "search"
        serving = {
            "image": settings.serving.image,
            "flags": settings.serving.flags,
            "env": {"TEAM": team, "NETWORK": network.id},
        }
        made = VllmEndpointArgs(
            cloud=settings.cloud,
            project=settings.project,
            slice=settings.slice,
            model={"name": "m", "weights": {"manifest_sha256": PIN}},
            serving=serving,
            network=section,
            identity=identity,
        )
        VllmEndpoint("vllm", made)


@pytest.mark.pulumi_feature("outputs as inputs")
def test_p9_a_network_and_its_clients_from_the_same_program(workplace: Workplace) -> None:
    """And the account of the hosts. The first preview shows them as unknown; once they are made the
    slice is among them, and nothing changes any more. A wrong one, or a secret, is refused by its
    key and never written."""
    program = Program(workplace)
    stack = workplace.stack(program)

    first = stack.preview()
    assert set(changes(first)) == {"create"}
    assert workplace.kinds() == set()

    done = dict(stack.up().summary.resource_changes or {})
    assert changes(first).items() <= done.items()
    place = f"projects/{program.settings.project}"
    made = resources(stack)
    slice_ = made[f"{SLICE} vllm"]
    assert slice_["network"] == f"{place}/global/networks/team"
    assert slice_["subnetwork"] == (
        f"{place}/regions/{program.settings.region}/subnetworks/serving"
    )
    assert "from-team" in slice_["tags"]
    assert f'"NETWORK":"{place}/global/networks/team"' in slice_["metadata"]["tpuflex-config"]
    account = f"serving-hosts@{program.settings.project}.iam.gserviceaccount.com"
    assert slice_["serviceAccount"] == account
    reader = made["gcp:storage/bucketIAMMember:BucketIAMMember vllm-weights-reader"]
    assert reader["member"] == f"serviceAccount:{account}"
    ranges = ["10.30.0.0/16", "10.20.0.0/16"]
    rule = made["gcp:compute/firewall:Firewall vllm-network-brought-serving"]
    assert rule["sourceRanges"] == ranges
    assert made["tpuflex:index:VllmEndpoint vllm"]["network"]["allowed_cidrs"] == ranges
    assert changes(stack.preview()) == {}

    program.range = "0.0.0.0/0"
    assert "tpuflex:network.allowed_cidrs[1]: 0.0.0.0/0 opens" in failure(stack)
    program.range, program.secret = "10.20.0.0/16", True
    said = failure(stack)
    assert "tpuflex:serving.env.TEAM: is a secret" in said
    assert CANARY not in said

    stack.destroy()
    assert workplace.kinds() == set()


def resources(stack: automation.Stack) -> dict[str, dict[str, Any]]:
    """The inputs of everything in the state, by type and name."""
    state = stack.export_stack().deployment
    assert state is not None
    return {
        f"{each['type']} {each['urn'].rpartition('::')[2]}": each.get("inputs", {})
        for each in state["resources"]
    }


def failure(stack: automation.Stack) -> str:
    """What a preview says that fails."""
    lines: list[str] = []
    with pytest.raises(CommandError):
        stack.preview(on_output=lines.append)
    text = "\n".join(lines)
    assert "Traceback" not in text
    return text
