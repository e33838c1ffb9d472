"""Which slices serve, by what their hosts report."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tpuflex.errors import AccessError, ApiError
from tpuflex.google.queued_resources import observe_host
from tpuflex.host.report import CONFIG_KEY, HostReport
from tpuflex.host.serving import ServingPhase
from tpuflex.provider.call import POLL_BUDGET, SECOND_LOOK, Call
from tpuflex.queued_resource.name import RequestName
from tpuflex.queued_resource.snapshot import Snapshot
from tpuflex.queued_resource.states import Lifecycle


def boots(seen: Snapshot) -> bool:
    """Whether the hosts of ``seen`` run a script that reports: what a program asks for with
    metadata of its own never says that it serves."""
    first = seen.nodes.first
    return first is not None and CONFIG_KEY in first.metadata


def reported(call: Call, seen: Snapshot) -> HostReport | None:
    """What the first host of ``seen`` says; None before its first word, and without a node.

    Raises:
        AccessError, ApiError: the API refuses, or does not answer.
    """
    first = seen.nodes.first
    return None if first is None else observe_host(seen.name.node(first.id), call.client)


def _reported_twice(call: Call, seen: Snapshot) -> HostReport | None:
    """As :func:`reported`, but asks again where nothing is said: a single 404 proves nothing."""
    report = reported(call, seen)
    if report is not None or seen.nodes.first is None:
        return report
    call.pause(SECOND_LOOK)
    return reported(call, seen)


def serves(report: HostReport | None) -> bool:
    """Whether it says that it answers new requests."""
    return report is not None and report.serves


def answers(report: HostReport | None) -> bool:
    """Whether users get answers there, or will again by themselves: one that is degraded starts its
    server again, and one that drains before its end answers what it has begun."""
    if report is None or not report.ready:
        return False
    return report.serving is None or report.serving.phase is not ServingPhase.FAILED


def may_answer(report: HostReport | None) -> bool:
    """Whether users get answers there, or will once its boot has ended."""
    if report is None or not report.ready:
        return report is None or not report.error
    return answers(report)


def possibly_answering(call: Call, names: Iterable[RequestName]) -> tuple[RequestName, ...]:
    """Those of ``names`` that answer, or may come to; what cannot be asked is taken to."""
    return answering(call, names, counts=may_answer, known=True)


def answering(
    call: Call,
    names: Iterable[RequestName],
    *,
    counts: Callable[[HostReport | None], bool] = answers,
    known: bool = False,
) -> tuple[RequestName, ...]:
    """Those of ``names`` that run and answer.

    Args:
        call: the engine call.
        names: the requests to look at.
        counts: whether what a first host says means that.
        known: whether they have answered before: one that cannot be asked now is then taken to
            answer still. Otherwise it is where the API gives no answer, which passes, and not
            where it refuses: a permission that is missing hides every successor's word, too.
    """
    found = []
    for name in dict.fromkeys(names):
        try:
            seen = call.look_twice(name, budget=POLL_BUDGET)
            if seen.lifecycle is not Lifecycle.ACTIVE or not boots(seen):
                continue
            if counts(_reported_twice(call, seen)):
                found.append(name)
        except AccessError as error:
            if known:
                found.append(name)
                continue
            call.report(
                f"whether {name} serves may not be read ({error.message}): what replaces it takes"
                " over as soon as its hosts run",
                warning=True,
            )
        except ApiError:
            found.append(name)
    return tuple(found)
