"""A user's rows of the catalog, checked row by row, so that one bad row hides no other."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache

from pydantic import TypeAdapter, ValidationError

from tpuflex.catalog.catalog import builtin
from tpuflex.catalog.rows import Accelerator, CatalogRows, Image, Model, Price, Row, Zone
from tpuflex.catalog.vllm_version import SECURITY_FLOOR
from tpuflex.errors import Finding
from tpuflex.settings.findings import UNKNOWN, did_you_mean, findings_of, without_explained
from tpuflex.settings.plain import JsonValue, shown
from tpuflex.settings.stack_yaml import join
from tpuflex.startup.served import release

#: The class of the rows of each kind, and the fields that tell one row from another.
KINDS: Mapping[str, tuple[type[Row], tuple[str, ...]]] = {
    "accelerators": (Accelerator, ("name",)),
    "zones": (Zone, ("zone", "generation")),
    "prices": (Price, ("generation", "region", "kind")),
    "models": (Model, ("name",)),
    "images": (Image, ("digest",)),
}


def read_rows(document: JsonValue, key: str) -> tuple[CatalogRows, list[Finding]]:
    """The good rows of ``document``, and what is wrong with the others.

    Args:
        document: lists of rows by kind, as a catalog.yaml holds them; None for no rows.
        key: where the document stands, such as ``catalog.yaml:`` or ``tpuflex:catalog``.
    """
    if document is None:
        return CatalogRows(), []
    if not isinstance(document, dict):
        return CatalogRows(), [_not_a("section of lists", document, key.removesuffix(":"))]
    findings: list[Finding] = []
    rows: dict[str, tuple[Row, ...]] = {}
    for kind, listed in document.items():
        place = join(key, kind)
        if kind not in KINDS:
            findings.append(Finding(place, UNKNOWN, did_you_mean(kind, list(KINDS))))
        elif not isinstance(listed, list):
            findings.append(_not_a("list of rows", listed, place))
        else:
            good, bad = _rows(kind, listed, place)
            rows[kind] = good
            findings += bad
    return CatalogRows.model_validate(rows), findings


def _rows(kind: str, listed: list[JsonValue], key: str) -> tuple[tuple[Row, ...], list[Finding]]:
    row_class, identity = KINDS[kind]
    good: dict[tuple[object, ...], Row] = {}
    findings: list[Finding] = []
    for index, value in enumerate(listed):
        place = f"{key}[{index}]"
        try:
            # Strict JSON: "8" is no number, but a text may become a date and a list a tuple.
            row = _adapter(row_class).validate_json(json.dumps(value), strict=True)
        except ValidationError as error:
            wrong = findings_of(row_class, error.errors(include_url=False), place)
            findings += _named(without_explained(wrong), value, identity)
            continue
        if isinstance(row, Image) and (lowered := _lowered_floor(row)):
            low = Finding(f"{place}.security_floor", *lowered)
            findings += _named([low], value, identity)
            continue
        same = tuple(getattr(row, name) for name in identity)
        if same in good:
            what = " ".join(map(str, same))
            findings.append(Finding(place, f"a row for {what} stands above", "Remove one of them."))
        good[same] = row
    return tuple(good.values()), findings


def _lowered_floor(row: Image) -> tuple[str, str] | None:
    """Why a user's row may not stand: a file that came with a checkout must not let a server with
    known holes serve. Problem and remedy, or None."""
    ours = builtin().image(row.digest)
    known = ours.security_floor if ours is not None else None
    floor = max(SECURITY_FLOOR, known or SECURITY_FLOOR, key=release)
    if release(row.security_floor or SECURITY_FLOOR) >= release(floor):
        return None
    return (
        f"{row.security_floor or 'none'} is below {floor}, and older versions of vLLM have known "
        "security holes",
        f"Write {floor} or newer, or remove it: a row can only raise the floor.",
    )


def _named(
    findings: Iterable[Finding], value: JsonValue, identity: tuple[str, ...]
) -> Iterator[Finding]:
    """``findings`` that say whose row it is: an index alone is hard to find in a long file."""
    given = value if isinstance(value, dict) else {}
    name = " ".join(str(given[part]) for part in identity if isinstance(given.get(part), str))
    for finding in findings:
        problem = f"{finding.problem} in the row of {shown(name)}" if name else finding.problem
        yield replace(finding, problem=problem)


@cache
def _adapter(row_class: type[Row]) -> TypeAdapter[Row]:
    return TypeAdapter(row_class)


def _not_a(what: str, value: JsonValue, key: str) -> Finding:
    return Finding(key, f"{shown(value)} is not a {what}", f"Write a {what}, or remove it.")
