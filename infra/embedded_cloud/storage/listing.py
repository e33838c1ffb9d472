"""Which objects a list shows: prefix, delimiter, offsets and globs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Query:
    """What objects.list was asked for.

    Attributes:
        after: list only keys greater than this one (from a page token).
        limit: objects and prefixes together, per page.
    """

    prefix: str = ""
    delimiter: str = ""
    include_trailing_delimiter: bool = False
    start_offset: str = ""
    end_offset: str = ""
    match_glob: str = ""
    after: str = ""
    limit: int = 1000


@dataclass(slots=True)
class Listing(Generic[T]):
    """One page: objects, common prefixes, and the key to continue after."""

    items: list[T] = field(default_factory=list)
    prefixes: list[str] = field(default_factory=list)
    last: str | None = None


def select(entries: Iterable[tuple[str, str, T]], query: Query) -> Listing[T]:
    """The page of ``entries`` that ``query`` asks for.

    Args:
        entries: (key, object name, object), sorted by key. A key starts with the name;
            a common prefix is sorted by its own text.
    """
    listing: Listing[T] = Listing()
    glob = re.compile(glob_pattern(query.match_glob)) if query.match_glob else None
    position = ""
    for key, name, item in entries:
        if not _shown(name, query) or (glob and not glob.fullmatch(name)):
            continue
        folded = _common_prefix(name, query)
        place = folded or key
        if query.after and place <= query.after:
            continue
        if folded and folded in listing.prefixes[-1:]:
            if query.include_trailing_delimiter and name == folded:
                listing.items.append(item)
            continue
        if len(listing.items) + len(listing.prefixes) >= query.limit:
            listing.last = position
            return listing
        position = place
        if not folded:
            listing.items.append(item)
            continue
        listing.prefixes.append(folded)
        if query.include_trailing_delimiter and name == folded:
            listing.items.append(item)
    return listing


def _shown(name: str, query: Query) -> bool:
    if not name.startswith(query.prefix) or name < query.start_offset:
        return False
    return not query.end_offset or name < query.end_offset


def _common_prefix(name: str, query: Query) -> str:
    """The common prefix that stands for ``name``, or empty when it is listed itself."""
    if not query.delimiter:
        return ""
    at = name.find(query.delimiter, len(query.prefix))
    return name[: at + len(query.delimiter)] if at >= 0 else ""


def glob_pattern(glob: str) -> str:
    """The regular expression of a matchGlob.

    https://cloud.google.com/storage/docs/json_api/v1/objects/list#list-objects-and-prefixes-using-glob
    """
    out: list[str] = []
    depth = at = 0
    while at < len(glob):
        char = glob[at]
        if glob.startswith("**", at):
            out.append(".*")
            at += 2
            # `**/` also matches no directory at all.
            if glob.startswith("/", at):
                out[-1] = "(?:.*/)?"
                at += 1
            continue
        if char == "[" and (end := glob.find("]", at + 2)) > 0:
            body = glob[at + 1 : end].replace("\\", "\\\\")
            out.append(f"[^{body[1:]}]" if body[0] in "!^" else f"[{body}]")
            at = end + 1
            continue
        opened = depth > 0
        depth += (char == "{") - (char == "}" and opened)
        simple = {"*": "[^/]*", "?": "[^/]", "{": "(?:"}
        if opened:
            simple |= {",": "|", "}": ")"}
        out.append(simple.get(char, re.escape(char)))
        at += 1
    return "".join(out)
