"""What clients and commands may see while one slice takes over from another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from reliability.figures.figure import Result
from reliability.renewal_rig import RenewalRig
from reliability.streams import CUT, FAILED, WHOLE, Clients

_QUESTION = "In one word, what is the capital of France?"
#: How many streams have to end well before a case goes on, and within which time.
_STREAMS, _STREAMS_S = 4, 120.0


@dataclass(frozen=True, slots=True)
class Load:
    """Clients at work.

    Attributes:
        rig: the rig.
        clients: they.
    """

    rig: RenewalRig
    clients: Clients

    def goes_on(self) -> None:
        """Wait until some more streams have ended well, that have begun from now on at the
        earliest when all have that were open."""
        before = len(self.clients.of(WHOLE))
        self.rig.until(
            lambda: len(self.clients.of(WHOLE)) >= before + _STREAMS, "streams", _STREAMS_S
        )


@contextmanager
def under_load(rig: RenewalRig) -> Iterator[Load]:
    """Streams are open while the block runs."""
    load = Load(rig, Clients(rig.reader, rig.output))
    with load.clients.running():
        load.goes_on()
        yield load


def names(rig: RenewalRig, result: Result, endpoint: str, when: str) -> None:
    """Judge that `status`, the stack's output and `ask` all have this address, which answers."""
    answer = rig.beside("ask", _QUESTION, "--max-tokens", "8")
    told = f"{when}: `ask` exits with {answer.exit_code}: {answer.stderr}"
    result.wanted(answer.exit_code == 0 and bool(answer.stdout.strip()), "failed", told)
    named = {
        "status": rig.reader.endpoint(),
        "ask": rig.reader.asked(),
        "the output": rig.output(),
    }
    for who, address in named.items():
        text = f"{when}: {who} names {address or 'nothing'}, not {endpoint}"
        result.wanted(address == endpoint, "away", text)


def well_served(rig: RenewalRig, result: Result, clients: Clients, before: str, after: str) -> None:
    """Judge that the clients have met no gap while ``after`` took over from ``before``."""
    moved = after not in ("", before)
    result.wanted(moved, "not converged", f"{before} serves, and then {after or 'nothing'}")
    failed, cut = clients.of(FAILED), clients.of(CUT)
    result.wanted(not failed, "failed", f"{len(failed)}: {failed[:3]}")
    result.wanted(not cut, "cut", f"{len(cut)}: {cut[:3]}")
    away = clients.seconds(lambda each: not each.endpoint)
    said = sorted({each.said for each in clients.samples if each.said})
    result.wanted(away == 0, "away", f"nothing serves for {away:.1f} s; {said}")
    # What was named, without repetition: first the one, then the other, and never back.
    named = [each.endpoint for each in clients.samples if each.endpoint]
    changes = [two for one, two in zip(["", *named], named, strict=False) if one != two]
    result.wanted(changes == [before, after], "not converged", f"status names {changes}")
    slices = rig.slices()
    result.wanted(len(slices) == 2, "orphan", f"in the cloud in the end: {slices}")
    _measure(result, clients, before, after)


def _measure(result: Result, clients: Clients, before: str, after: str) -> None:
    """Note how much was asked, and what was open when the other one was named."""
    result.values["streams"] = len(clients.streams)
    result.values["asked again after a refusal"] = sum(s.refusals for s in clients.streams)
    result.values["longest stream, s"] = round(max(s.ended - s.began for s in clients.streams), 1)
    switch = next((each.at for each in clients.samples if each.endpoint == after), None)
    if switch is not None:
        open_then = [s for s in clients.of(WHOLE) if s.began < switch < s.ended]
        result.values["open at the switch"] = sum(s.address == before for s in open_then)
    behind = clients.seconds(lambda each: bool(each.output) and each.output != each.endpoint)
    result.values["output names another than status, s"] = round(behind, 1)
