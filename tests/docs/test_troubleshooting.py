"""The guide to errors quotes what the code says, and leaves no kind of failure out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.docs.blocks import ROOT
from tpuflex import errors

PAGE = (ROOT / "docs" / "how-to" / "troubleshooting.md").read_text()
_ROW = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)
_FAIL = re.compile(r"\bfail (\"?[a-z][\w$\[\]{}-]*\"?) [\"']")


def section(title: str) -> str:
    """The text below the heading ``title``."""
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def literals() -> Iterator[str]:
    """Every text in the code of tpuflex that is no docstring; gaps for what is filled in."""
    for file in (ROOT / "infra").rglob("*.py"):
        tree = ast.parse(file.read_text())
        plain = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if id(node) not in plain:
                    yield node.value
            elif isinstance(node, ast.JoinedStr):
                yield "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "\0"
                    for part in node.values
                )


def test_every_quoted_message_is_one_of_ours() -> None:
    """Each part of a message between gaps stands in a text of the code."""
    quoted = [
        message
        for title in (
            "Before anything is made",
            "While it comes up",
            "While it serves",
            "While it goes down",
        )
        for message in _ROW.findall(section(title))
    ]
    texts = set(literals())

    assert len(quoted) > 25
    assert [
        message
        for message in quoted
        if not all(
            any(part.strip() in text for text in texts) for part in message.split("…") if part
        )
    ] == []


def test_every_exit_code_is_explained() -> None:
    """The table by exit code has every one of the errors', and click's."""
    codes = {
        kind.exit_code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.TpuflexError)
    }
    rows = re.findall(r"^\| (\d+) \|", section("By exit code"), re.MULTILINE)

    assert {int(row) for row in rows} == codes | {2}


def test_every_code_of_a_host_is_explained() -> None:
    """The table of a host's codes has those that the startup script fails with, and no others."""
    scripts = "".join(file.read_text() for file in (ROOT / "startup").glob("*.sh"))
    codes = {code.strip('"') for code in _FAIL.findall(scripts)} - {"$code"}
    code = "".join(file.read_text() for file in (ROOT / "startup").glob("*.py"))
    codes |= set(re.findall(r"\"(weights-[a-z]+)[\"\\]", code))
    explained = set(_ROW.findall(section("Codes of a host")))

    named = {re.sub(r"\$.*", "…", code) for code in codes}
    assert explained - named == set(), "explained, and never said"
    assert named - explained == set(), "said, and not explained in docs/how-to/troubleshooting.md"
