"""The zones for an accelerator, compared on an embedded cloud: what each row says, in which order,
and what becomes of what does not answer."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from tests.doctor.examined import Doctor, quota
from tests.embedded_cloud.api import flex_start
from tpuflex.catalog.catalog import Catalog, builtin
from tpuflex.catalog.rows import CatalogRows, FlexStart, Price, Source, Zone
from tpuflex.doctor.cloud import ExaminedCloud
from tpuflex.doctor.zones import LastRequest, ZoneComparison, ZoneFacts, compare_zones
from tpuflex.errors import AccessError, NotFoundError, ServiceDisabledError
from tpuflex.queued_resource.states import Lifecycle

SOURCE = Source(where="a test", date=dt.date(2026, 11, 1))
NOW = dt.datetime(2026, 11, 29, tzinfo=dt.UTC)
#: Zone, what is known of Flex-start there, dollars per chip and hour in its region.
ZONES: tuple[tuple[str, FlexStart, str], ...] = (
    ("us-central1-b", "refused", "1.00"),
    ("us-west1-c", "hardware", "1.10"),
    ("asia-northeast1-b", "documented", ""),
    ("europe-west4-a", "observed", "1.40"),
    ("us-east5-a", "documented", "1.35"),
)
TPU = "v2alpha1/projects/tpuflex-dev/locations"


def small_catalog() -> Catalog:
    """The accelerators of tpuflex in a few zones."""
    return Catalog.of(
        CatalogRows(
            accelerators=tuple(builtin().accelerators.values()),
            zones=tuple(
                Zone(zone=zone, generation="v6e", flex_start=known, source=SOURCE)
                for zone, known, _ in ZONES
            ),
            prices=tuple(
                Price(
                    generation="v6e",
                    region=zone.rpartition("-")[0],
                    kind="flex_start",
                    usd_per_chip_hour=Decimal(price) if price else None,
                    source=SOURCE,
                )
                for zone, _, price in ZONES
            ),
        )
    )


def compared(doctor: Doctor, accelerator: str = "v6e-4", **how: Any) -> ZoneComparison:
    """The zones as a command compares them."""
    return compare_zones(ExaminedCloud(doctor.cloud), small_catalog(), accelerator, NOW, **how)


def facts_of(found: ZoneComparison, zone: str) -> ZoneFacts:
    """What is known of one zone."""
    (facts,) = [each for each in found.zones if each.zone == zone]
    return facts


def request_chips(doctor: Doctor, zone: str, id_: str, **node: Any) -> None:
    """Ask for chips in ``zone``."""
    path = f"{TPU}/{zone}/queuedResources?queuedResourceId={id_}"
    body = flex_start(**node)
    for spec in body["tpu"]["nodeSpec"]:
        spec["parent"] = f"projects/tpuflex-dev/locations/{zone}"
    doctor.call("POST", path, body)


def break_calls(doctor: Doctor, path: str, **effect: Any) -> None:
    """Let every call of ``path`` fail."""
    where = {"path": path}
    rule = {"where": where, "times": 0, "effect": effect}
    doctor.call("POST", "_emulator/faults", {"rules": [rule]})


def test_zones_that_are_known_to_take_it_come_first(doctor: Doctor) -> None:
    """Of zones alike the cheaper one is first, what has no price behind it, what was refused last;
    the price is that of all chips."""
    found = compared(doctor)

    assert [each.zone for each in found.zones] == [
        "us-east5-a",
        "europe-west4-a",
        "asia-northeast1-b",
        "us-west1-c",
        "us-central1-b",
    ]
    assert found.best == ("us-east5-a", "europe-west4-a", "asia-northeast1-b")
    assert found.zones[0].usd_per_hour == Decimal("5.40")
    assert (found.zones[2].usd_per_hour, found.exit_code) == (None, 0)


def test_quota_of_either_pool_is_enough(doctor: Doctor) -> None:
    """Zones without quota go to the end, and one with quota of the on-demand pool alone stays."""
    few = {"preemptible": 0, "on_demand": 4}
    doctor.capacity(quota={**quota(3, 0), "europe-west4-a": few})

    found = compared(doctor)

    assert (found.best, found.exit_code) == (("europe-west4-a",), 0)
    pools = facts_of(found, "europe-west4-a").to_json()["quota"]
    assert pools == {
        "preemptible": {
            "metric": "tpu-v6e-preemptible",
            "location": "europe-west4-a",
            "limit": 0,
            "enough": False,
        },
        "on_demand": {
            "metric": "tpu-v6e",
            "location": "europe-west4-a",
            "limit": 4,
            "enough": True,
        },
    }


@pytest.mark.parametrize(
    ("accelerator", "how", "units", "code"),
    [("v6e-4", {}, 3, 6), ("v6e-4", {"runtime": "v9"}, 64, 5), ("v6e-8", {}, 64, 0)],
)
def test_exit_codes(
    doctor: Doctor, accelerator: str, how: dict[str, Any], units: int, code: int
) -> None:
    """6 without quota, 5 where no zone has accelerator and runtime version, as of `doctor`."""
    doctor.capacity(quota=quota(units, units))

    assert compared(doctor, accelerator, **how).exit_code == code


def test_a_zone_of_the_stack_is_looked_at_without_a_row(doctor: Doctor) -> None:
    """One that Google does not have, either, is the last row, with what Google says."""
    found = compared(doctor, chosen=("us-east5-a", "us-east9-a"))

    assert [each.zone for each in found.zones if each.chosen] == ["us-east5-a", "us-east9-a"]
    unknown = found.zones[-1]
    assert (unknown.zone, unknown.row, unknown.possible) == ("us-east9-a", None, False)
    assert "us-east9-a" in str(unknown.to_json()["not_known"])


@pytest.mark.parametrize(
    ("effect", "why"),
    [
        ({"kind": "answer", "status": 403, "message": "not in this zone"}, "not in this zone"),
        ({"kind": "answer", "status": 503}, "503 UNAVAILABLE"),
        ({"kind": "reset"}, "no answer"),
    ],
)
def test_one_zone_that_refuses_is_a_row(doctor: Doctor, effect: dict[str, Any], why: str) -> None:
    """Its offer is not known, with the reason, and the others are as they were."""
    break_calls(doctor, "/locations/us-east5-a/", **effect)

    found = compared(doctor)

    refused = facts_of(found, "us-east5-a")
    assert refused.offered is None
    assert why in str(refused.to_json()["not_known"])
    assert refused.possible  # it may take it for all that is known
    assert [each.offered for each in found.zones if each is not refused] == [True] * 4


def test_one_reason_in_every_zone_is_an_error(doctor: Doctor) -> None:
    """An API that is off, or a missing permission, is said once, with its exit code and remedy."""
    doctor.strict(permissions={"missing": ["tpu.acceleratortypes.get"]})
    with pytest.raises(AccessError, match=r"tpu\.acceleratortypes\.get"):
        compared(doctor)
    doctor.strict(permissions={"missing": []}, apis={"enforced": True})
    doctor.call("POST", "v1/projects/tpuflex-dev/services/tpu.googleapis.com:disable", {})

    with pytest.raises(ServiceDisabledError) as refused:
        compared(doctor)

    assert "gcloud services enable tpu.googleapis.com" in str(refused.value.hint)


def test_what_may_not_be_read_beside_the_offer_is_not_known(doctor: Doctor) -> None:
    """Without the rights to read quota and requests the zones are shown all the same."""
    doctor.strict(permissions={"missing": ["serviceusage.quotas.get", "tpu.nodes.list"]})

    found = compared(doctor)

    assert (found.best[0], found.exit_code) == ("us-east5-a", 0)
    assert found.quota is not None
    assert "serviceusage.quotas.get" in found.quota.why
    assert all("tpu.nodes.list" in str(each.to_json()["not_known"]) for each in found.zones)


def test_the_newest_request_with_flex_start_tells(doctor: Doctor) -> None:
    """One of another generation says nothing; a zone where one was granted counts as seen,
    and one that has failed says why."""
    at_once = {"admission_s": 0, "grant_after_s": 0, "provisioning_s": 0, "suspending_s": 0}
    failed = {**at_once, "failure": {"code": "RESOURCE_EXHAUSTED", "message": "GCE_STOCKOUT"}}
    doctor.capacity(**at_once, zones={"us-east5-a": failed})
    request_chips(doctor, "us-west1-c", "granted", acceleratorType="v6e-1")
    request_chips(doctor, "us-east5-a", "refused", acceleratorType="v6e-1")
    request_chips(doctor, "europe-west4-a", "other", acceleratorType="v5litepod-1")

    found = compared(doctor)

    assert "us-west1-c" in found.best
    granted, refused = (facts_of(found, zone).request for zone in ("us-west1-c", "us-east5-a"))
    assert isinstance(granted, LastRequest)
    assert (granted.id, granted.state) == ("granted", "ACTIVE")
    assert isinstance(refused, LastRequest)
    assert refused.lifecycle is Lifecycle.FAILED
    assert "stock-out" in refused.meaning
    assert facts_of(found, "europe-west4-a").request is None


@pytest.mark.parametrize(
    ("accelerator", "said"),
    [
        ("v6e-5", "v6e-5 is not in the catalog"),
        ("tpu7x-8", "does not have tpu7x-8"),
        ("v5litepod-4", "no zone for v5e"),
    ],
)
def test_what_the_catalog_cannot_answer(doctor: Doctor, accelerator: str, said: str) -> None:
    """It is an error with exit code 4 before anything is asked."""
    with pytest.raises(NotFoundError, match=said):
        compared(doctor, accelerator)
