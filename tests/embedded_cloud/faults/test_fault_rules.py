"""Fault rules: which call they strike at, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from embedded_cloud.core.errors import CloudError
from embedded_cloud.faults.control import FAULTS, fits, random_rules
from embedded_cloud.faults.injector import FaultBook
from embedded_cloud.faults.rule import CallFacts, Rule, parse_rule

PLACE = "/v2alpha1/projects/p/locations/us-east5-a"
GET = "tpu.projects.locations.queuedResources.get"
CREATE = "tpu.projects.locations.queuedResources.create"


def facts(method_id: str = GET, resource: str = f"{PLACE}/queuedResources/q1") -> CallFacts:
    """A call about ``resource``."""
    method = "POST" if method_id == CREATE else "GET"
    path = resource.rpartition("/")[0] if method == "POST" else resource
    return CallFacts(method, path, method_id, "tpu", resource)


def rule(**changed: Any) -> Rule:
    """A rule that resets connections."""
    return parse_rule({"effect": {"kind": "reset"}, **changed})


def strikes(of: Rule, calls: int = 8) -> list[int]:
    """At which of ``calls`` equal calls the rule strikes."""
    book = FaultBook()
    book.add(of)
    return [number for number in range(1, calls + 1) if book.arrived(facts())]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, [1]),
        ({"nth": 3}, [3]),
        ({"times": 2}, [1, 2]),
        ({"nth": 2, "times": 3}, [2, 3, 4]),
        ({"nth": 2, "every": 3, "times": 0}, [2, 5, 8]),
        ({"every": 2, "times": 2}, [1, 3]),
    ],
)
def test_a_rule_strikes_at_the_calls_that_it_names(
    given: dict[str, Any], expected: list[int]
) -> None:
    """From the nth matching call at every so many, so many times."""
    assert strikes(rule(**given)) == expected


@pytest.mark.parametrize(
    ("where", "matches"),
    [
        ({}, True),
        ({"method": "GET"}, True),
        ({"method": "POST"}, False),
        ({"method_id": GET}, True),
        ({"method_id": "tpu.*.queuedResources.*"}, True),
        ({"method_id": "tpu.*.nodes.*"}, False),
        ({"service": "tpu"}, True),
        ({"service": "compute"}, False),
        ({"path": r"/queuedResources/q\d$"}, True),
        ({"path": r"/nodes/"}, False),
        ({"resource": "us-east5-a.*q1"}, True),
        ({"resource": "us-east5-b"}, False),
        ({"method": "GET", "service": "storage"}, False),
    ],
)
def test_everything_that_a_rule_says_of_a_call_must_hold(
    where: dict[str, str], matches: bool
) -> None:
    """Method, method id with wildcards, service, path, resource; what is left out matches."""
    assert bool(strikes(rule(where=where), 1)) is matches


def test_a_rule_can_wait_for_another_call_to_the_same_resource() -> None:
    """404 after create: the look before the create does not count, nor another's create."""
    book = FaultBook()
    book.add(rule(where={"method_id": GET, "after": CREATE}, times=2))
    other = facts(CREATE, f"{PLACE}/queuedResources/q2")

    before = book.arrived(facts())
    book.done(other)
    after_other = book.arrived(facts())
    book.done(facts(CREATE))

    assert (before, after_other) == ((), ())
    assert [bool(book.arrived(facts())) for _ in range(3)] == [True, True, False]


def test_counters_tell_what_matched_and_what_struck() -> None:
    """A rule that matched and one that never did are told apart; removal starts anew."""
    book = FaultBook()
    first = book.add(rule(nth=2))
    book.add(rule(id="never", where={"service": "iam"}))
    for _ in range(3):
        for struck in book.arrived(facts()):
            book.strike(struck)

    shown = book.to_json()

    assert first.id == "r1"
    assert shown["firings"] == 1
    assert [(r["id"], r["seen"], r["fired"]) for r in shown["rules"]] == [  # type: ignore[index,call-overload,union-attr]
        ("r1", 3, 1),
        ("never", 0, 0),
    ]
    book.remove()
    assert book.to_json()["firings"] == 0


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({}, "effect"),
        ({"effect": {"kind": "explode"}}, "effect"),
        ({"effect": {"kind": "reset"}, "nth": 0}, "nth"),
        ({"effect": {"kind": "reset"}, "wen": 1}, "wen"),
        ({"effect": {"kind": "reset"}, "where": {"path": "("}}, "regular expression"),
        ({"effect": {"kind": "reset", "seconds": 1}}, "seconds"),
        ({"effect": {"kind": "answer", "status": 99}}, "status"),
        ({"effect": {"kind": "answer", "status": 503, "headers": {"a\r\nb": "c"}}}, "headers"),
        ({"effect": {"kind": "timeout", "hold_s": 1e9}}, "hold_s"),
        ({"effect": {"kind": "kill", "roles": []}}, "roles"),
        ({"effect": {"kind": "kill", "roles": ["cli"], "signal": "HUP"}}, "signal"),
        ({"effect": {"kind": "html"}, "stage": "after-response"}, "not possible at the stage"),
        ({"effect": {"kind": "truncated"}, "stage": "before-commit"}, "not possible"),
        ("reset", "rule"),
    ],
)
def test_a_rule_that_is_not_understood_is_refused(document: Any, said: str) -> None:
    """400, naming what is wrong: a rule that silently does nothing would prove nothing."""
    with pytest.raises(CloudError, match=said) as refused:
        parse_rule(document)
    assert refused.value.http_status == 400


@pytest.mark.parametrize("name", FAULTS)
def test_every_named_fault_survives_the_control_api(name: str) -> None:
    """What is written out can be read in again."""
    made = FAULTS[name].rule(rule().where, nth=2, rule_id=name)

    assert parse_rule(made.to_json()) == made


def test_a_seed_chooses_the_same_rules_every_time() -> None:
    """Another seed, another choice; only faults that make sense for the call."""
    calls = [GET] * 5 + [CREATE, "storage.objects.insert"]

    chosen = {seed: random_rules(seed, calls, count=2) for seed in range(50)}

    assert chosen == {seed: random_rules(seed, calls, count=2) for seed in range(50)}
    assert len({str(rules) for rules in chosen.values()}) > 40
    for rules in chosen.values():
        for made in rules:
            name = made.id.partition(".")[2].partition(".")[2]
            assert fits(FAULTS[name], made.where.method_id or "")
            assert 1 <= made.nth <= 5
