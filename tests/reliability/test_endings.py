"""How slices that serve end: what is seen to be wrong, and what is allowed; and the rig's hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reliability.endings import away, cut_off
from reliability.evidence import Command, Evidence
from reliability.servicer_rig import ServicerRig
from reliability.serving_hosts import DELETION

OLD, NEW = (f"projects/p/locations/z/queuedResources/s-g{number}" for number in (1, 2))
NOW = 1_800_000_000.0
LATER, EARLIER = "2027-01-15T09:00:00Z", "2027-01-15T07:00:00Z"  # NOW is 08:00


def serving(request: str, **more: Any) -> dict[str, Any]:
    """A slice that answers."""
    return {
        "request": request,
        "owner": "ours",
        "asked": "",
        "drained": False,
        "late": False,
        **more,
    }


def run(
    *slices: dict[str, Any],
    commands: tuple[Command, ...] = (Command("up", 0, 0, 9),),
    fault: tuple[str, str] | None = None,
    **more: Any,
) -> Evidence:
    """A run that deletes the first of two slices, of which ``slices`` answered just before."""
    deletion = {"seq": 3, "request": OLD, "now": NOW, "serving": slices}
    call = {"seq": 4, "method": "DELETE", "path": f"/v2alpha1/{OLD}", "status": 200, **more}
    strikes = [{"seq": 2, "method_id": fault[0], "rule": fault[1]}] if fault else []
    return Evidence([call], {}, None, commands, {}, strikes, [deletion])


DRAINED = serving(OLD, asked=LATER, drained=True)
DOWN = (Command("down", 0, 0, 9),)
AFTER_DOWN = (Command("down", -9, 0, 2), Command("recover", 0, 2, 9))
AFTER_UP = (Command("up", -9, 0, 2), Command("recover", 0, 2, 9))
GUEST = "tpu.nodes.getGuestAttributes"


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        (run(DRAINED), True),
        (run(DRAINED, commands=AFTER_UP), True),
        (run(DRAINED, serving(NEW, owner="theirs")), True),
        (run(DRAINED, serving(NEW, asked=LATER)), True),
        (run(DRAINED, fault=(GUEST, "s1.0.unavailable")), True),
        (run(DRAINED, serving(NEW)), False),
        (run({**DRAINED, "late": True}), False),
        (run(DRAINED, commands=DOWN), False),
        (run(DRAINED, commands=AFTER_DOWN), False),
        (run(DRAINED, fault=(GUEST, "s1.0.permission")), False),
        (run(serving(NEW)), False),
        (run(DRAINED, committed=False), False),
        (run(DRAINED, status=400), False),
    ],
)
def test_what_serves_goes_once_another_one_does(found: Evidence, wrong: bool) -> None:
    """I9: a deletion that leaves nobody who answers is seen, unless somebody asked for that, the
    API refused to say, or it did not take effect."""
    assert bool([*away(found)]) is wrong


@pytest.mark.parametrize(
    ("slices", "fault", "wrong"),
    [
        ([serving(OLD)], None, True),
        ([serving(OLD, asked=LATER)], None, True),
        ([DRAINED, serving(OLD, asked=LATER)], None, True),
        ([serving(OLD)], (GUEST, "reset"), True),
        ([DRAINED], None, False),
        ([serving(OLD, asked=EARLIER)], None, False),
        ([serving(OLD)], ("tpu.nodes.patch", "permission"), False),
        ([serving(NEW)], None, False),
    ],
)
def test_what_serves_drains_first(
    slices: list[dict[str, Any]], fault: tuple[str, str] | None, wrong: bool
) -> None:
    """I10: a deletion of what was not asked to drain, or had not drained in its time, is seen, of
    one node of several, too."""
    assert bool([*cut_off(run(*slices, commands=DOWN, fault=fault))]) is wrong


def test_hosts_boot_serve_and_drain(tmp_path: Path) -> None:
    """A replacement waits for the ready polls of its successor and drains what it replaces; a
    `down` drains, too: the calls that kills are to hit are made."""
    with ServicerRig(tmp_path / "emulator") as rig:
        assert rig.run("up").exit_code == 0
        assert rig.arguments is not None
        rig.arguments["rerun"] = "again"
        rig.event()
        replaced, down = rig.run("up"), rig.run("down")
        assert rig.check() == []
        calls = rig.direct.cloud.history.entries()
        events = rig.direct.cloud.history.events()

    for command, asked in ((replaced, 11), (down, 4)):
        made = [
            str(call["method_id"]).rpartition(".")[2]
            for call in calls
            if command.first_seq < int(str(call["seq"])) <= command.last_seq
        ]
        assert command.exit_code == 0
        assert (made.count("getGuestAttributes"), made.count("patch")) == (asked, 1)
    assert [len(event["serving"]) for event in events if event["event"] == DELETION] == [2, 1]  # type: ignore[arg-type]
