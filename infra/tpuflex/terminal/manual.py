"""The manual: the pages of docs/, which the wheel has, section by section; and which section says
more about an error."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from textwrap import indent
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tpuflex.codes import Code
from tpuflex.errors import (
    AccessError,
    CapacityError,
    NotFoundError,
    PlanChangedError,
    PolicyError,
    SettingsError,
    TpuflexError,
    UnknownModelError,
)

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.markdown import Markdown

#: In a checkout a link to docs/, in the wheel a copy of its pages.
_PAGES = Path(__file__).parents[1] / "docs"
_HOW_TO = "how-to"
_RUNBOOKS = "runbooks"
_HEADING = re.compile(r"(#{1,6}) +(.+?) *")
_FENCE = re.compile(r" *(?:```|~~~)")
_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
#: A link or a picture; its text may have brackets in code.
_LINK = re.compile(r"(?P<picture>!?)\[(?P<text>(?:`[^`]*`|[^\[\]`])*)\]\((?P<target>[^()\s]*)\)")


@dataclass(frozen=True, slots=True)
class Section:
    """A page of the manual, or a part of one.

    Attributes:
        anchor: what it is asked for by: ``teardown``, ``teardown#many-stacks``.
        title: its heading.
        level: of its heading; 1 for a page.
        text: all of it in Markdown, with its heading and the sections within.
    """

    anchor: str
    title: str
    level: int
    text: str

    def to_json(self) -> dict[str, object]:
        """The document that ``tpuflex docs ANCHOR --json`` prints."""
        return {"anchor": self.anchor, "title": self.title, "text": self.text}


def page_names() -> dict[str, Path]:
    """The pages by name, that of the file; of two with the same name, the guide is ``how-to/…``.
    Those on a class of failure or an alert are ``runbooks/…``."""
    top = {page.stem: page for page in sorted(_PAGES.glob("*.md"))}
    guides = sorted((_PAGES / _HOW_TO).glob("*.md"))
    named = {
        f"{_HOW_TO}/{page.stem}" if page.stem in top else page.stem: page
        for page in guides
        if page.stem != "README"
    }
    runbooks = {
        f"{_RUNBOOKS}/{page.stem}": page
        for page in sorted((_PAGES / _RUNBOOKS).glob("*.md"))
        if page.stem != "README"
    }
    indexes = {each: _PAGES / each / "README.md" for each in (_HOW_TO, _RUNBOOKS)}
    return {**named, **top, **indexes, **runbooks}


def sections() -> list[Section]:
    """Every page, each followed by its sections."""
    return [section for name, page in page_names().items() for section in _sections(name, page)]


def section(anchor: str) -> Section:
    """The page or section that ``anchor`` names.

    Raises:
        NotFoundError: there is none; names those that are nearest.
    """
    from difflib import get_close_matches

    name = anchor.partition("#")[0]
    page = page_names().get(name)
    found = [] if page is None else [*_sections(name, page)]
    for each in found:
        if each.anchor == anchor:
            return each
    names = [each.anchor for each in found or sections()]
    near = get_close_matches(anchor, names, n=3, cutoff=0.5) or names[:3]
    raise NotFoundError(
        f"The manual has no {anchor!r}.",
        hint=f"Near: {', '.join(near)}. `tpuflex docs` lists all.",
    )


def readable(shown: Section) -> str:
    """The text of ``shown`` in Markdown for a terminal: what a link leads to is named as
    `tpuflex docs` takes it, pictures and comments are left out."""
    name = shown.anchor.partition("#")[0]
    page = page_names()[name]

    def linked(link: re.Match[str]) -> str:
        if link["picture"]:
            return ""
        target = _target(name, page, link["target"])
        return f"{link['text']} ({target})" if target else link["text"]

    return _LINK.sub(linked, _COMMENT.sub("", shown.text))


def rendered(shown: Section) -> Markdown:
    """The text of ``shown`` as a terminal shows it."""
    from rich.markdown import CodeBlock, Markdown, TableElement
    from rich.text import Text

    class Table(TableElement):
        """A table in which no word is cut."""

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            for table in super().__rich_console__(console, options):
                for column in cast("Any", table).columns:
                    column.overflow = "fold"
                yield table

    class Code(CodeBlock):
        """Lines to be copied, which stay as they are, however narrow the terminal is."""

        def __rich_console__(self, _console: Console, _options: ConsoleOptions) -> RenderResult:
            code = indent(str(self.text).rstrip(), "  ")
            yield Text(code, no_wrap=True, overflow="ignore")

    class Page(Markdown):
        elements = {
            **Markdown.elements,
            "table_open": Table,
            "fence": Code,
            "code_block": Code,
        }

    return Page(readable(shown), hyperlinks=False)


def _target(name: str, page: Path, target: str) -> str:
    """What a link on the page leads to, for people: an address, or an anchor of the manual; empty
    for a file that the manual has not."""
    if "://" in target:
        return target
    path, _, part = target.partition("#")
    if path:
        where = (page.parent / PurePosixPath(path)).resolve()
        names = (each for each, file in page_names().items() if file.resolve() == where)
        name = next(names, "")
    return f"{name}#{part}" if name and part else name


@cache
def _sections(name: str, page: Path) -> tuple[Section, ...]:
    lines = page.read_text("utf-8").splitlines(keepends=True)
    headings = [*_headings(lines)]
    used: dict[str, int] = {}
    found = []
    for place, (at, level, title) in enumerate(headings):
        ends = (begin for begin, other, _ in headings[place + 1 :] if other <= level)
        text = "".join(lines[at : next(ends, len(lines))])
        part = slug(title)
        count = used[part] = used.get(part, -1) + 1
        anchor = name if level == 1 else f"{name}#{part}{f'-{count}' if count else ''}"
        found.append(Section(anchor, title.replace("`", ""), level, text))
    return tuple(found)


def _headings(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """Line, level and title of each heading."""
    fenced = False
    for at, line in enumerate(lines):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and (found := _HEADING.fullmatch(line.rstrip("\n"))):
            yield at, len(found[1]), found[2]


def slug(title: str) -> str:
    """The anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


_Error = TypeVar("_Error", bound=TpuflexError)


def _of(kind: type[_Error], when: Callable[[_Error], bool] = lambda _: True) -> Callable[..., bool]:
    return lambda error: isinstance(error, kind) and when(error)


#: Which section says more than an error's own hint, by the code of the provider.
BY_CODE: Mapping[Code, str] = {
    Code.RUN_OVER: "renewal#one-more-run",
    Code.NOT_SERVING: "renewal#serve-without-an-end",
    Code.CAPACITY: "faq#how-long-is-the-queue",
}
#: The same by the kind of error that names none itself; the first that fits.
BY_KIND: tuple[tuple[Callable[[Any], bool], str], ...] = (
    (_of(CapacityError), "faq#how-long-is-the-queue"),
    (_of(PolicyError), "policy#waivers"),
    (_of(PlanChangedError), "ci#the-approved-plan-is-what-runs"),
    (_of(UnknownModelError), "memory#what-is-not-planned-is-not-refused"),
    (
        _of(AccessError, lambda error: "PERMISSION_DENIED" in error.message),
        "security#roles",
    ),
)
#: The sections of settings.md that are about a part of a key.
_PARTS = ("slice.timeouts", "model.weights", "serving.flags")


def more(error: TpuflexError) -> str:
    """The anchor of the section that says more about ``error``; empty for none."""
    if error.section:
        return error.section
    if error.code in BY_CODE:
        return BY_CODE[cast("Code", error.code)]
    if isinstance(error, SettingsError):
        return _settings_section(error)
    return next((anchor for fits, anchor in BY_KIND if fits(error)), "")


def _settings_section(error: SettingsError) -> str:
    """The section on the key of the first finding; empty where that is of no key of ours."""
    key = error.findings[0].key if error.findings else ""
    part = next((part for part in _PARTS if key.startswith(f"tpuflex:{part}")), "")
    anchor = f"settings#{slug(part or key.partition('.')[0])}"
    known = {each.anchor for each in _sections("settings", page_names()["settings"])}
    return anchor if anchor in known else ""
