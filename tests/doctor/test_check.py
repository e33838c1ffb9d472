"""`tpuflex doctor`: how checks are counted, and that examinations keep nobody waiting."""

from __future__ import annotations

import threading

import pytest

from tpuflex.doctor.check import (
    Check,
    Group,
    Standing,
    Subject,
    causes,
    exit_code,
    first_failure,
    in_groups,
    summary,
)
from tpuflex.doctor.side_by_side import Examination, examine_all
from tpuflex.errors import AccessError, EngineError, QuotaError, SettingsError, TpuflexError
from tpuflex.google.reading import DisabledApi, Unread, attempt

ENGINE = Subject(Group.MACHINE, "engine")
BILLING = Subject(Group.ACCOUNT, "billing")
QUOTA = Subject(Group.CAPACITY, "quota")

FINE = ENGINE.ok("there")
WARNED = ENGINE.warning("old", "renew it")
UNPAID = BILLING.failed(AccessError, "none", "link it")
TOO_LITTLE = QUOTA.failed(QuotaError, "0 of 4", "ask for more")
BROKEN = ENGINE.failed(EngineError, "broken", "install it")
UNSEEN = BILLING.unknown(Unread("403"))
LEFT_OUT = QUOTA.skipped("none needed")


@pytest.mark.parametrize(
    ("checks", "code", "sentence"),
    [
        ([FINE], 0, "None of 1 checks failed."),
        ([FINE, WARNED, UNSEEN, LEFT_OUT], 0, "None of 3 checks failed (1 warning, 1 unknown)."),
        ([UNPAID, FINE], 6, "1 of 2 checks failed; mend first: billing."),
        ([TOO_LITTLE, UNPAID, BROKEN], 8, "3 of 3 checks failed; mend first: engine."),
        ([TOO_LITTLE, WARNED, WARNED], 6, "1 of 3 checks failed (2 warnings); mend first: quota."),
    ],
)
def test_what_is_mended_first_gives_the_exit_code(
    checks: list[Check], code: int, sentence: str
) -> None:
    """The first failure in the order of the groups decides; warnings and the unknown do not."""
    assert (exit_code(checks), summary(checks)) == (code, sentence)


def test_groups_keep_the_order_within() -> None:
    """Checks come by group, in the order in which they were made."""
    checks = in_groups([TOO_LITTLE, UNPAID, FINE, UNSEEN])

    assert checks == (FINE, UNPAID, UNSEEN, TOO_LITTLE)
    assert first_failure(checks) is UNPAID
    assert first_failure([FINE, WARNED, UNSEEN, LEFT_OUT]) is None


@pytest.mark.parametrize("kind", [AccessError, QuotaError, EngineError, SettingsError])
def test_a_failure_is_an_error_that_says_the_same(kind: type[TpuflexError]) -> None:
    """What `up` refuses with has the text, the remedy and the exit code of the check."""
    error = QUOTA.failed(kind, "0 of 4", "ask for more").error()

    assert isinstance(error, kind)
    assert "quota: 0 of 4" in str(error)
    assert "ask for more" in str(error)


def test_a_document_of_a_check() -> None:
    """A check is five texts in JSON."""
    assert UNPAID.to_json() == {
        "group": "Credentials and project",
        "name": "billing",
        "standing": "failed",
        "text": "none",
        "remedy": "link it",
    }


def test_what_cannot_be_read_is_unknown_with_a_remedy() -> None:
    """A refused reading names the refusal without its URL; there is always something to do."""

    def refused() -> int:
        brief = "403 PERMISSION_DENIED:\n no"
        raise AccessError(f"GET https://tpu.googleapis.com/v2: {brief}", brief=brief)

    def no_disk() -> int:
        raise OSError(5, "Input/output error")

    unread = attempt(refused)
    assert isinstance(unread, Unread)
    assert unread.why == "403 PERMISSION_DENIED: no"
    assert str(unread.remedy).startswith("Run it again")
    assert attempt(no_disk, "mend the disk") == Unread(
        "[Errno 5] Input/output error", "mend the disk"
    )
    assert attempt(lambda: 7) == 7


def examination(name: str, *checks: Check) -> Examination:
    return Examination(Group.MACHINE, name, lambda: checks)


def test_examinations_run_side_by_side() -> None:
    """Each has its thread: two that wait for each other both end."""
    meet = threading.Barrier(2, timeout=60)

    def together() -> list[Check]:
        meet.wait()
        return [FINE]

    pair = [Examination(Group.MACHINE, name, together) for name in ("one", "two")]

    assert examine_all(pair) == ((FINE,), (FINE,))


def test_an_examination_that_does_not_end_is_unknown() -> None:
    """One that hangs keeps no other from being told, and the thread dies with the process."""
    forever = threading.Event()

    def hang() -> list[Check]:
        forever.wait()
        return []

    hanging = Examination(Group.ACCOUNT, "billing", hang)
    try:
        (late,), (fine,) = examine_all([hanging, examination("engine", FINE)], patience=0.2)
        threads = [each for each in threading.enumerate() if each.name == "billing"]
    finally:
        forever.set()

    assert [late.standing, fine.standing] == [Standing.UNKNOWN, Standing.OK]
    assert late.text == "no answer within 0.2 s"
    assert late.remedy
    assert [thread.daemon for thread in threads] == [True]


def test_a_refusal_within_an_examination_is_unknown() -> None:
    """What an examination does not treat itself is unknown, under the examination's name."""

    def refused() -> list[Check]:
        raise AccessError("not you", hint="ask")

    ((check,),) = examine_all([Examination(Group.ACCOUNT, "billing", refused)])

    assert (check.name, check.standing, check.text, str(check.remedy)) == (
        "billing",
        Standing.UNKNOWN,
        "not you",
        "ask",
    )


def test_a_bug_is_not_hidden() -> None:
    """An error that is none of ours is raised as it is."""

    def wrong() -> list[Check]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        examine_all([Examination(Group.MACHINE, "engine", wrong)])


def test_apis_that_are_off_are_one_cause() -> None:
    """One command enables all of them, and what cannot look before that is named there, not again
    below; what stands alike for the same reason is one cause, too."""
    tpu, dns, billing = (DisabledApi(f"{name}.googleapis.com", "p") for name in ["tpu", "dns", "b"])
    apis = [Subject(Group.APIS, each.service).warning("off", "", each) for each in (tpu, dns)]
    hidden = Subject(Group.CAPACITY, "zone").unknown(Unread("off", "", tpu))
    alone = Subject(Group.ACCOUNT, "billing").unknown(Unread("off", "", billing))
    alike = [Subject(Group.PERMISSIONS, name).failed(AccessError, "no", "ask") for name in "ab"]

    found = causes([*apis, hidden, alone, *alike])

    assert [(cause.checks, cause.hidden) for cause in found] == [
        (tuple(alike), ()),
        (tuple(apis), (hidden,)),
        ((alone,), ()),
    ]
    assert [cause.remedy for cause in found] == [
        "ask",
        "gcloud services enable tpu.googleapis.com dns.googleapis.com --project=p",
        "gcloud services enable b.googleapis.com --project=p",
    ]
