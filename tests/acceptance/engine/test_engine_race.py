"""Several zones under the real engine, raced or in order, against the embedded cloud."""

from __future__ import annotations

import pytest
from pulumi.automation.errors import CommandError

from tests.provider.deployment import NEVER, A, B, Rig, live, name, outputs

pytestmark = [
    pytest.mark.engine,
    pytest.mark.usefixtures("served"),
    # Pulumi's SDK abandons the event loop of an inline program whose engine failed.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def test_race_takes_the_zone_that_grants(rig: Rig) -> None:
    """One zone never grants: the other wins, and the request in the first is deleted."""
    rig.capacity(zones={A: NEVER})
    rig.args["zones"] = [A, B]

    rig.up()

    assert live(rig) == [name(B)]
    found = outputs(rig)
    assert (found["zone"], found["lifecycle"]) == (B, "active")
    assert found["requests"] == [name(B)]
    resource = rig.resource()
    assert resource is not None
    assert resource["id"] == name(B)
    assert f"{A}: deleting it, because {B} won" in "".join(rig.lines)
    assert rig.preview() == {"same": 3}
    rig.refresh()
    rig.stack.preview(expect_no_changes=True)
    rig.args["zones"] = [B]
    assert rig.preview() == {"same": 3}
    rig.destroy()
    assert rig.tpu() == {}


def test_race_goes_on_without_an_unsupported_zone(rig: Rig) -> None:
    """A zone without Flex-start fails, with the reason; the other one serves."""
    rig.capacity(unsupported_zones=[A])
    rig.args["zones"] = [A, B]

    rig.up()

    assert live(rig) == [name(B)]
    assert f"{A} has failed: unsupported" in "".join(rig.lines)


def test_race_fails_at_once_when_no_zone_supports_it(rig: Rig) -> None:
    """All zones rejected: an error with a line for each, and nothing kept anywhere."""
    rig.capacity(unsupported_zones=[A, B])
    rig.args["zones"] = [A, B]

    with pytest.raises(CommandError, match="no zone can provide v6e-4") as failed:
        rig.up()

    assert f"{A} unsupported" in str(failed.value)
    assert f"{B} unsupported" in str(failed.value)
    assert rig.resource() is None
    assert rig.tpu() == {}


def test_two_active_at_once_leave_one(rig: Rig) -> None:
    """Both zones grant at the same moment: one slice stays, and it is the state's."""
    rig.capacity(grant_after_s=1.0)
    rig.args["zones"] = [A, B]

    rig.up()

    assert len(rig.calls("POST")) == 2
    assert live(rig) == [outputs(rig)["name"]]
    assert len(rig.tpu()["nodes"]) == 1


def test_race_without_capacity_is_kept_whole_and_goes_on(rig: Rig) -> None:
    """When the time is over, the state knows both requests; the next up waits on for both, and
    destroy finds both."""
    rig.capacity(never=True)
    rig.args |= {"zones": [A, B], "queue_timeout": "2s"}
    with pytest.raises(CommandError, match="is not active after 2s in the queue"):
        rig.up()
    assert sorted(outputs(rig)["requests"]) == [name(A), name(B)]
    rig.refresh()
    assert sorted(outputs(rig)["requests"]) == [name(A), name(B)]

    rig.capacity(zones={A: NEVER})
    rig.up()
    assert live(rig) == [name(B)]
    assert len(rig.calls("POST")) == 2
    rig.refresh()
    assert rig.preview() == {"same": 3}

    rig.capacity(never=True)
    rig.args["accelerator_type"] = "v6e-8"
    with pytest.raises(CommandError):
        rig.up()
    rig.destroy()
    assert rig.tpu() == {}


def test_ordered_falls_back_to_the_next_zone(rig: Rig) -> None:
    """After its share of the queue deadline a zone is withdrawn, and the next one is asked."""
    rig.capacity(zones={A: NEVER})
    rig.args |= {"zones": [A, B], "strategy": "ordered", "queue_timeout": "6s"}

    rig.up()

    assert live(rig) == [name(B)]
    posts = [call["path"].split("/")[5] for call in rig.calls("POST")]
    assert posts == [A, B]
    assert f"{A}: withdrawn after 3s" in "".join(rig.lines)
