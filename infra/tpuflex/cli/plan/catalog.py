"""The steps of `tpuflex catalog`: choose the rows, show them with their sources."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tpuflex.catalog import KINDS
from tpuflex.catalog.rows import Image, Model, Price, Seen, Sourced, Zone
from tpuflex.cli.plan.catalog_tables import COLUMNS, KNOWABLE, cells, shown
from tpuflex.errors import NotFoundError
from tpuflex.planning.figure import SourceList
from tpuflex.terminal.money import show_sources

if TYPE_CHECKING:
    from tpuflex.catalog.catalog import Catalog
    from tpuflex.cli.invocation import Invocation
    from tpuflex.terminal.output import Output


def run_catalog(invocation: Invocation, kind: str | None, name: str | None) -> None:
    """Show the rows of ``kind`` called ``name``; all of them without a name or a kind.

    Raises:
        NotFoundError: there is no such row, project or stack.
        SettingsError: a row of the user's is wrong.
    """
    catalog = _catalog(invocation)
    kinds = KINDS if kind is None else (kind,)
    rows = {each: tuple(getattr(catalog, each).values()) for each in kinds}
    if kind is not None and name is not None:
        rows = {kind: _called(kind, rows[kind], name)}
    own = {each: getattr(catalog.own, each) for each in kinds}
    yours = {each: [row for row in rows[each] if row in own[each]] for each in kinds}
    invocation.output.document({**_document(rows), "own": _document(yours)})
    if kind is None:
        _show_counts(invocation.output, rows, own)
    elif name is None:
        _show_table(invocation.output, kind, rows[kind], own[kind])
    else:
        for row in rows[kind]:
            _show_row(invocation.output, row, yours=row in own[kind])


def _catalog(invocation: Invocation) -> Catalog:
    if invocation.chosen_stack:
        return invocation.open_stack(deploying=False, by_catalog=True).settings.catalog
    return invocation.catalog


def _called(kind: str, rows: Sequence[Sourced], name: str) -> tuple[Sourced, ...]:
    found = tuple(row for row in rows if _is_called(row, name))
    if found:
        return found
    names = list(dict.fromkeys(_names(row)[0] for row in rows))
    within = [each for each in names if name.lower() in each.lower()]
    near = within or difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    hint = f"Did you mean {' or '.join(near[:3])}? " if near else ""
    raise NotFoundError(
        f"The catalog has no {name!r} among its {kind}.",
        hint=f"{hint}`tpuflex catalog {kind}` lists them.",
    )


def _is_called(row: Sourced, name: str) -> bool:
    if isinstance(row, Image):
        digest = name.rpartition("@")[2].removeprefix("sha256:")
        return name == row.repository or bool(digest and row.digest[7:].startswith(digest))
    return name in _names(row)


def _names(row: Sourced) -> tuple[str, ...]:
    """What the row is asked for by; the first is the best known."""
    match row:
        case Zone():
            return (row.zone,)
        case Price():
            return (row.region, row.generation)
        case Image():
            return (row.repository, row.digest)
        case _:
            return (str(row.model_dump(include={"name"})["name"]),)


def _document(rows: Mapping[str, Sequence[Sourced]]) -> dict[str, list[object]]:
    """``rows`` as a catalog.yaml would hold them."""
    return {
        kind: [row.model_dump(mode="json", exclude_none=True) for row in listed]
        for kind, listed in rows.items()
    }


def _show_counts(
    output: Output,
    rows: Mapping[str, Sequence[Sourced]],
    own: Mapping[str, Sequence[Sourced]],
) -> None:
    output.table(
        ("KIND", "ROWS", "YOURS", "OLDEST", "NEWEST"),
        [
            (kind, str(len(listed)), str(len(own[kind])), *_dates(listed))
            for kind, listed in rows.items()
        ],
    )
    output.result("\n`tpuflex catalog KIND` lists the rows with their sources.")


def _dates(rows: Iterable[Sourced]) -> tuple[str, str]:
    dates = sorted(row.source.date.isoformat() for row in rows)
    return (dates[0], dates[-1]) if dates else ("", "")


def _show_table(output: Output, kind: str, rows: Sequence[Sourced], own: Sequence[Sourced]) -> None:
    sources = SourceList()
    lines = []
    for row in rows:
        first, *rest = cells(row)
        mark = "*" if row in own else ""
        lines.append((f"{first}{mark}", *rest, sources.references([row.source])))
    output.table((*COLUMNS[kind], "SOURCE"), lines)
    if own:
        output.result("\n* a row of yours")
    show_sources(output, sources)


def _show_row(output: Output, row: Sourced, *, yours: bool) -> None:
    output.heading(" ".join(_names(row)[:1]) + (" (a row of yours)" if yours else ""))
    output.facts(_facts(row))
    output.result()


def _facts(row: Sourced) -> Iterator[tuple[str, str]]:
    for name, value in row:
        if name in ("source", "note", "seen"):
            continue
        yield name, "" if value is None and name not in KNOWABLE else shown(value)
    if isinstance(row, Model):
        yield "seen", "\n".join(map(_seen, row.seen)) or "nothing: no report is known"
    if isinstance(row, Image):
        yield "seen", "\n".join(row.seen) or "nothing: no report is known"
    yield "note", row.note or ""
    yield "source", row.source.text


def _seen(report: Seen) -> str:
    return f"{report.result} on {report.accelerator}: {report.what}\n  {report.source.text}"
