"""What `tpuflex catalog` prints: rows as tables, or one row in full, with their sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from tpuflex.catalog.listing import Listing, row_names
from tpuflex.catalog.rows import Accelerator, Image, Model, Price, ReportedRun, Sourced, Zone
from tpuflex.planning.figure import GIB, SourceList
from tpuflex.terminal.money import show_sources

if TYPE_CHECKING:
    from tpuflex.terminal.output import Output

#: Headers of the columns by the kind of rows; the source's is added to each.
_COLUMNS: dict[str, tuple[str, ...]] = {
    "accelerators": (
        "NAME",
        "CHIPS",
        "HOSTS",
        "TOPOLOGY",
        "HBM GB",
        "USABLE GiB",
        "VCPU",
        "RAM GB",
        "BF16",
        "INT8",
        "FP8",
        "HBM GB/s",
        "API",
    ),
    "zones": ("ZONE", "CHIPS", "FLEX-START", "NOTE"),
    "prices": ("REGION", "CHIPS", "KIND", "USD PER CHIP AND HOUR"),
    "models": (
        "NAME",
        "PARAMS B",
        "ACTIVE B",
        "LAYERS",
        "KV HEADS",
        "HEAD DIM",
        "WINDOW",
        "CONTEXT",
        "TAKES",
        "GATED",
        "SERVED ON",
        "FAILED ON",
    ),
    "images": ("REPOSITORY", "DIGEST", "VLLM", "FLOOR"),
}
#: Fields that every row would have if they had been looked up; other absent ones do not apply.
_KNOWABLE = frozenset(
    {
        "bf16_tflops",
        "hbm_bytes_per_chip",
        "hbm_gbps",
        "int8_tops",
        "ram_gb_per_host",
        "vcpus_per_host",
        "usd_per_chip_hour",
        "audio_tower",
        "gated",
        "license",
        "max_context",
        "date",
        "security_floor",
        "tag",
        "vllm_version",
    }
)
#: What stands for a fact that nobody has.
_UNKNOWN = "?"
#: What stands for a rate that the hardware does not have, or a property that does not apply.
_NONE = "-"


def show_catalog(output: Output, found: Listing, kind: str | None, name: str | None) -> None:
    """Show the rows of ``kind`` called ``name``; how many there are of each kind without one."""
    output.document(found.to_json())
    if kind is None:
        _show_counts(output, found)
    elif name is None:
        _show_table(output, kind, found.rows[kind], found.own[kind])
    else:
        for row in found.rows[kind]:
            _show_row(output, row, yours=row in found.own[kind])


def _show_counts(output: Output, found: Listing) -> None:
    output.table(
        ("KIND", "ROWS", "YOURS", "OLDEST", "NEWEST"),
        [
            (kind, str(len(listed)), str(len(found.own[kind])), *_dates(listed))
            for kind, listed in found.rows.items()
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
        first, *rest = _cells(row)
        mark = "*" if row in own else ""
        lines.append((f"{first}{mark}", *rest, sources.references([row.source])))
    output.table((*_COLUMNS[kind], "SOURCE"), lines)
    if own:
        output.result("\n* a row of yours")
    show_sources(output, sources)


def _show_row(output: Output, row: Sourced, *, yours: bool) -> None:
    output.heading(row_names(row)[0] + (" (a row of yours)" if yours else ""))
    output.facts(_facts(row))
    output.result()


def _facts(row: Sourced) -> Iterator[tuple[str, str]]:
    for name, value in row:
        if name in ("source", "note", "seen"):
            continue
        yield name, "" if value is None and name not in _KNOWABLE else _shown(value)
    if isinstance(row, Model):
        yield "seen", "\n".join(map(_report, row.seen)) or "nothing: no report is known"
    if isinstance(row, Image):
        yield "seen", "\n".join(row.seen) or "nothing: no report is known"
    yield "note", row.note or ""
    yield "source", row.source.text


def _report(report: ReportedRun) -> str:
    return f"{report.result} on {report.accelerator}: {report.what}\n  {report.source.text}"


def _cells(row: Sourced) -> tuple[str, ...]:
    """The cells of ``row`` below :data:`_COLUMNS`."""
    match row:
        case Accelerator():
            return _accelerator(row)
        case Zone():
            return (row.zone, row.generation, row.flex_start, row.note or "")
        case Price():
            return (row.region, row.generation, row.kind, _shown(row.usd_per_chip_hour))
        case Model():
            return _model(row)
        case Image():
            digest = row.digest.removeprefix("sha256:")[:12]
            return (row.repository, digest, _shown(row.vllm_version), _shown(row.security_floor))
    raise TypeError(f"no table has rows of {type(row).__name__}")


def _shown(value: object) -> str:
    """A fact for people: ``?`` where it is not known."""
    match value:
        case None:
            return _UNKNOWN
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case Decimal():
            return f"{value:f}"
        case tuple():
            return ", ".join(map(str, value))
        case _:
            return str(value)


def _accelerator(row: Accelerator) -> tuple[str, ...]:
    usable = None if row.hbm_bytes_per_chip is None else round(row.hbm_bytes_per_chip / GIB, 2)
    return (
        row.name,
        str(row.chips),
        str(row.hosts),
        row.topology,
        str(row.hbm_gb_per_chip),
        _shown(usable),
        _shown(row.vcpus_per_host),
        _shown(row.ram_gb_per_host),
        _shown(row.bf16_tflops),
        _shown(row.int8_tops),
        _NONE if row.fp8_tflops is None else _shown(row.fp8_tflops),
        _shown(row.hbm_gbps),
        _shown(row.flex_start_api),
    )


def _model(row: Model) -> tuple[str, ...]:
    return (
        row.name,
        _billions(row.text_params),
        _NONE if row.active_params is None else _billions(row.active_params),
        str(row.layers),
        _both(row.kv_heads, row.global_kv_heads),
        _both(row.head_dim, row.global_head_dim),
        _NONE if row.window is None else str(row.window),
        _shown(row.max_context),
        "+".join(row.modalities),
        _shown(row.gated),
        _seen(row, "served"),
        _seen(row, "failed"),
    )


def _billions(params: int) -> str:
    return f"{params / 1e9:.2f}"


def _both(sliding: int, full: int | None) -> str:
    """One figure, or those of sliding-window and full-attention layers."""
    return str(sliding) if full is None else f"{sliding}/{full}"


def _seen(row: Model, result: str) -> str:
    names = dict.fromkeys(each.accelerator for each in row.seen if each.result == result)
    return " ".join(names) or _NONE
