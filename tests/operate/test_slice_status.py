"""Where an endpoint stands, over the answers of the TPU API."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from tpuflex.cli.endpoint.status import host_text, weights_text
from tpuflex.errors import AccessError, ApiError, NotFoundError, TpuflexError
from tpuflex.google.queued_resources import NodeListing, QueuedResourceListing
from tpuflex.host.report import HostReport
from tpuflex.naming import ENDPOINT_NAME, Names
from tpuflex.operate.slice import SliceStatus, slice_status
from tpuflex.queued_resource.model import Node, QueuedResource, QueueingPolicy
from tpuflex.queued_resource.outcomes import TABLE, UNREAD, Condition
from tpuflex.queued_resource.states import Lifecycle
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
        report: dict[str, str] | None = None,
    ) -> None:
        self._requests = requests
        named = (nodes or {}).items()
        self._nodes = {name: node.model_copy(update={"name": name}) for name, node in named}
        self._report = report

    def list_queued_resources(self, project: str, zone: str) -> QueuedResourceListing:
        assert project == "tpuflex-dev"
        if zone not in {"us-east5-a", "-"}:
            return QueuedResourceListing((), ())
        return QueuedResourceListing(tuple(self._requests), ())

    def list_nodes(self, project: str, zone: str) -> NodeListing:
        assert project == "tpuflex-dev"
        if zone not in {"us-east5-a", "-"}:
            return NodeListing((), ())
        return NodeListing(tuple(self._nodes.values()), ())

    def get_node(self, node: str) -> Node | None:
        return self._nodes.get(node)

    def guest_attributes(self, node: str, namespace: str) -> tuple[dict[str, str], ...]:
        assert (node in self._nodes, namespace) == (True, "tpuflex")
        if self._report is None:
            raise NotFoundError("nothing written yet")
        return ({"report": json.dumps(self._report)},)


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


def moved(settings: StackSettings) -> StackSettings:
    """The settings after a change of zones."""
    elsewhere = settings.slice.model_copy(update={"zones": ("us-central1-a",)})
    return settings.model_copy(update={"slice": elsewhere})


def look(settings: StackSettings, tpu: Tpu) -> SliceStatus:
    return slice_status(settings, NAMES, tpu)


class TestStatus:
    def test_d2_a_zone_that_the_stack_file_names_no_more(self, settings: StackSettings) -> None:
        """The slice of before the change is found where it runs, if asked for."""
        tpu = Tpu([request("ACTIVE")], {f"{PARENT}/nodes/g1": node()}, {"phase": "READY"})
        changed = moved(settings)

        with pytest.raises(NotFoundError):
            slice_status(changed, NAMES, tpu)
        found = slice_status(changed, NAMES, tpu, recorded=tuple)

        assert (found.zone, found.ready) == ("us-east5-a", True)

    @pytest.mark.parametrize("refused", [True, False])
    def test_d2_an_api_that_does_not_list_all_zones(
        self, settings: StackSettings, refused: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whether it refuses a zone called `-` or finds nothing there, the state knows the zone
        of the slice, which is not reported as gone while it runs."""
        tpu = Tpu([request("ACTIVE")], {f"{PARENT}/nodes/g1": node()}, {"phase": "READY"})
        listed = Tpu.list_queued_resources

        def list_zone(self: Tpu, project: str, zone: str) -> object:
            if zone == "-" and refused:
                raise ApiError("Invalid location: -", status=400)
            return QueuedResourceListing((), ()) if zone == "-" else listed(self, project, zone)

        monkeypatch.setattr(Tpu, "list_queued_resources", list_zone)
        if not refused:
            monkeypatch.setattr(Tpu, "list_nodes", lambda *_: NodeListing((), ()))
        changed = moved(settings)

        found = slice_status(changed, NAMES, tpu, recorded=lambda: ("us-east5-a",))

        assert (found.zone, found.ready) == ("us-east5-a", True)
        with pytest.raises(NotFoundError):
            slice_status(changed, NAMES, tpu, recorded=tuple)

    def test_d2_a_slice_that_was_left_beside_the_new_one(self, settings: StackSettings) -> None:
        """What runs in a zone of before is named, said to be billed, and counted."""
        new, old = "projects/tpuflex-dev/locations/us-central1-a", f"{PARENT}/nodes/g1"
        there = request("ACTIVE", "g2").model_copy(update={"name": f"{new}/queuedResources/g2"})

        class Two(Tpu):
            def list_queued_resources(self, _project: str, zone: str) -> QueuedResourceListing:
                here = (request("ACTIVE"),) if zone == "-" else ()
                return QueuedResourceListing((there, *here), ())

            def list_nodes(self, *_: str) -> NodeListing:
                return NodeListing((), ())

        tpu = Two([], {f"{new}/nodes/g2": node(), old: node()}, {"phase": "READY"})

        found = slice_status(moved(settings), NAMES, tpu, recorded=tuple)

        assert (found.zone, found.queued_resource) == ("us-central1-a", "g2")
        assert found.others == (
            "g1 in us-east5-a: ACTIVE, has hosts and is billed; its host serves",
        )
        an_hour_later = datetime(2026, 11, 21, 12, 0, 0, 123456, tzinfo=UTC)
        assert found.cost(Decimal("1.35"), an_hour_later) == Decimal("2.70")

    @pytest.mark.parametrize(
        ("first", "second", "shown", "other"),
        [
            ({"report": "READY"}, {"report": "weights"}, "g1", "; its host boots, weights"),
            ({"report": "READY"}, {}, "g1", ""),
            ({"report": "READY"}, {"report": "READY"}, "g2", "; its host serves"),
            (
                {"report": "READY", "serving": "draining"},
                {"report": "READY", "serving": "serving"},
                "g2",
                "; its host is draining",
            ),
            ({"report": "READY", "serving": "degraded"}, {"report": "image"}, "g1", None),
            ({"report": "READY", "serving": "failed"}, {"report": "READY"}, "g2", None),
        ],
    )
    def test_while_one_hands_over_to_another_the_one_that_serves_is_shown(
        self,
        settings: StackSettings,
        first: dict[str, str],
        second: dict[str, str],
        shown: str,
        other: str | None,
    ) -> None:
        """The address is always that of a slice that serves; of two it is the younger one's."""
        said = {f"{PARENT}/nodes/g1": first, f"{PARENT}/nodes/g2": second}

        class Two(Tpu):
            def guest_attributes(self, node: str, namespace: str) -> tuple[dict[str, str], ...]:
                found = {key: json.dumps({"phase": phase}) for key, phase in said[node].items()}
                return (found,) if found else super().guest_attributes(node, namespace)

        younger = request("ACTIVE", "g2").model_copy(update={"create_time": "2026-11-21T12:00:00Z"})
        endpoints = {"networkEndpoints": [{"ipAddress": "10.0.0.3"}]}
        nodes = {f"{PARENT}/nodes/g1": node(), f"{PARENT}/nodes/g2": node(**endpoints)}
        for requests in ([request("ACTIVE"), younger], [younger, request("ACTIVE")]):
            found = look(settings, Two(requests, nodes))

            assert found.queued_resource == shown
            assert found.address == {"g1": "10.0.0.2", "g2": "10.0.0.3"}[shown]
            (line,) = found.others
            assert other is None or line.endswith(f"has hosts and is billed{other}")

    def test_one_that_said_so_long_ago_is_not_shown_before_one_that_says_so(
        self, settings: StackSettings
    ) -> None:
        """A machine that is gone says nothing any more: of two, what has spoken of late serves."""
        now = datetime(2026, 11, 21, 13, tzinfo=UTC)
        spoke = {f"{PARENT}/nodes/g1": 20, f"{PARENT}/nodes/g2": 900}

        class Two(Tpu):
            def guest_attributes(self, node: str, _namespace: str) -> tuple[dict[str, str], ...]:
                at = now.timestamp() - spoke[node]
                serving = json.dumps({"phase": "serving", "at": at})
                return ({"report": json.dumps({"phase": "READY"}), "serving": serving},)

        younger = request("ACTIVE", "g2").model_copy(update={"create_time": "2026-11-21T12:00:00Z"})
        nodes = {f"{PARENT}/nodes/{each}": node() for each in ("g1", "g2")}

        found = slice_status(settings, NAMES, Two([request("ACTIVE"), younger], nodes), now=now)

        assert found.queued_resource == "g1"

    def test_ready(self, settings: StackSettings) -> None:
        """A READY host: endpoint, expiry from the asked run duration, and the report."""
        tpu = Tpu([request("ACTIVE")], {f"{PARENT}/nodes/g1": node()}, {"phase": "READY"})

        found = look(settings, tpu)

        assert found.ready
        assert found.address == "10.0.0.2"
        assert found.expires == datetime(2026, 11, 21, 15, 0, 0, 123456, tzinfo=UTC)
        assert found.host == HostReport("READY")

    def test_weights_planned_and_served(self, settings: StackSettings) -> None:
        """S7: the hash that the node was made for, the one that the host fetched, and whether they
        differ, which they do after a change in place until the host boots again."""
        config = {"weights": {"bucket": "b", "prefix": "p", "manifest_sha256": "a1" * 32}}
        made = node(metadata={"tpuflex-config": json.dumps(config)})
        reported = {"phase": "READY", "weights": "a1" * 32}
        tpu = Tpu([request("ACTIVE")], {f"{PARENT}/nodes/g1": made}, reported)

        same = look(settings, tpu)
        assert same.weights == same.to_json("dev")["weights"] == "a1" * 32
        assert not same.other_weights
        assert weights_text(same) == "a1" * 32

        reported["weights"] = "b2" * 32
        other = look(settings, tpu)
        assert other.other_weights
        assert weights_text(other).splitlines() == [
            "b2" * 32,
            f"OTHERS are planned: {'a1' * 32}, from the host's next boot on",
        ]

        reported["weights"] = ""
        assert weights_text(look(settings, tpu)) == f"{'a1' * 32} (not fetched yet)"

    @pytest.mark.parametrize("text", ["", "[]", "{}", '{"weights": 3}', "[" * 100_000])
    def test_of_a_node_that_names_no_weights(self, settings: StackSettings, text: str) -> None:
        """What is not our configuration says nothing, and breaks nothing."""
        made = node(metadata={"tpuflex-config": text})
        tpu = Tpu([request("ACTIVE")], {f"{PARENT}/nodes/g1": made}, {"phase": "READY"})

        assert look(settings, tpu).weights == ""

    def test_googles_own_expiry(self, settings: StackSettings) -> None:
        """When Google says when the run ends, that counts."""
        ending = {"schedulingConfig": {"terminationTimestamp": "2026-11-21T14:30:00Z"}}
        tpu = Tpu([request("ACTIVE")], {f"{PARENT}/nodes/g1": node(**ending)})

        assert look(settings, tpu).expires == datetime(2026, 11, 21, 14, 30, tzinfo=UTC)

    def test_waiting_until_it_is_given_up(self, settings: StackSettings) -> None:
        """While it waits, status says when Google gives it up; once it runs, nothing does."""
        policy = {"queueing_policy": QueueingPolicy(valid_until_duration="3600s")}
        waiting = request("WAITING_FOR_RESOURCES").model_copy(update=policy)
        running = request("ACTIVE").model_copy(update=policy)

        found = look(settings, Tpu([waiting]))

        assert found.gives_up == datetime(2026, 11, 21, 11, tzinfo=UTC)
        assert found.to_json("dev")["gives_up"] == "2026-11-21T11:00:00+00:00"
        assert look(settings, Tpu([running], {f"{PARENT}/nodes/g1": node()})).gives_up is None

    def test_host_that_has_not_reported(self, settings: StackSettings) -> None:
        """Before the first phase there is no report, and that is no error."""
        tpu = Tpu([request("ACTIVE")], {f"{PARENT}/nodes/g1": node()})

        assert look(settings, tpu).host is None

    @pytest.mark.parametrize(
        "odd", [ApiError("503: down", status=503), AccessError("403: denied")], ids=str
    )
    def test_host_whose_report_is_refused(
        self, settings: StackSettings, odd: TpuflexError, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One refused question does not hide what is known of the slice, which is billed."""

        def refuse(*_: object) -> tuple[dict[str, str], ...]:
            raise odd

        monkeypatch.setattr(Tpu, "guest_attributes", refuse)
        tpu = Tpu([request("ACTIVE")], {f"{PARENT}/nodes/g1": node()})

        found = look(settings, tpu)

        assert (found.lifecycle, found.address) == (Lifecycle.ACTIVE, "10.0.0.2")
        assert found.to_json("dev")["unread"] == odd.message
        assert found.outcome is UNREAD
        assert host_text(found) == f"its report cannot be read: {odd.message}"

    def test_node_that_somebody_deleted(self, settings: StackSettings) -> None:
        """SUSPENDED by a user before the run can be over is a loss, by the service an end."""
        soon = datetime(2026, 11, 21, 11, 0, tzinfo=UTC)
        for initiator, where in (("USER", Lifecycle.LOST), ("SERVICE", Lifecycle.ENDED)):
            asked = request("SUSPENDED").model_dump(by_alias=True)
            asked["state"] |= {"stateInitiator": initiator}
            tpu = Tpu([QueuedResource.model_validate(asked)])

            found = slice_status(settings, NAMES, tpu, now=soon)

            assert found.lifecycle is where
            assert "--new-host" in str(found.advice) or where is Lifecycle.LOST

    def test_unknown_state_is_shown_as_google_spells_it(self, settings: StackSettings) -> None:
        """A later API's word reaches people unchanged."""
        assert look(settings, Tpu([request("ON_HOLD")])).state == "ON_HOLD"

    def test_all_requests_of_a_race_are_told(self, settings: StackSettings) -> None:
        """The requests beside the one that is shown are listed."""
        found = look(
            settings, Tpu([request("WAITING_FOR_RESOURCES", "g1"), request("FAILED", "g2")])
        )

        assert found.others == ("g2 in us-east5-a: FAILED",)

    def test_others_are_not_ours(self, settings: StackSettings) -> None:
        """Requests of other owners are not ours; one that has our name is named."""
        with pytest.raises(NotFoundError) as caught:
            look(settings, Tpu([request("ACTIVE", f"{NAMES.prefix}-g2", owner="somebody")]))

        assert str(TABLE[Condition.FOREIGN].status.text) in str(caught.value.hint)
        assert "belongs to somebody else" in caught.value.message

    def test_nothing_at_all(self, settings: StackSettings) -> None:
        """Where there is nothing, `up` is told."""
        with pytest.raises(NotFoundError) as caught:
            look(settings, Tpu([]))

        assert (
            str(caught.value.hint) == f"{TABLE[Condition.GONE].status.text}: tpuflex up --stack dev"
        )

    @pytest.mark.parametrize("on_run_end", ["delete", "accept"])
    def test_nothing_where_leftovers_go(self, settings: StackSettings, on_run_end: str) -> None:
        """A run may have ended there, which only the state knows: `up` alone would not do."""
        ending = settings.slice.model_copy(update={"on_run_end": on_run_end})
        deleting = settings.model_copy(update={"slice": ending})

        with pytest.raises(NotFoundError) as caught:
            look(deleting, Tpu([]))

        assert "After a run that ended: tpuflex up --new-host" in str(caught.value.hint)
