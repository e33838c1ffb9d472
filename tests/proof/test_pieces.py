"""Money, privacy, timelines and claims of a run that proves something, each by itself."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proof import claims, timeline
from proof.budget import BESIDE_CHIPS_USD, NEEDED, WANTED, affordable_run
from proof.options import options
from proof.run import prove
from proof.scrub import Scrubber
from tpuflex.google.endpoints import REHEARSAL_VARIABLE

DOLLARS = st.decimals("0.01", "1000", places=2)


@given(cap=DOLLARS, per_hour=DOLLARS)
def test_a_run_never_costs_more_than_the_cap(cap: Decimal, per_hour: Decimal) -> None:
    """Whatever is asked, chips for the longest run and what comes beside them are within the cap;
    or it is refused, with an amount that would be enough."""
    try:
        run = affordable_run(cap, per_hour)
    except ValueError as refusal:
        enough = Decimal(str(refusal).split("write ")[1].split(" ")[0])
        assert enough > cap
        assert affordable_run(enough, per_hour) >= NEEDED
    else:
        assert NEEDED <= run <= WANTED
        assert per_hour * run.seconds / 3600 + BESIDE_CHIPS_USD <= cap


def test_a_price_that_is_not_known_is_no_price() -> None:
    """Nothing is bought whose price nobody knows; what is free has no limit."""
    with pytest.raises(ValueError, match="not known"):
        affordable_run(Decimal(100), None)
    assert affordable_run(Decimal(0), Decimal(0)) == WANTED


PRIVATE = """\
GET https://tpu.googleapis.com/v2/projects/acme-prod-1/locations/us-east5-a/nodes/x
projects/123456789012/secrets/key read by jane.doe@acme.example from /home/jane/work, 10.128.0.7
serviceAccount:chat@acme-prod-1.iam.gserviceaccount.com on 34.5.6.7, metadata at 169.254.169.254
Authorization: Bearer ya29.a0AfH6SMBx-abcdefgh key sk-abcdefghijklmnop1234 hf_abcdefghijklmnopqr
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0kfJx1z3hS9q8n7m6b5v4c3x2z1a0s9d8f7g6h5j4k jane@acme
127.0.0.1 and 10.128.0.7 again; acme-prod-10 is another project
"""


def test_what_names_somebody_is_replaced() -> None:
    """Project, number, people, addresses, keys and tokens; the same by the same word, and what is
    needed to read the evidence stays."""
    scrub = Scrubber({"PROJECT": "acme-prod-1", "USER": "jane", "HOME": "/home/jane"})

    clean = scrub(PRIVATE)

    for private in (
        "acme-prod-1/",
        "jane",
        "123456789012",
        "10.128",
        "34.5.6.7",
        "ya29",
        "sk-",
        "hf_",
    ):
        assert private not in clean, private
    assert "AAAAC3" not in clean
    assert clean.count("ADDRESS-1") == 2
    assert "projects/PROJECT/locations/us-east5-a/nodes/x" in clean
    assert "169.254.169.254" in clean
    assert "127.0.0.1" in clean
    assert "acme-prod-10" in clean
    assert Scrubber({})(clean) == clean


@pytest.mark.parametrize(
    "private",
    [
        "jane%40example.com",
        "JANE.DOE@EXAMPLE.COM",
        "2600:1900:4000:1234:8000:0:0:1",
        "2600:1900:4000:1234::1",
        "organizations/123456",
        "folders/99",
        '"projectNumber": "123456789012"',
        "billingAccounts/01A2B3-44C5D6-77E8F9",
        "https://storage.googleapis.com/upload/x?uploadType=resumable&upload_id=ADPycdu-secret_1",
        "GOCSPX-abcdefghijklmnopqrst",
        "1//0gabcdefghijklmnopqrstuv",
        "-----BEGIN PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----",
    ],
)
def test_what_else_names_somebody_or_lets_somebody_in(private: str) -> None:
    """Whatever identifies or authorizes is not in the copy, in each of its spellings."""
    clean = Scrubber({})(f"x {private} y")

    secret = private.split("=")[-1].split("/")[-1].split(": ")[-1].strip('"')
    assert secret not in clean
    assert clean.startswith("x ")
    assert clean.endswith(" y")


def test_when_states_and_operations_changed() -> None:
    """A state is listed when it is first seen; an operation with what began it and its end."""
    operation = "projects/p/locations/z/operations/1"
    queued = {"name": "projects/p/locations/z/queuedResources/q", "state": {"state": "WAITING"}}
    active = {**queued, "state": {"state": "ACTIVE"}}
    url = "https://tpu.googleapis.com/v2alpha1/projects/p/locations/z"
    answers: list[tuple[str, object]] = [
        (f"POST {url}/queuedResources?x=1", {"name": operation}),
        (f"GET {url}", {"name": operation, "done": True}),
        (f"GET {url}", queued),
        (f"GET {url}", queued),
        (f"GET {url}", {"queuedResources": [active]}),
        (f"GET {url}", "(12 bytes)"),
    ]
    entries = [
        {"at": str(at), "method": call.split()[0], "url": call.split()[1], "answer": answer}
        for at, (call, answer) in enumerate(answers, 1)
    ]

    assert [(one["at"], one["state"]) for one in timeline.states(entries)] == [
        ("3", "WAITING"),
        ("5", "ACTIVE"),
    ]
    (one,) = timeline.operations(entries)
    assert (one["call"], one["began"], one["done"]) == (
        "POST /v2alpha1/projects/p/locations/z/queuedResources",
        "1",
        "2",
    )


def test_claims_can_be_named_and_judged() -> None:
    """Every row has a name of its own, and says whether it is proved; each judgement is of one."""
    rows = [line.split(" | ")[:2] for line in _rows(claims.PAGE.read_text("utf-8"))]
    names = [name for _, name in rows]

    assert len(names) == len(set(names))
    assert set(claims.JUDGEMENTS) <= set(names)
    assert all(standing.startswith(("| NOT", "| PROVED ")) for standing, _ in rows)


def test_a_proof_is_written_down_with_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row says since when, at which commit, and where the evidence is; the others stay."""
    before = claims.PAGE.read_text("utf-8")
    (tmp_path / "proved.md").write_text(before)
    monkeypatch.setattr(claims, "PAGE", tmp_path / "proved.md")

    claims.record(set(), evidence="x")
    assert (tmp_path / "proved.md").read_text() == before
    claims.record({"reboot"}, evidence="20270101-120000")

    rows = _rows((tmp_path / "proved.md").read_text())
    (proved,) = (row for row in rows if row.startswith("| PROVED "))
    assert "20270101-120000" in proved
    assert "restarted" in proved
    assert [row for row in rows if row != proved] == [
        row for row in _rows(before) if "| reboot |" not in row
    ]


def test_a_run_that_fails_shows_only_what_it_showed(tmp_path: Path) -> None:
    """A claim is shown by a step that succeeded, not by one that was begun."""
    for number, (name, code) in enumerate({"up": 0, "ask": 6, "down": 0, "sweep": 0}.items()):
        (tmp_path / f"{number:02}-{name}.json").write_text(json.dumps({"exit_code": code}))

    assert claims.judged(tmp_path) == {"nothing-left"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--project", "my-project", "--zone", "us-east5-a"), "CAP_USD is missing"),
        (("--project", "", "--zone", "us-east5-a", "--cap-usd", "2"), "PROJECT=my-project-id"),
        (("--project", "my-project", "--zone", "east", "--cap-usd", "2"), "ZONE=us-east5-a"),
        (("--project", "my-project", "--zone", "us-east5-a", "--cap-usd", "much"), "CAP_USD=2"),
        (("--project", "my-project", "--zone", "us-east5-a", "--cap-usd", "-1"), "CAP_USD=2"),
        (("--project", "my-project", "--zone", "us-east5-a", "--template", "x"), "first-proof"),
    ],
)
def test_wrong_usage_says_what_to_write(
    words: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What make was not told, or told wrong, ends with 2 before anything is made."""
    with pytest.raises(SystemExit) as ended:
        options(words, tmp_path / "run")

    assert ended.value.code == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def _rows(page: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith(("| NOT", "| PROVED"))]


def test_a_rehearsal_proves_nothing_of_google(tmp_path: Path) -> None:
    """In a shell that rehearses, a run for Google is refused before it makes or records anything:
    its evidence would be that of the embedded cloud."""
    words = ["--project", "acme-prod-1", "--zone", "us-east5-a", "--cap-usd", "5"]
    given, said = options(words, tmp_path / "evidence"), io.StringIO()

    assert prove(given, {REHEARSAL_VARIABLE: "1"}, said) == 2
    assert "nothing would reach Google" in said.getvalue()
    assert list(tmp_path.iterdir()) == []
