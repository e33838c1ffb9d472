"""Each class of failure, and each alert, has its page, and each page is of one."""

from __future__ import annotations

import re

import pytest

from tests.alerts import gateway_recording
from tests.alerts.test_rules import RULES
from tests.docs.blocks import ROOT
from tpuflex.diagnosis.classes import CLASSES, UNKNOWN
from tpuflex.terminal.manual import section

RUNBOOKS = ROOT / "docs" / "runbooks"
PAGES = {page.stem for page in RUNBOOKS.glob("*.md")} - {"README"}


def test_each_class_has_its_page_and_each_page_its_class() -> None:
    """None is missing, and none is of neither a class nor an alert."""
    rules = (*RULES.values(), *gateway_recording.RULES.values())
    assert CLASSES.keys() | {rule.runbook for rule in rules} == PAGES
    assert UNKNOWN.slug not in PAGES


@pytest.mark.parametrize("slug", CLASSES)
def test_a_page_says_what_it_has_to(slug: str) -> None:
    """Symptom, why, what to do, and how to see that it is mended; a terminal shows it by the name
    that `diagnose` gives."""
    page = section(CLASSES[slug].page)

    assert page.level == 1
    for part in ("Symptom", "Why", "What to do", "Mended when"):
        assert f"**{part}" in page.text
    assert "tpuflex " in page.text


def test_the_index_lists_every_page() -> None:
    """In the order of causes, with the classes' own titles."""
    rows = re.findall(
        r"^\| \[(.+?)\]\((.+?)\.md\) \| (.+) \|$", (RUNBOOKS / "README.md").read_text(), re.M
    )
    titles = {slug: title for slug, _, title in rows}

    assert titles.keys() == PAGES
    assert [slug for slug in titles if slug in CLASSES] == [*CLASSES]
    assert all(titles[slug] == row.title for slug, row in CLASSES.items())
