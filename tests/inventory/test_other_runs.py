"""What the other runs of a project cost: all that is billed or waits, and nothing guessed."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from tests.operate.marked_things import Api
from tpuflex.catalog.catalog import builtin
from tpuflex.errors import AccessError
from tpuflex.google.queued_resources import TpuClient
from tpuflex.inventory.other_runs import other_runs
from tpuflex.planning.cost import OtherRuns

HERE, THERE = "us-east5-a", "us-east5-b"
OURS = "0123456789abcdef"
#: US dollars for four v6e chips in us-east5, an hour.
HOUR = Decimal(4) * (builtin().price("v6e", "us-east5").usd_per_chip_hour or 0)  # type: ignore[union-attr]


def request(name: str, zone: str = HERE, **changed: Any) -> dict[str, Any]:
    """A queued resource with four chips for two hours, but for ``changed``."""
    node = {"acceleratorType": changed.get("type", "v6e-4"), "labels": changed.get("labels", {})}
    spec: dict[str, Any] = {"nodeId": name, "node": node}
    if count := changed.get("nodes"):
        spec["multiNodeParams"] = {"nodeCount": count, "nodeIdPrefix": name}
    duration = changed.get("duration", "7200s")
    return {
        "name": f"projects/p/locations/{zone}/queuedResources/{name}",
        "state": {"state": changed.get("state", "ACTIVE")},
        "runDuration": {"maxRunDuration": duration} if duration else {},
        "tpu": {"nodeSpec": [spec]},
    }


def runs(answers: dict[str, Any], zones: tuple[str, ...] = (HERE,)) -> OtherRuns:
    """The runs beside ours, where the API answers so for each zone and kind."""
    paths = {
        f"GET /v2alpha1/projects/p/locations/{place}": answer for place, answer in answers.items()
    }
    return other_runs(TpuClient(Api(paths)), builtin(), "p", zones, OURS)


def test_each_run_counts_to_its_end() -> None:
    """A run that waits, one that runs and one with two nodes cost what they may come to."""
    listed = [request("a"), request("b", state="ACCEPTED"), request("c", nodes=2)]

    found = runs({f"{HERE}/queuedResources": {"queuedResources": listed}})

    assert found == OtherRuns((HOUR * 8).quantize(Decimal("0.01")), 3, ())
    assert found.usd > 0


def test_what_is_over_and_what_is_ours_does_not_count() -> None:
    """Ended and failed requests, and the endpoint's own, are no other runs."""
    listed = [
        request("ended", state="SUSPENDED"),
        request("failed", state="FAILED"),
        request("own", labels={"tpuflex-owner": OURS}),
    ]

    found = runs({f"{HERE}/queuedResources": {"queuedResources": listed}})

    assert found == OtherRuns(Decimal("0.00"), 0, ())


def test_other_zones_count_once() -> None:
    """What the list of all zones has, too, is not counted twice; what only it has is counted."""
    found = runs(
        {
            f"{HERE}/queuedResources": {"queuedResources": [request("a")]},
            "-/queuedResources": {"queuedResources": [request("a"), request("b", THERE)]},
        }
    )

    assert found.count == 2
    assert found.usd == (HOUR * 4).quantize(Decimal("0.01"))


def test_what_is_not_known_is_said() -> None:
    """No price, no length, a node that nothing ends, a zone that refuses or does not answer."""
    refused = AccessError("no permission")
    found = runs(
        {
            f"{HERE}/queuedResources": {
                "queuedResources": [request("a", type="v9-4"), request("b", duration="")],
                "unreachable": ["us-east5-c"],
            },
            f"{HERE}/nodes": {"nodes": [{"name": f"projects/p/locations/{HERE}/nodes/n"}]},
            f"{THERE}/queuedResources": refused,
        },
        (HERE, THERE),
    )

    assert found == OtherRuns(
        Decimal("0.00"),
        3,
        (
            "us-east5-c is unreachable",
            "us-east5-b: no permission",
            "a in us-east5-a has no known price or length",
            "b in us-east5-a has no known price or length",
            "n in us-east5-a is a node that nothing ends",
        ),
    )
