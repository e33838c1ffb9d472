"""A slice whose boot came to nothing is deleted if the stack file says so, and only it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from embedded_cloud.faults.rule import Answer, Rule, Where
from tests.acceptance.killed import stack_run
from tests.acceptance.security.test_p4_two_clones import command
from tests.engine.embedded import Embedded
from tpuflex.cli.invocation import Invocation
from tpuflex.deploy.boot import after_failed_boot, slice_before, wait_ready
from tpuflex.deploy.stack_run import StackRun
from tpuflex.engine.run import EngineRun
from tpuflex.engine.state import state_ids
from tpuflex.errors import FailedBootError
from tpuflex.operate.slice import SliceStatus
from tpuflex.stack.connection import Connection

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]

FAILURE = FailedBootError("The host failed in phase weights: checksum", hint="The host's log: /log")


@pytest.fixture
def embedded(strictly_embedded: Embedded) -> Embedded:
    return strictly_embedded


def with_delete(home: Embedded) -> tuple[Invocation, Connection]:
    """What `up` works with, with on_boot_failure delete, at a pace that waits for nothing."""
    quick = {**home.environ, "TPUFLEX_TIME_SPEED": "600"}
    invocation, cloud = command(replace(home, environ=quick))
    settings = cloud.stack.settings
    slice_ = settings.slice.model_copy(update={"on_boot_failure": "delete"})
    stack = replace(cloud.stack, settings=settings.model_copy(update={"slice": slice_}))
    return invocation, Connection(stack, quick)


def brought_up(home: Embedded, cloud: Connection) -> EngineRun:
    """The stack's engine, after an `up` whose state this home remembers."""
    run = stack_run(home.root, home.engine, home.environ)
    run.up()
    cloud.known_state_ids.remember("dev", state_ids(run.deployment()))
    return run


def kinds(home: Embedded) -> dict[str, int]:
    """How many of each kind the cloud has."""
    there: Any = home.cloud.cloud.inventory()
    return {kind: len(found) for service in there.values() for kind, found in service.items()}


@pytest.fixture
def deleting(embedded: Embedded) -> tuple[Embedded, Invocation, Connection]:
    invocation, cloud = with_delete(embedded)
    return embedded, invocation, cloud


def test_a_silent_host_is_deleted_alone_and_the_next_up_makes_another(
    deleting: tuple[Embedded, Invocation, Connection],
) -> None:
    """After the time for a first report, by the engine, so that the state knows: all else
    stays, the reason is kept, and the next `up` asks for a slice again."""
    home, invocation, cloud = deleting
    before = slice_before(cloud)
    run = brought_up(home, cloud)
    there = kinds(home)

    with pytest.raises(FailedBootError) as silent:
        wait_ready(cloud)
    ended = after_failed_boot(cloud, StackRun(cloud, invocation.report), silent.value, before)

    assert silent.value.message.startswith("The host has reported nothing for ")
    assert ended.message == silent.value.message
    assert ended.exit_code == 7
    assert str(ended.hint) == (
        "The slice was deleted, as tpuflex:slice.on_boot_failure says: nothing is billed any more."
        " When the cause is mended: `tpuflex up`.\n"
        "`tpuflex logs` shows the end of its log, if it wrote one."
    )
    tpu = {"queuedResources": 1, "nodes": 1}
    assert there == {**kinds(home), **tpu}
    assert not tpu.keys() & kinds(home).keys()
    planned = run.preview().changes
    assert [(step.type, step.operation) for step in planned] == [
        ("tpuflex:tpu:QueuedResource", "create")
    ]
    run.up()
    assert kinds(home) == there
    run.destroy()
    assert home.remaining() == []


def test_what_may_have_served_or_is_not_ours_is_kept(
    deleting: tuple[Embedded, Invocation, Connection],
) -> None:
    """One that ran before this `up`, one of a state that this home has not seen, one that the
    state does not hold, and one whose deletion is refused: each says why, and nothing is gone."""
    home, invocation, cloud = deleting
    run = brought_up(home, cloud)
    there, (id_,) = kinds(home), state_ids(run.deployment())

    def hint(before: SliceStatus | None = None, stack_run: StackRun | None = None) -> str:
        engine = stack_run or StackRun(cloud, invocation.report)
        error = after_failed_boot(cloud, engine, FAILURE, before)
        assert kinds(home) == there
        assert (error.message, error.exit_code) == (FAILURE.message, 7)
        said, end = str(error.hint).removesuffix(str(FAILURE.hint)), str(FAILURE.hint)
        assert str(error.hint) == said + end
        return said.strip()

    kept, at = "The slice was not deleted, and is billed", slice_before(cloud)
    assert hint(at) == f"{kept}: it ran before this `up`, and may have served."
    other = SimpleNamespace(engine=SimpleNamespace(resources=tuple))
    assert f"{kept}: the state has none, and not projects/" in hint(stack_run=other)  # type: ignore[arg-type]
    refuse = Answer(status=403, message="Permission 'tpu.queuedResources.delete' denied")
    where = Where(method="DELETE", path="/queuedResources/")
    home.cloud.cloud.faults.book.add(Rule(id="refuse", where=where, effect=refuse, times=9))
    failed = hint()
    assert failed.startswith(f"{kept}, because that failed: ")
    assert failed.endswith(
        "`tpuflex down` deletes it; a later `tpuflex up` does not: it ran before that."
    )
    home.cloud.cloud.faults.book.remove()
    for file in (home.root / ".tpuflex" / "state-ids").iterdir():
        file.unlink()
    assert hint() == f"{kept}: another state has made it ({id_})."
    run.destroy()
