"""Figure 6: a week in the queue: modest polling, signs of life, an exact end, whatever happens.

This runs in-process and on a virtual clock, so every poll of the week is made and counted. The
machine's resources that a wait takes are measured on real provider processes, in
:mod:`.waiting_process`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from unittest.mock import patch

from embedded_cloud.faults.control import FAULTS
from embedded_cloud.faults.rule import Rule, Where
from pulumi_plugin.log import EngineLog
from reliability import snapshot
from reliability.figures.figure import Case, Figure, Json, Result
from reliability.servicer_rig import ServicerRig
from reliability.token_server import TokenServer, session, write_credentials
from tpuflex.codes import Code, split_code

HOUR = 3600.0
WEEK_H = 168.0
ZONES = ("us-east5-a", "us-east5-b")
#: Seconds: at most one poll per request in this time, on average.
FEWEST_S = 15.0
#: Seconds: the longest pause between two polls, and what the retries of one poll may take.
POLL_S, RETRIES_S = 36.0, 15.0
#: Seconds: a sign of life at least this often.
BEAT_S = 60.0
#: Most lasting lines (not replaced by the next one) in a whole wait.
MOST_LINES = 12
#: Faults of a flaky API: each at every hundredth poll, so that one poll in twenty fails.
FLAKY = ("unavailable", "reset", "html", "too-many-requests", "truncated")
GET = "tpu.projects.locations.queuedResources.get"

# name -> facts in addition to ``hours``; ``…_at`` is a fraction of the wait.
KINDS: dict[str, Json] = {
    "granted at the end": {"granted_at": 0.999},
    "never granted, to the deadline": {},
    "two zones race": {"zones": 2, "granted_at": 0.999},
    "granted after three sevenths, an hour of provisioning": {
        "granted_at": 3 / 7,
        "provisioning_s": HOUR,
    },
    "a token expires every hour": {"token_s": HOUR},
    "a token expires, the token server is away for an hour": {"token_s": HOUR, "tokens_away": 0.4},
    "wall clock five hours back": {"wall": [[0.3, -5 * HOUR]], "fault": "retry-after-date"},
    "wall clock nine hours forward": {"wall": [[0.3, 9 * HOUR]], "fault": "retry-after-date"},
    "the machine sleeps for a seventh": {"sleeps": 1 / 7},
    "the machine sleeps over the deadline": {"sleeps": 1 / 7, "sleeps_at": 0.95},
    "one poll in twenty fails": {"flaky": True},
    "one poll in twenty fails, two zones race": {"flaky": True, "zones": 2, "granted_at": 0.9},
    # Six hours of a week.
    "the API is away for a twenty-eighth": {"away": 0.5},
}


@dataclass
class Heard(EngineLog):
    """The engine's log: what was said, and when.

    Attributes:
        said: (time, passing, text).
    """

    now: Callable[[], float]
    said: list[tuple[float, bool, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def write(self, urn: str, text: str, *, passing: bool = False, warning: bool = False) -> None:
        """Record it."""
        del urn, warning
        self.said.append((self.now(), passing, text))


def cases(rig: ServicerRig, seed: int) -> list[Case]:
    """Every kind of wait, each a week long."""
    del rig
    return [case(kind, WEEK_H, seed) for kind in KINDS]


def case(kind: str, hours: float, seed: int) -> Case:
    """A wait of ``hours``."""
    return Case(f"{hours:g} h: {kind}", {**KINDS[kind], "hours": hours, "seed": seed})


def judge(rig: ServicerRig, case: Case) -> Result:
    """One wait, after which the request is withdrawn."""
    facts = case.facts
    flaky = bool(facts.get("flaky") or facts.get("fault") or facts.get("away"))
    result = Result(case.name, must_strike=flaky)
    rig.reset(facts["seed"])
    heard = Heard(rig.direct.clock.now)
    span = facts["hours"] * HOUR
    with _credentials(rig, facts) as tokens:
        rig.log = heard
        _prepare(rig, facts, span, tokens)
        began = rig.direct.clock.now()
        ended = rig.run("up", rules=_rules(facts, span))
        took = rig.direct.clock.now() - began
        events = rig.direct.cloud.history.events()
        result.struck = sum(event["event"] == "fault" for event in events)
        _judge_end(result, rig, facts, ended.exit_code, took)
        _judge_pace(result, rig, facts, took, heard)
        if tokens is not None:
            # One expiry, one renewal: google-auth's own clock runs in real time.
            expired = took // facts["token_s"] + 1
            result.values["tokens"] = len(tokens.issued)
            text = f"{len(tokens.issued)} tokens were fetched while {expired:.0f} expired"
            result.wanted(expired - 2 <= len(tokens.issued) <= expired + 1, "not converged", text)
        result.wanted(not flaky or result.struck > 0, "rig", "no fault has struck")
        result.found(rig.check(), "after the wait")
        down = rig.run("down")
        said = "; ".join(rig.engine.said[-1:])
        result.wanted(down.exit_code == 0, "manual", f"`down` ends with {down.exit_code}: {said}")
        result.found(rig.check(), "after `down`")
    rig.log, rig.connection = EngineLog(), None
    return result


def _prepare(rig: ServicerRig, facts: Json, span: float, tokens: TokenServer | None) -> None:
    direct = rig.direct
    assert rig.arguments is not None
    zones = ZONES[: facts.get("zones", 1)]
    rig.arguments.update(zones=list(zones), queueTimeout=f"{span:.0f}s")
    rig.timeout = 0.0
    # After the first minutes, every pause is at least a few seconds long.
    direct.most_pauses = 1000 + int(span)
    waits = {"grant_after_s": facts["granted_at"] * span} if "granted_at" in facts else {}
    granted = {"provisioning_s": facts.get("provisioning_s", 0.1), **waits}
    never = {"never": True}
    rules = dict.fromkeys(zones[:-1], never) | {zones[-1]: granted if waits else never}
    direct.capacity(zones=rules)
    for at, offset in facts.get("wall", ()):
        direct.later(at * span, partial(setattr, direct, "wall_offset", offset))
    if "sleeps" in facts:
        asleep = facts["sleeps"] * span

        def sleep() -> None:
            direct.clock.advance(asleep)
            direct.unseen += asleep if facts.get("unseen") else 0.0

        direct.later(facts.get("sleeps_at", 0.5) * span, sleep)
    if tokens is not None and "tokens_away" in facts:
        direct.later(facts["tokens_away"] * span, partial(setattr, tokens, "down", True))
        direct.later(facts["tokens_away"] * span + HOUR, partial(setattr, tokens, "down", False))
    if "away" in facts:
        outage = FAULTS["unavailable"]
        rule = Rule(id="away", where=Where(), times=0, stage=outage.stage, effect=outage.effect)
        direct.later(facts["away"] * span, partial(rig.direct.faults.book.add, rule))
        direct.later(
            (facts["away"] + 1 / 28) * span, partial(rig.direct.faults.book.remove, "away")
        )


def _rules(facts: Json, span: float) -> list[Rule]:
    """The faults of a flaky API, or one fault at some polls in the middle."""
    del span
    where = Where(method_id=GET)
    names = FLAKY if facts.get("flaky") else [facts["fault"]] if "fault" in facts else []
    return [
        Rule(
            id=name,
            where=where,
            nth=20 * (turn + 1),
            every=100,
            times=0,
            stage=FAULTS[name].stage,
            effect=FAULTS[name].effect,
        )
        for turn, name in enumerate(names)
    ]


def _judge_end(
    result: Result, rig: ServicerRig, facts: Json, exit_code: int | None, took: float
) -> None:
    span = facts["hours"] * HOUR
    granted = "granted_at" in facts
    said = "; ".join(rig.engine.said[-1:])
    result.values["wait_h"] = round(took / HOUR, 3)
    if granted:
        due = facts["granted_at"] * span + facts.get("provisioning_s", 0.1)
        result.wanted(exit_code == 0, "not converged", f"`up` ends with {exit_code}: {said}")
    else:
        due = span
        if "sleeps" in facts:
            due = max(span, (facts.get("sleeps_at", 0.5) + facts["sleeps"]) * span)
        good = exit_code == 1 and split_code(said)[1] is Code.WAITING
        result.wanted(good, "not converged", f"at the deadline `up` ends with {exit_code}: {said}")
        kept = [r for r in snapshot.stored_resources(rig.engine.export()) if r.get("initErrors")]
        result.wanted(len(kept) == 1, "manual", f"{len(kept)} waiting requests are in the state")
    late = took - due
    result.values["late_s"] = round(late, 1)
    text = f"it ends {late:.0f} s after it should"
    # A grant is seen at the next poll, and requests in other zones are deleted first.
    result.wanted(-1 <= late <= POLL_S + RETRIES_S, "slow", text)


def _judge_pace(result: Result, rig: ServicerRig, facts: Json, took: float, heard: Heard) -> None:
    history = rig.direct.cloud.history.entries()
    polls = sum(entry["method_id"] == GET for entry in history)
    zones = facts.get("zones", 1)
    awake = took - facts.get("sleeps", 0) * facts["hours"] * HOUR
    result.values["polls"] = polls
    result.values["calls"] = len(history)
    result.values["poll_interval_s"] = round(awake * zones / max(1, polls), 2)
    each = result.values["poll_interval_s"]
    result.wanted(each >= FEWEST_S, "busy", f"a poll every {each} s on average")
    between = awake * zones / len(history)
    result.wanted(between >= FEWEST_S, "busy", f"an API call every {between:.1f} s on average")
    moments = [at for at, _, _ in heard.said]
    gaps = sorted(later - earlier for earlier, later in pairwise(moments))
    if "sleeps" in facts:
        gaps.pop()
    result.values["longest_silence_s"] = round(gaps[-1], 1)
    quiet = f"no line for {gaps[-1]:.0f} s"
    result.wanted(gaps[-1] <= BEAT_S + 2 * RETRIES_S, "silent", quiet)
    beats = sum(passing and "so far" in text for _, passing, text in heard.said)
    result.values["beats"] = beats
    text = f"{beats} signs of life in {awake:.0f} s"
    result.wanted(0.5 * awake / BEAT_S - 2 <= beats <= awake / BEAT_S + 1, "silent", text)
    lasting = [text for _, passing, text in heard.said if not passing]
    result.values["lasting_lines"] = len(lasting)
    result.wanted(len(lasting) <= MOST_LINES, "noisy", f"{len(lasting)} lines: {lasting[:20]}")


@contextmanager
def _credentials(rig: ServicerRig, facts: Json) -> Iterator[TokenServer | None]:
    """Google's credentials library and a token server, if tokens expire."""
    if "token_s" not in facts:
        yield None
        return
    tokens = TokenServer(rig.direct.clock.now, facts["token_s"])
    with TemporaryDirectory() as directory, tokens.serving() as address:
        file = Path(directory) / "credentials.json"
        write_credentials(file, address)
        # Google's library sleeps between its own attempts; here that is on our clock.
        sleeper = SimpleNamespace(sleep=rig.direct.clock.advance)
        with (
            patch.dict(os.environ, GOOGLE_APPLICATION_CREDENTIALS=str(file)),
            patch("google.auth._exponential_backoff.time", sleeper),
        ):
            rig.connection = (session(rig.direct, tokens), "https://tpu.googleapis.com")
            yield tokens


FIGURE = Figure(
    key="6",
    counted=("busy", "silent", "slow", "not converged"),
    title="a week in the queue, every poll of it: a poll every 15 s at most, a sign of life a "
    "minute, the end at the deadline; clock jumps, sleep, expired tokens and a flaky API survived",
    rig="servicer",
    cases=cases,
    judge=judge,
    share=14,
    spare=30,
)
