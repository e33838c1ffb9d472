"""What a library knows compiled programs by, on an embedded cloud without an engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.examined import Doctor
from tests.cli.regions import two_regions
from tpuflex.cli.stack_library import (
    ensure_programs_key,
    has_programs_key,
    require_programs_key,
)
from tpuflex.errors import AlreadyExistsError, ConflictError, NotFoundError
from tpuflex.naming import programs_key

KEY = programs_key("tpuflex-dev")


@pytest.fixture
def doctor(project: Path, tmp_path: Path) -> Iterator[Doctor]:
    """A stack with zones in two regions, and a library in both."""
    with two_regions(project, tmp_path) as found:
        yield found


def versions(doctor: Doctor) -> int:
    """How many versions the secret has."""
    return len(doctor.call("GET", f"v1/{KEY}/versions").get("versions", []))


def test_a_value_is_added_once(doctor: Doctor) -> None:
    """Where there is one none is added; where there is none, as after a command that was killed,
    one is; and another one where that is asked for."""
    ensure_programs_key(doctor.cloud)
    before = versions(doctor)
    labels = doctor.call("GET", f"v1/{KEY}")["labels"]
    doctor.remove(f"v1/{KEY}")
    parent, _, secret = KEY.rpartition("/")
    body = {"replication": {"automatic": {}}, "labels": labels}
    doctor.call("POST", f"v1/{parent}?secretId={secret}", body)
    without = has_programs_key(doctor.cloud)
    ensure_programs_key(doctor.cloud)
    after = versions(doctor)
    ensure_programs_key(doctor.cloud, anew=True)

    assert (before, without, after) == (1, False, 1)
    assert versions(doctor) == 2


def test_without_one_no_chips_are_asked_for(doctor: Doctor) -> None:
    """A library that lost it has none: the error says what to run, and how to do
    without. A stack that keeps no programs there needs none."""
    doctor.remove(f"v1/{KEY}")
    with pytest.raises(NotFoundError, match="has no key for compiled programs") as missing:
        require_programs_key(doctor.cloud)
    doctor.change("serving", compile_cache="host")
    require_programs_key(doctor.cloud)

    assert "tpuflex library up --stack dev" in missing.value.hint
    assert "compile_cache: host" in missing.value.hint


@pytest.mark.parametrize("verb", ["disable", "destroy"])
def test_a_value_that_hosts_cannot_read_is_told(doctor: Doctor, verb: str) -> None:
    """The latest version is what hosts read: where somebody has disabled it, all would be compiled
    again, and a new one unasked would make that last."""
    doctor.call("POST", f"v1/{KEY}/versions/1:{verb}", {})
    for check in (require_programs_key, ensure_programs_key):
        with pytest.raises(ConflictError, match=rf"versions/1, .* is {verb.upper()}") as told:
            check(doctor.cloud)
        assert "library up --new-programs-key" in told.value.hint
    ensure_programs_key(doctor.cloud, anew=True)
    require_programs_key(doctor.cloud)


def test_a_secret_of_somebody_else_signs_nothing(doctor: Doctor) -> None:
    """Who made the secret knows its value: without the library's marker it is refused."""
    parent, _, secret = KEY.rpartition("/")
    doctor.remove(f"v1/{KEY}")
    doctor.call("POST", f"v1/{parent}?secretId={secret}", {"replication": {"automatic": {}}})
    doctor.call("POST", f"v1/{KEY}:addVersion", {"payload": {"data": "YQ=="}})
    for check in (require_programs_key, ensure_programs_key):
        with pytest.raises(AlreadyExistsError, match="does not carry the marker of the library"):
            check(doctor.cloud)
    assert versions(doctor) == 1
