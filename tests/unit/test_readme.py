"""The README agrees with the project: its code blocks, its stack file, its links."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from tpuflex.settings.load import parse
from tpuflex.settings.model import PLACEHOLDER_PROJECT

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
DOCUMENTS = sorted(
    path
    for place in (".", "contributing", "docs", "docs/adr", "docs/how-to")
    for path in (ROOT / place).glob("*.md")
)


def test_examples_are_the_files_that_tests_run() -> None:
    """A code block marked `example: FILE` is exactly that file."""
    marked = re.findall(r"<!-- example: (\S+) -->\n```\w+\n(.*?)```", README, re.DOTALL)

    assert marked
    for path, code in marked:
        assert (ROOT / path).read_text() == code


def test_the_stack_shown_is_a_stack() -> None:
    """The stack file in the README is accepted, but for its placeholder project."""
    blocks = re.findall(r"```yaml\n(config:.*?)```", README, re.DOTALL)

    assert blocks
    for block in blocks:
        config = yaml.safe_load(block)["config"]
        sections = {key.removeprefix("tpuflex:"): value for key, value in config.items()}
        text = json.dumps(sections).replace(PLACEHOLDER_PROJECT, "some-project")
        settings = parse(json.loads(text), "README.md")
        assert settings.slice.zones


def test_the_readme_is_read_to_its_end() -> None:
    """README has at most 1,500 words: what takes more has a page of its own below docs/."""
    assert len(README.split()) <= 1500


def test_commands_that_change_a_project_name_it() -> None:
    """A shell that points elsewhere must not decide where the APIs and the mirror are made."""
    text = README.replace("\\\n", "")
    commands = re.findall(r"^gcloud (?:services|artifacts) .*$", text, re.MULTILINE)

    assert len(commands) == 2
    for command in commands:
        assert f"--project={PLACEHOLDER_PROJECT}" in command


def test_the_recording_is_there_for_light_and_dark() -> None:
    """Both pictures are small, fetch nothing, and show no path of the machine they come from."""
    names = re.findall(r'src(?:set)?="(docs/pictures/[^"]+)"', README)

    assert names == ["docs/pictures/run-dark.svg", "docs/pictures/run-light.svg"]
    for name in names:
        text = (ROOT / name).read_text()
        picture = ElementTree.fromstring(text)  # noqa: S314, a file of our own
        shown = "\n".join(picture.itertext())
        assert len(text) < 150_000
        assert "$ tpuflex up" in shown.replace("$\ntpuflex", "$ tpuflex")
        assert "Nothing is left of stack dev" in shown
        assert not re.search(r"(?<![\w.])/(?:tmp|home|root|Users|var|work)/", shown)
        assert not re.search(r"""(?:href|src)=|url\(|@import""", text)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    """Every relative link points to a file of the project."""
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text())

    for link in links:
        assert (document.parent / link).exists(), f"{document}: {link}"
