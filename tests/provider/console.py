"""Calls whose console is a golden: what is there, and what the engine asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pulumi_plugin.values import Properties
from tests.goldens.golden_texts import assert_golden
from tests.provider.fakes import (
    NAME,
    NODE,
    Answer,
    Cloud,
    Handler,
    args,
    missing,
    queued,
    sequence,
)
from tests.provider.transcript import A, B, ByZone, transcript
from tpuflex.errors import ApiError
from tpuflex.provider.call import Call
from tpuflex.provider.operations import create, delete_resource, update
from tpuflex.provider.read import ReadResult, read
from tpuflex.queued_resource.check import input_properties

BORN = "2026-11-21T08:00:00.123456789Z"
WAITS = queued("WAITING_FOR_RESOURCES")
MAKES = queued("PROVISIONING")
THEIRS = args(labels={"tpuflex-owner": "ffff", "tpuflex-stack": "prod", "tpuflex-project": "x"})
STOCK_OUT = {"error": {"code": 8, "message": "There is no more capacity in the zone"}}
QUOTA = {"code": 8, "message": "Quota 'TPUV6EPerProjectPerZone' exhausted. Limit 0 in zone"}
DONE: Answer = {"name": "operations/1", "done": True}
NO_ANSWER = ApiError("no answer", retry_after=20.0)


@dataclass(frozen=True)
class Case:
    """One call.

    Attributes:
        cloud: makes what is there.
        act: the call.
        stop_at: when the engine cancels.
    """

    cloud: Callable[[], Handler]
    act: Callable[[Call], Any]
    stop_at: float | None = None


def known(**changed: Any) -> Properties:
    return input_properties(args(**changed))


def state(lifecycle: str = "active", **more: Any) -> Properties:
    return {**known(), "name": NAME, "lifecycle": lifecycle, "createTime": BORN, **more}


def ups(timeout: float = 0, **changed: Any) -> Callable[[Call], Any]:
    return lambda call: create(call, known(**changed), timeout=timeout)


def updates(
    old: Properties | None = None, outputs: Properties | None = None, **changed: Any
) -> Callable[[Call], Any]:
    before = known() if old is None else old
    return lambda call: update(
        call, NAME, before, known(**changed), outputs or state("waiting"), timeout=0
    )


def downs(timeout: float = 0, outputs: Properties | None = None, **changed: Any) -> Any:
    return lambda call: delete_resource(
        call, NAME, known(**changed), outputs or state(), timeout=timeout
    )


def refreshes(inputs: Properties | None = None, outputs: Properties | None = None) -> Any:
    def act(call: Call) -> str:
        found = read(call, NAME, known() if inputs is None else inputs, outputs or {})
        return "nothing" if found is None else _shown(found)

    return act


def _shown(found: ReadResult) -> str:
    shown = {key: value for key, value in found.outputs.items() if key not in found.inputs}
    return "".join(f"\n{key:>18}: {value}" for key, value in sorted(shown.items()))


def cloud(*requests: Answer, **more: Any) -> Callable[[], Handler]:
    """What GETs of the request find, one after the other; ``more`` for the other questions."""
    return lambda: Cloud(
        request=sequence(*requests), **{key: sequence(*value) for key, value in more.items()}
    )


def waits_until_asked(deletes: Sequence[Answer], *after: Answer, **more: Any) -> Any:
    """A request that waits until as many deletions as ``deletes`` answers were asked for; then
    it is what ``after`` says."""

    def make() -> Handler:
        asked: list[Answer] = []

        def delete() -> Iterator[Answer]:
            for answer in deletes:
                asked.append(answer)
                yield answer

        def request() -> Iterator[Answer]:
            yield from (GONE, GONE)
            while len(asked) < len(deletes):
                yield WAITS
            yield from sequence(*after)

        others = {key: sequence(*value) for key, value in more.items()}
        return Cloud(request=request(), delete=delete(), **others)

    return make


def zones(**clouds: Callable[[], Handler]) -> Callable[[], Handler]:
    names = {"a": A, "b": B}
    return lambda: ByZone({names[key]: made() for key, made in clouds.items()})  # type: ignore[misc]


GONE = missing()
NO_NODE = missing(NODE)
SEVERAL: dict[str, Any] = {"zones": [A, B]}
UNREAD: Properties = {**state("waiting"), "requests": [NAME, NAME.replace(A, B)]}


def assert_console(name: str, case: Case) -> None:
    """Every line of ``case``, when it comes, what is asked of Google meanwhile, and the error at
    the end are what the golden ``name`` holds."""
    text = transcript(case.cloud(), case.act, stop_at=case.stop_at)

    assert_golden(f"console/{name}.txt", text)
