"""What a library knows compiled programs by, on an embedded cloud without an engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.examined import Doctor
from tests.cli.regions import FAR, two_regions
from tpuflex.cli.library_keys import (
    ensure_programs_keys,
    has_programs_keys,
    require_programs_keys,
)
from tpuflex.cli.steps.library import _regions_there
from tpuflex.errors import AlreadyExistsError, ConflictError, NotFoundError
from tpuflex.naming import programs_key

REGIONS = ("us-east5", "europe-west4")
KEYS = {region: programs_key("tpuflex-dev", region) for region in REGIONS}


@pytest.fixture
def doctor(project: Path, tmp_path: Path) -> Iterator[Doctor]:
    """A stack with zones in two regions, and a library in both."""
    with two_regions(project, tmp_path) as found:
        yield found


def versions(doctor: Doctor) -> list[int]:
    """How many versions the secret of each region has."""
    answers = (doctor.call("GET", f"v1/{key}/versions") for key in KEYS.values())
    return [len(each.get("versions", [])) for each in answers]


def test_a_value_is_added_once(doctor: Doctor) -> None:
    """Where there is one none is added; where there is none, as after a command that was killed,
    one is; and another one in each region where that is asked for."""
    ensure_programs_keys(doctor.cloud, REGIONS)
    before = versions(doctor)
    doctor.remove(f"v1/{KEYS['us-east5']}")
    parent, _, secret = KEYS["us-east5"].rpartition("/")
    labels = doctor.call("GET", f"v1/{KEYS['europe-west4']}")["labels"]
    body = {"replication": {"automatic": {}}, "labels": labels}
    doctor.call("POST", f"v1/{parent}?secretId={secret}", body)
    without = has_programs_keys(doctor.cloud)
    ensure_programs_keys(doctor.cloud, REGIONS)
    after = versions(doctor)
    ensure_programs_keys(doctor.cloud, REGIONS, anew=True)

    assert (before, without, after) == ([1, 1], False, [1, 1])
    assert versions(doctor) == [2, 2]


def test_without_one_no_chips_are_asked_for(doctor: Doctor) -> None:
    """A library of before has none in some region: the error says what to run, and how to do
    without. A stack that keeps no programs there needs none."""
    doctor.remove(f"v1/{KEYS['europe-west4']}")
    with pytest.raises(NotFoundError, match="has no key for compiled programs") as missing:
        require_programs_keys(doctor.cloud)
    doctor.change("serving", compile_cache="host")
    require_programs_keys(doctor.cloud)

    assert "tpuflex library up --stack dev" in missing.value.hint
    assert "compile_cache: host" in missing.value.hint


@pytest.mark.parametrize("verb", ["disable", "destroy"])
def test_a_value_that_hosts_cannot_read_is_told(doctor: Doctor, verb: str) -> None:
    """The latest version is what hosts read: where somebody has disabled it, all would be compiled
    again, and a new one unasked would make that last."""
    doctor.call("POST", f"v1/{KEYS['us-east5']}/versions/1:{verb}", {})
    for check in (require_programs_keys, lambda cloud: ensure_programs_keys(cloud, REGIONS)):
        with pytest.raises(ConflictError, match=rf"versions/1, .* is {verb.upper()}") as told:
            check(doctor.cloud)
        assert "library up --new-programs-key" in told.value.hint
    ensure_programs_keys(doctor.cloud, REGIONS, anew=True)
    require_programs_keys(doctor.cloud)


def test_a_secret_of_somebody_else_signs_nothing(doctor: Doctor) -> None:
    """Who made the secret knows its value: without the library's marker it is refused."""
    parent, _, secret = KEYS["us-east5"].rpartition("/")
    doctor.remove(f"v1/{KEYS['us-east5']}")
    doctor.call("POST", f"v1/{parent}?secretId={secret}", {"replication": {"automatic": {}}})
    doctor.call("POST", f"v1/{KEYS['us-east5']}:addVersion", {"payload": {"data": "YQ=="}})
    for check in (require_programs_keys, lambda cloud: ensure_programs_keys(cloud, REGIONS)):
        with pytest.raises(AlreadyExistsError, match="does not carry the marker of the library"):
            check(doctor.cloud)
    assert versions(doctor) == [1, 1]


def test_a_region_of_which_only_the_secret_is_left_is_taken_over(doctor: Doctor) -> None:
    """`library up --take-over` knows the regions of all that the library has, so that the next
    `down` leaves nothing of it."""
    doctor.remove(f"storage/v1/b/{FAR}")
    assert sorted(_regions_there(doctor.cloud)) == ["europe-west4", "us-east5"]
