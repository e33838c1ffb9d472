"""The site of docs/ (`make site`): what a reader's browser gets."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path, PurePosixPath

import pytest

from docs._hooks.repository_links import rewritten
from tests.docs.blocks import PAGES, ROOT

#: Elements by which a page makes the browser fetch something, and where they say what.
FETCHED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "object": "data",
    "embed": "src",
}
#: Kinds of `<link>` that are addresses, and make no browser fetch anything.
NAMED_ONLY = {"canonical", "next", "prev", "alternate"}

site = pytest.mark.skipif(
    "TPUFLEX_SITE" not in os.environ, reason="`make site` builds it, and runs these tests"
)


class _Fetches(HTMLParser):
    """Collects what a page makes a browser fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "link" and values.get("rel") not in NAMED_ONLY:
            self.found.append(values.get("href") or "")
        elif tag in FETCHED:
            self.found.append(values.get(FETCHED[tag]) or "")


def fetches(page: str) -> Iterator[str]:
    """The addresses on other hosts that the text of ``page`` makes a browser fetch from."""
    parser = _Fetches()
    parser.feed(page)
    yield from (each for each in parser.found if re.match(r"(https?:)?//", each))
    yield from re.findall(r"(?:@import|url\()\s*['\"]?((?:https?:)?//[^'\")\s]+)", page)


@site
def test_nothing_comes_from_another_host() -> None:
    """Fonts, scripts, styles and pictures are the site's own: reading it tells nobody else."""
    built = Path(os.environ["TPUFLEX_SITE"])
    pages = [*built.rglob("*.html"), *built.rglob("*.css")]

    assert len(pages) > 30
    assert {found for page in pages for found in fetches(page.read_text())} == set()


@pytest.mark.parametrize(
    "page",
    [
        '<script src="https://cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="//fonts.example/css">',
        "<style>@import 'https://fonts.example/css';</style>",
        '<img src="https://example.com/x.png">',
    ],
)
def test_other_hosts_are_noticed(page: str) -> None:
    """The check of hosts can fail."""
    assert list(fetches(page))


@site
def test_every_page_is_built_and_found_by_search() -> None:
    """Each page of docs/ has its own on the site, and is in the index of the search."""
    built = Path(os.environ["TPUFLEX_SITE"])
    index = json.loads((built / "search" / "search_index.json").read_text())
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}

    for page in PAGES[1:]:
        place = page.relative_to(ROOT / "docs").with_suffix("")
        folder = place.parent if place.name in ("index", "README") else place
        location = "" if str(folder) == "." else f"{folder.as_posix()}/"
        assert (built / location / "index.html").is_file(), page
        assert location in found, page


def test_every_page_is_in_the_navigation() -> None:
    """A new page needs a line in mkdocs.yml; decisions and runbooks are listed by pages of their
    own."""
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    listed = re.findall(r"(\S+\.md)$", navigation, re.MULTILINE)
    pages = [str(page.relative_to(ROOT / "docs")) for page in PAGES[1:]]

    own = r"adr/\d|runbooks/[a-z]"
    assert sorted(listed) == sorted(page for page in pages if not re.match(own, page))


def test_links_out_of_docs_lead_to_the_repository() -> None:
    """A link to a file or folder of the project becomes one to the repository; others stay."""
    text = (
        "[a](../Makefile) [b](../tests/docs#x) [c](cli.md) [d](https://e.example)\n"
        "```\n[a](../Makefile)\n```\n"
    )
    made, missing = rewritten(
        text, PurePosixPath("stacks.md"), ROOT / "docs", "https://git.example/o/tpuflex/"
    )

    assert missing == []
    assert made == (
        "[a](https://git.example/o/tpuflex/blob/main/Makefile)"
        " [b](https://git.example/o/tpuflex/tree/main/tests/docs#x) [c](cli.md)"
        " [d](https://e.example)\n```\n[a](../Makefile)\n```\n"
    )


def test_links_of_pages_in_folders() -> None:
    """From a page in a folder, `../` stays within docs/ and `../../` leaves it."""
    page = PurePosixPath("how-to/teardown.md")
    made, missing = rewritten(
        "[a](../cli.md) [b](../../Makefile)", page, ROOT / "docs", "https://git.example/o/tpuflex"
    )

    assert missing == []
    assert made == "[a](../cli.md) [b](https://git.example/o/tpuflex/blob/main/Makefile)"


def test_without_a_repository_the_text_stays() -> None:
    """No link is made up where the repository's address is not known."""
    page = PurePosixPath("stacks.md")
    assert rewritten("see [a](../Makefile)", page, ROOT / "docs", "") == ("see a", [])


def test_a_link_to_nothing_is_named() -> None:
    """A file that is not there, or is outside of the project, is a warning, which ends a build."""
    page = PurePosixPath("stacks.md")
    _, missing = rewritten("[a](../nowhere) [b](../../etc)", page, ROOT / "docs", "")
    assert missing == ["../nowhere", "../../etc"]


def test_lists_are_lists_on_the_site_too() -> None:
    """Where GitHub begins a list right below a paragraph, Python's Markdown goes on with the
    paragraph: every list has an empty line above."""
    wrong = []
    for page in PAGES[1:]:
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        lines = text.splitlines()
        for number, (before, line) in enumerate(pairwise(lines), 2):
            item = re.match(r"([-*+]|\d+\.) ", line)
            if item and before.strip() and not re.match(r"\s*([-*+]|\d+\.) |\s{2,}", before):
                wrong.append(f"{page.relative_to(ROOT)}: {number}: {line[:60]}")
    assert wrong == []
