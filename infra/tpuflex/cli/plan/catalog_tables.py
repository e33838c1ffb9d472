"""The catalog's rows as lines of a table."""

from __future__ import annotations

from decimal import Decimal

from tpuflex.catalog.rows import Accelerator, Image, Model, Price, Sourced, Zone
from tpuflex.planning.figure import GIB

#: Headers of the columns by the kind of rows; the source's is added to each.
COLUMNS: dict[str, tuple[str, ...]] = {
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
#: Fields that every row would have if somebody had looked; other absent ones do not apply.
KNOWABLE = frozenset(
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


def cells(row: Sourced) -> tuple[str, ...]:
    """The cells of ``row`` below :data:`COLUMNS`."""
    match row:
        case Accelerator():
            return _accelerator(row)
        case Zone():
            return (row.zone, row.generation, row.flex_start, row.note or "")
        case Price():
            return (row.region, row.generation, row.kind, shown(row.usd_per_chip_hour))
        case Model():
            return _model(row)
        case Image():
            digest = row.digest.removeprefix("sha256:")[:12]
            return (row.repository, digest, shown(row.vllm_version), shown(row.security_floor))
    raise TypeError(f"no table has rows of {type(row).__name__}")


def shown(value: object) -> str:
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
        shown(usable),
        shown(row.vcpus_per_host),
        shown(row.ram_gb_per_host),
        shown(row.bf16_tflops),
        shown(row.int8_tops),
        _NONE if row.fp8_tflops is None else shown(row.fp8_tflops),
        shown(row.hbm_gbps),
        shown(row.flex_start_api),
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
        shown(row.max_context),
        "+".join(row.modalities),
        shown(row.gated),
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
