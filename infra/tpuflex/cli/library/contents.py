"""The contents of a library, as a person reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.planning.rates import month_text
from tpuflex.weights.stored_set import files_text, last_used_text

if TYPE_CHECKING:
    from tpuflex.stack.connection import Connection
    from tpuflex.terminal.output import Output
    from tpuflex.weights.library_contents import Contents
    from tpuflex.weights.stored_set import StoredWeights


def show_contents(cloud: Connection, output: Output, found: tuple[Contents, ...]) -> None:
    """Print the buckets, the models in them, and who may read."""
    output.table(
        ("REGION", "MODELS", "PROGRAMS", "GIB", "COST", "BUCKET"),
        [
            (
                each.region,
                str(len(each.models)),
                f"{_gib(each.programs)} GiB" if each.programs else "-",
                _gib(each.size),
                month_text(each.size, each.region),
                each.bucket.name,
            )
            for each in found
        ],
    )
    rows = [(each, one) for each in found for one in each.models]
    if rows:
        output.result()
        output.table(
            ("REGION", "MODEL", "REVISION", "GIB", "COST", "USED", "SOURCE"),
            [
                (
                    each.region,
                    _named(one, one.manifest.model if one.manifest else one.prefix),
                    one.manifest.revision if one.manifest else "-",
                    _gib(one.total_bytes),
                    month_text(one.total_bytes, each.region),
                    "now" if each.in_use(one) else last_used_text(one),
                    one.source or "-",
                )
                for each, one in rows
            ],
        )
    if cloud.stack.embedded:
        output.result("These are Google's prices: the embedded cloud is free.")
    readers = [(each, who) for each in found for who in each.readers]
    if readers:
        output.result()
        output.table(
            ("REGION", "MAY READ", "BY", "BELOW"),
            [
                (
                    each.region,
                    who.member,
                    who.role.removeprefix("roles/"),
                    who.where or "all of it",
                )
                for each, who in readers
            ],
        )
        output.result("Roles on the whole project come on top of these.")


def _named(one: StoredWeights, name: str) -> str:
    """``name`` of a set, with what is wrong of it."""
    if one.manifest is None:
        return f"{name} (incomplete)"
    return f"{name} (damaged: {files_text(one.wrong)})" if one.wrong else name


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f}"
