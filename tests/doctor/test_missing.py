"""With each API, permission, policy, quota, image and weight missing in turn: what is said of it,
what `up` does, and that nothing is made. goldens/missing.md has the whole table."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.doctor.examined import Doctor
from tests.doctor.missing_rows import SECTIONS, Row
from tests.goldens.golden_texts import REWRITE
from tests.reports import asked
from tpuflex.cli.invocation import Invocation
from tpuflex.deploy.apis import require_apis
from tpuflex.deploy.preparation import EndpointPreparation
from tpuflex.deploy.stack_up import require_checks
from tpuflex.doctor.check import Check, Standing
from tpuflex.engine.failure import failure
from tpuflex.errors import SettingsError, TpuflexError
from tpuflex.google.required_apis import APIS
from tpuflex.weights.stack_weights import StackWeights

DOCUMENT = Path(__file__).parents[1] / "goldens" / "missing.md"
ROWS = [(section, row) for section, rows in SECTIONS.items() for row in rows]
WELL = (Standing.OK, Standing.SKIPPED)
#: These have a line for all of their rows that end in the same way: there are many, and roles.yaml
#: has them.
TOGETHER = "Permissions"


def before_the_engine(doctor: Doctor) -> TpuflexError | None:
    """What `up` does before it makes anything; its refusal."""
    cloud = doctor.cloud
    try:
        require_apis(cloud, *asked(Invocation(environ=cloud.environ, yes=True)))
        require_checks(cloud)
        EndpointPreparation(StackWeights(cloud), print, lambda: False).check()
    except TpuflexError as error:
        return error
    return failure("up", (), doctor.engine_says) if doctor.engine_says else None


def name(section: str, row: Row) -> str:
    """What is missing, as goldens/missing.md has it."""
    if section != TOGETHER:
        return row.missing
    return f"any that `{row.check}` needs" + ("" if row.code else ", and `tpuflex up` does not")


#: The last row of each name.
ENDS = {name(section, row): row for section, row in ROWS}


@pytest.mark.parametrize(
    ("section", "row"), ROWS, ids=[f"{section}: {row.missing}" for section, row in ROWS]
)
def test_one_thing_is_missing(doctor: Doctor, section: str, row: Row) -> None:
    """The doctor's check says so with its remedy, and so does every other that is unwell; `up`
    refuses with the exit code of the kind and a remedy before anything is made, or goes on (m4:
    quota of either pool among them). Of permissions that end in the same way, `up` is asked for
    one: its refusal is that check's."""
    row.take_away(doctor)
    before = resources(doctor)

    checks = doctor.checks()

    assert resources(doctor) == before
    check = checks[row.check]
    assert (check.standing, str(row.remedy) in str(check.remedy)) == (row.standing, True), check
    if section == "APIs" and row.standing is Standing.WARNING:
        others = {api.service for api in APIS} - {row.check}
        assert {checks[each].standing for each in others} == {Standing.OK}
    unwell = [each for each in checks.values() if each.standing not in WELL]
    assert [each for each in unwell if not each.remedy] == []
    assert_documented(section, line(section, row, check))
    if ENDS[name(section, row)] is not row:
        return
    refusal = before_the_engine(doctor)
    assert resources(doctor) == before
    assert (0 if refusal is None else refusal.exit_code) == row.code, refusal
    if refusal is not None:
        assert row.remedy in str(refusal)
        findings = refusal.findings if isinstance(refusal, SettingsError) else ()
        assert str(refusal.hint) or all(finding.remedy for finding in findings)


def test_the_document_has_nothing_else() -> None:
    """A row that is gone from the test is gone from goldens/missing.md."""
    documented = [text for text in DOCUMENT.read_text().splitlines() if text.startswith("| ")]
    names = {text.split(" | ")[0].removeprefix("| ") for text in documented} - {"missing"}
    assert names == {name(section, row) for section, row in ROWS}


def resources(doctor: Doctor) -> object:
    """Everything that exists in the cloud, but for what APIs are on: `up` may enable them."""
    return {
        service: kinds
        for service, kinds in doctor.running.cloud.inventory().items()
        if service != "serviceusage"
    }


def line(section: str, row: Row, check: Check) -> str:
    """The line of goldens/missing.md."""
    first = str(check.remedy).split("\n")[0].replace("tpuflex-dev", "my-project-id")
    remedy = first.partition("--role=")[0] + "--role=ROLE" if "--role=" in first else first
    ends = f"refuses, exit code {row.code}" if row.code else "goes on"
    found = f"{check.standing}: {check.name}"
    shown = f"`{remedy}`" if remedy and "`" not in remedy else remedy
    return f"| {name(section, row)} | {found} | {shown} | {ends} |"


def assert_documented(section: str, text: str) -> None:
    """goldens/missing.md has the line in its section. `make goldens` writes it."""
    head, title, rest = DOCUMENT.read_text().partition(f"\n## {section}\n")
    assert title, section
    body, next_title, after = rest.partition("\n## ")
    if text in body.splitlines() or not os.environ.get(REWRITE):
        assert text in body.splitlines()
        return
    start = text.split(" | ")[0] + " | "
    kept = [each for each in body.rstrip("\n").splitlines() if not each.startswith(start)]
    lines = "\n".join([*kept, text])
    DOCUMENT.write_text(f"{head}{title}{lines}\n{next_title}{after}")
