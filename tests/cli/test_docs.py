"""`tpuflex docs`, and the section that an error names."""

from __future__ import annotations

import ast
import io
import re
from pathlib import Path

import pytest

from tests.cli.typing import TypeIn
from tests.docs.blocks import ROOT
from tpuflex.codes import Code
from tpuflex.errors import (
    CapacityError,
    EngineError,
    FailedBootError,
    Finding,
    NotFoundError,
    SettingsError,
    TpuflexError,
)
from tpuflex.terminal.manual import BY_CODE, BY_KIND, more, readable, rendered, section, sections
from tpuflex.terminal.output import Output


def test_every_anchor_is_one_section() -> None:
    """Each page and section is found by its anchor, and no two share one."""
    found = sections()
    anchors = [each.anchor for each in found]
    assert len(set(anchors)) == len(anchors)
    assert all(section(each.anchor) == each for each in found)
    assert {"troubleshooting#codes-of-a-host", "weights", "how-to/weights", "how-to"} <= {*anchors}


def test_links_lead_to_what_the_manual_has() -> None:
    """Each link within the manual is shown as an anchor of it."""
    anchors = {each.anchor for each in sections()}
    text = readable(section("troubleshooting"))
    shown = set(re.findall(r"\(((?:[\w/-]+)#[\w-]+)\)", text))
    assert {
        "serving#drain",
        "troubleshooting#codes-of-a-host",
        "how-to/weights#remove-them",
    } <= shown
    assert shown <= anchors
    assert "](" not in text


def test_a_section(type_in: TypeIn) -> None:
    """It is shown to its end, subsections included, and for a script as Markdown."""
    shown = type_in("docs", "troubleshooting#while-it-comes-up").out
    assert shown.splitlines()[0].strip() == "While it comes up"
    assert "A lock in a bucket" in shown
    assert "While it serves" not in shown
    assert all(len(line) <= 80 for line in shown.splitlines() if not line.startswith("  "))
    document = type_in("docs", "troubleshooting#another-host", "--json").document
    assert document["anchor"] == "troubleshooting#another-host"
    assert document["text"].startswith("### Another host\n")


def test_a_terminal_for_ascii_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page is shown there all the same, with tables of ASCII."""
    shown = io.BytesIO()
    with monkeypatch.context() as patched:
        patched.setattr("sys.stdout", io.TextIOWrapper(shown, encoding="ascii"))
        Output(json=False, verbose=False).page(rendered(section("troubleshooting")))
        text = shown.getvalue().decode()
    assert "…" in text
    assert "|code |who has to act" in text


def test_all_of_them(type_in: TypeIn) -> None:
    """Without an anchor, all are listed."""
    lines = type_in("docs").out.splitlines()
    assert "troubleshooting: Troubleshooting" in lines
    assert "  troubleshooting#codes-of-a-host" in lines
    assert len(type_in("docs", "--json").document) == len(lines)


@pytest.mark.parametrize(
    ("anchor", "near"),
    [
        ("trubleshooting", "troubleshooting"),
        ("troubleshooting#code-of-hosts", "troubleshooting#codes-of-a-host"),
    ],
)
def test_an_anchor_that_is_none(anchor: str, near: str, type_in: TypeIn) -> None:
    """It is refused with exit code 4, and the nearest anchor is named."""
    typed = type_in("docs", anchor)
    assert typed.code == NotFoundError.exit_code
    assert near in typed.err


def test_anchors_of_errors_are_there() -> None:
    """Every section that an error names, by its kind or where it is raised, is in the manual."""
    anchors = {each.anchor for each in sections()}
    assert {*BY_CODE.values(), *(anchor for _, anchor in BY_KIND)} <= anchors
    named = {
        anchor
        for source in (ROOT / "infra" / "tpuflex").rglob("*.py")
        for anchor in re.findall(r"\bsection=\"([^\"]+)\"", source.read_text())
    }
    assert len(named) == 3
    assert named <= anchors


@pytest.mark.parametrize(
    ("error", "anchor"),
    [
        (
            FailedBootError("It failed.", section="troubleshooting#codes-of-a-host"),
            "troubleshooting#codes-of-a-host",
        ),
        (FailedBootError("The host has reported nothing for 9 min."), ""),
        (CapacityError("no capacity"), "faq#how-long-is-the-queue"),
        (TpuflexError("it is over", code=Code.RUN_OVER), "renewal#one-more-run"),
        (EngineError("locked", locked=True), ""),
        (
            SettingsError("f", (Finding("tpuflex:slice.timeouts.queue", ""),)),
            "settings#slicetimeouts",
        ),
        (SettingsError("f", (Finding("tpuflex:slice.zones", ""),)), "settings#tpuflexslice"),
        (SettingsError("f", (Finding("tpuflex:unknown", ""),)), ""),
        (SettingsError("f", (Finding("pulumi", ""),)), ""),
    ],
)
def test_what_says_more_about_an_error(error: TpuflexError, anchor: str) -> None:
    """An error leads to the section that says more than its hint, and to none where none does."""
    assert more(error) == anchor


def test_an_error_names_the_section(project: Path, type_in: TypeIn) -> None:
    """Its last line is the command that shows it; a script reads the anchor."""
    file = project / "stacks" / "Pulumi.dev.yaml"
    file.write_text(file.read_text() + "  tpuflex:budget: 3\n")
    typed = type_in("cost")
    assert typed.code == SettingsError.exit_code
    assert typed.err.splitlines()[-1] == "More: tpuflex docs settings#tpuflexbudget"
    assert type_in("cost", "--json").document["error"]["more"] == "settings#tpuflexbudget"


def test_messages_name_no_file_that_only_a_checkout_has() -> None:
    """What tpuflex prints names `tpuflex docs`, as a user who installed a wheel has no docs/."""
    found = []
    for file in sorted((ROOT / "infra" / "tpuflex").rglob("*.py")):
        tree = ast.parse(file.read_text())
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        found += [
            f"{file.name}:{node.lineno}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
            if id(node) not in docstrings and re.search(r"\bdocs/[\w/-]+\.md", node.value)
        ]
    assert found == []
    # Of docstrings, those of commands are printed.
    assert re.findall(r"(?<!\()docs/[\w/-]+\.md", (ROOT / "docs" / "cli.md").read_text()) == []


def test_commands_are_whole(type_in: TypeIn) -> None:
    """A line that is to be copied is not broken, however narrow the terminal is."""
    shown = type_in("docs", "rehearsal", COLUMNS="60").out.splitlines()

    line = "gcloud services enable artifactregistry.googleapis.com --project=my-project-id"
    assert f"  {line}" in shown
