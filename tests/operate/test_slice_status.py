"""Where an endpoint stands, over the answers of the TPU API."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tpuflex.errors import NotFoundError
from tpuflex.gcp.queued_resources import Listing
from tpuflex.gcp.tpu_models import Node, QueuedResource
from tpuflex.lifecycle import Lifecycle
from tpuflex.naming import ENDPOINT_NAME, Names
from tpuflex.operate.host import HostReport
from tpuflex.operate.status import SliceStatus, slice_status
from tpuflex.settings.load import load_stack_file
from tpuflex.settings.model import StackSettings

NAMES = Names("tpuflex", "dev", ENDPOINT_NAME)
PARENT = "projects/tpuflex-dev/locations/us-east5-a"


@pytest.fixture(scope="module")
def settings() -> StackSettings:
    return load_stack_file(Path(__file__).parents[2] / "stacks" / "Pulumi.dev.yaml").settings


class Tpu:
    """Requests, nodes and guest attributes as they are given."""

    def __init__(
        self,
        requests: list[QueuedResource],
        nodes: dict[str, Node] | None = None,
        attributes: dict[str, str] | None = None,
    ) -> None:
        self._requests = requests
        self._nodes = nodes or {}
        self._attributes = attributes

    def list_queued_resources(self, project: str, zone: str) -> Listing:
        assert (project, zone) == ("tpuflex-dev", "us-east5-a")
        return Listing(tuple(self._requests), ())

    def get_node(self, node: str) -> Node | None:
        return self._nodes.get(node)

    def guest_attributes(self, node: str, namespace: str) -> tuple[dict[str, str], ...]:
        assert (node in self._nodes, namespace) == (True, "tpuflex")
        if self._attributes is None:
            raise NotFoundError("nothing written yet")
        return (self._attributes,)


def request(state: str, identity: str = "g1", owner: str = NAMES.owner) -> QueuedResource:
    node = {"labels": {"tpuflex-owner": owner}}
    return QueuedResource.model_validate(
        {
            "name": f"{PARENT}/queuedResources/{identity}",
            "createTime": "2026-11-21T10:00:00Z",
            "state": {"state": state, "failedData": {"error": {"message": "no more capacity"}}},
            "runDuration": {"maxRunDuration": "14400s"},
            "tpu": {"nodeSpec": [{"nodeId": identity, "node": node}]},
        }
    )


def node(**more: object) -> Node:
    return Node.model_validate(
        {
            "state": "READY",
            "health": "HEALTHY",
            "createTime": "2026-11-21T11:00:00.123456789Z",
            "networkEndpoints": [{"ipAddress": "10.0.0.2"}],
            **more,
        }
    )


def look(settings: StackSettings, tpu: Tpu) -> SliceStatus:
    return slice_status(settings, NAMES, tpu)


class TestStatus:
    def test_ready(self, settings: StackSettings) -> None:
        """A READY host: endpoint, expiry from the asked run duration, and the report."""
        tpu = Tpu([request("ACTIVE")], {f"{PARENT}/nodes/g1": node()}, {"phase": "READY"})

        found = look(settings, tpu)

        assert found.ready
        assert found.endpoint(8000) == "http://10.0.0.2:8000/v1"
        assert found.expires == datetime(2026, 11, 21, 15, 0, 0, 123456, tzinfo=UTC)
        assert found.host == HostReport("READY")

    def test_googles_own_expiry(self, settings: StackSettings) -> None:
        """When Google says when the run ends, that counts."""
        ending = {"schedulingConfig": {"terminationTimestamp": "2026-11-21T14:30:00Z"}}
        tpu = Tpu([request("ACTIVE")], {f"{PARENT}/nodes/g1": node(**ending)})

        assert look(settings, tpu).expires == datetime(2026, 11, 21, 14, 30, tzinfo=UTC)

    def test_waiting(self, settings: StackSettings) -> None:
        """A request in the queue has Google's word, a sentence, and no endpoint."""
        found = look(settings, Tpu([request("WAITING_FOR_RESOURCES")]))

        assert found.lifecycle is Lifecycle.WAITING
        assert found.state == "WAITING_FOR_RESOURCES"
        assert found.sentence.startswith("in the queue")
        assert found.endpoint(8000) == ""

    def test_host_that_has_not_reported(self, settings: StackSettings) -> None:
        """Before the first phase there is no report, and that is no error."""
        tpu = Tpu([request("ACTIVE")], {f"{PARENT}/nodes/g1": node()})

        assert look(settings, tpu).host is None

    def test_lost_node(self, settings: StackSettings) -> None:
        """ACTIVE without a node is said to be lost."""
        found = look(settings, Tpu([request("ACTIVE")]))

        assert found.lifecycle is Lifecycle.LOST
        assert "node is gone" in found.sentence

    def test_furthest_along(self, settings: StackSettings) -> None:
        """Of several requests the one that serves is the endpoint."""
        requests = [request("FAILED", "g1"), request("ACTIVE", "g2"), request("ACCEPTED", "g3")]
        tpu = Tpu(requests, {f"{PARENT}/nodes/g2": node()})

        assert look(settings, tpu).queued_resource == "g2"

    def test_others_are_not_ours(self, settings: StackSettings) -> None:
        """Requests of other owners are not looked at; without one of ours, `up` is told."""
        with pytest.raises(NotFoundError) as caught:
            look(settings, Tpu([request("ACTIVE", owner="somebody")]))

        assert caught.value.hint == "Run: tpuflex up --stack dev"
