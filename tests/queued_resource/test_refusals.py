"""Every text with which inputs are refused, as it was reviewed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from tests.goldens.golden_texts import assert_golden
from tests.queued_resource.inputs import DISK, NOW, OTHER, URN, changed, filled, given
from tpuflex.naming import LABEL_OWNER, LABEL_SPEC
from tpuflex.queued_resource.check import failures, with_defaults
from tpuflex.queued_resource.fields import INPUTS
from tpuflex.queued_resource.rows import moment

#: Values that are wrong for nearly every input, each in its own way.
WRONG: tuple[Any, ...] = ("?", -1, ["?"], {"?": "?"})
PLACES = ("us-east5-a", "us-east5-b", "europe-west4-a")
RESERVED = "projects/p/locations/us-east5-a/reservations/r"
#: Mistakes that no single wrong value makes, and times that are near a limit.
MISTAKES: tuple[dict[str, Any], ...] = (
    {"zones": [PLACES[0], PLACES[0]]},
    {"zones": [PLACES[0], PLACES[2]], "subnetwork": "s"},
    {
        "zones": [PLACES[0], PLACES[2]],
        "subnetwork": "projects/p/regions/us-east5/subnetworks/s",
    },
    {"zones": [*PLACES], "subnetwork": "s", "dataDisks": [{"sourceDisk": DISK}]},
    {"zones": [*PLACES[1:]], "reservationName": RESERVED, "provisioningModel": "SPOT"},
    {"zones": [PLACES[1]], "bootDisk": {"storagePool": "zones/us-east5-a/storagePools/s"}},
    {"renewBefore": "14400s"},
    {"replace": "delete_first", "deletionProtection": True},
    {"drainTimeout": "3600s"},
    {"drainTimeout": "3601s"},
    {"renewBefore": "14399s"},
    {"renewBefore": "99999s"},
    {"maxRunDuration": "599s"},
    {"maxRunDuration": "600s"},
    {"maxRunDuration": "604800s"},
    {"maxRunDuration": "604801s"},
    {"maxRunDuration": None, "terminationTime": NOW},
    {"maxRunDuration": None, "terminationTime": "2026-11-28T08:00:01Z"},
    {"maxRunDuration": None, "terminationTime": "2026-12-05T08:00:00Z"},
    {"maxRunDuration": None, "terminationTime": "2026-12-05T08:00:01Z"},
    {"validUntilTime": "2026-11-27T08:00:00Z"},
    {"validInterval": {"startTime": "2026-12-01T09:00:00Z", "endTime": "2026-12-01T09:00:00Z"}},
    {"validInterval": {"startTime": "2026-12-01T09:00:00Z", "endTime": "2026-12-01T09:00:01Z"}},
    {"validInterval": {"startTime": "2026-12-01T09:00:00Z"}},
    {"bootDisk": {"enableConfidentialCompute": True}},
    {"bootDisk": {"kmsKeyName": "k"}},
    {"dataDisks": [{"sourceDisk": DISK}, {"sourceDisk": DISK}]},
    {"networkConfigs": [{"network": ""}, {"queueCount": 0}]},
    {"labels": {LABEL_SPEC: "x", LABEL_OWNER: "1"}},
    {"labels": {LABEL_OWNER: ""}},
    {"metadata": {"k": "x" * 262144}},
    {"metadata": {"k": "x" * 262145}},
    {"metadata": {"k": "x" * 262144, "l": "x" * 262142}},
    {"metadata": {"k": "x" * 262144, "l": "x" * 262143}},
    {"metadata": {"k": "é" * 131073}},
    {"provisioningModel": "RESERVATION_BOUND", "maxRunDuration": None},
    {"provisioningModel": "STANDARD", "maxRunDuration": None, "guaranteed": {"reserved": True}},
    {"zones": []},
    {"zones": ["nowhere"]},
    {"queueTimeout": "1d"},
    {"maxRunDuration": "4h"},
    {"validUntilTime": "2026-12-01"},
    {"validUntilTime": "2026-12-01T08:00:00"},
    {"cidrBlock": "10.0.0.0/24"},
    {"queueCount": 0},
    {"dataDisks": [{"mode": "READ_ONLY"}]},
    {"dataDisks": [{"sourceDisk": "d"}]},
    {"bootDisk": {"diskSizeGb": 0, "size": 1}},
    {"queuedResourceIdPrefix": "9"},
    {"labels": {"Team": "x", LABEL_OWNER: "1"}},
    {"nodeCount": 2},
    {"multiNode": {"nodeCount": "2"}},
    {"description": "x" * 513},
    {"acceleratorType": None},
    {"maxRunDuration": None},
    {"terminationTime": "2026-12-01T08:00:00Z"},
    {"provisioningModel": "STANDARD"},
    {"reservationName": RESERVED},
    {"bestEffort": True},
    {"guaranteed": {}},
    {"dataDisks": [{"sourceDisk": DISK}], "zones": [PLACES[1]]},
    {"validInterval": {}},
    {"maxRunDuration": None, "terminationTime": "2026-11-28T09:30:00+02:00"},
)


def said(changes: dict[str, Any]) -> Iterator[str]:
    """How ``changes`` are shown: long values by their beginning."""
    for key, value in sorted(changes.items()):
        text = repr(value)
        yield f"{key}={text if len(text) < 90 else text[:40] + f'… ({len(text)})'}"


def refused(changes: dict[str, Any]) -> list[str]:
    """The findings about ``changes``, in the order in which they are reported."""
    found = failures(filled(**changes), now=moment(NOW))
    return [f"    {path}: {reason}" if len(reason) < 700 else path for path, reason in found]


def page(cases: Iterator[dict[str, Any]]) -> str:
    lines: list[str] = []
    for changes in cases:
        lines += [", ".join(said(changes)), *(refused(changes) or ["    accepted"])]
    return "\n".join([*lines, ""])


def test_single_mistakes() -> None:
    """Each input with values of the wrong kind, and each mistake that has a rule of its own, is
    refused in words that name the input and the remedy, or accepted."""
    wrong = ({key: value} for key in sorted(INPUTS) for value in WRONG)

    assert_golden("refusals-single.txt", page(wrong) + page(iter(MISTAKES)))


def test_inputs_that_do_not_go_together() -> None:
    """Of any two inputs, those that cannot be had together say so, by both names."""
    lines: list[str] = []
    for one, other in combinations(sorted(OTHER), 2):
        alone = {*refused(changed(one)), *refused(changed(other))}
        new = [line for line in refused(changed(one, other)) if line not in alone]
        if new:
            lines += [f"{one} and {other}", *new]

    assert_golden("refusals-together.txt", "\n".join([*lines, ""]))


def test_what_is_missing() -> None:
    """Without an input that is needed, its refusal says what to write."""
    lines: list[str] = []
    for missing in [*sorted(given()), None]:
        inputs = given(**{missing: None}) if missing else {}
        found = failures(with_defaults(inputs, urn=URN, project=None))
        lines += [f"without {missing or 'any'}", *(f"    {path}: {why}" for path, why in found)]

    assert_golden("refusals-missing.txt", "\n".join([*lines, ""]))
