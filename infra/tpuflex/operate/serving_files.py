"""Which files of a model elsewhere are fetched: data formats, and what the stack file allows. Pure.

A directory that holds anything else is refused; elsewhere it is left out, because many repositories
and buckets hold the same weights once more as pickles.
"""

from __future__ import annotations

from collections.abc import Iterable

from pulumi_plugin.printable import is_printable, printable
from tpuflex.boot.manifest_document import MANIFEST_NAME
from tpuflex.catalog.weight_formats import allowed_patterns, fits
from tpuflex.errors import WeightsError

_SAFETENSORS = ".safetensors"
#: So many of the files that are left out are named.
_NAMED = 5


def serving_files(
    where: str, paths: Iterable[str], extra: Iterable[str], *, hint: str
) -> tuple[list[str], list[str]]:
    """What of ``paths`` is fetched and what is left out, each by name; nothing hidden is fetched.

    Args:
        where: what lists them.
        paths: with forward slashes.
        extra: shell patterns of files that the stack file allows.
        hint: what to do if nothing could be served.

    Raises:
        WeightsError: a path is none, or nothing in it could be served.
    """
    patterns = allowed_patterns(extra)
    chosen: list[str] = []
    left_out: list[str] = []
    for path in sorted(paths):
        _require_path(path, where)
        parts = path.split("/")
        # A manifest of the model's own is not that of the set, and a push takes none.
        reserved = parts[-1] == MANIFEST_NAME
        hidden = any(part.startswith(".") for part in parts)
        taken = fits(path, patterns) and not (reserved or hidden)
        (chosen if taken else left_out).append(path)
    if "config.json" not in chosen or not any(path.endswith(_SAFETENSORS) for path in chosen):
        missing = "config.json" if "config.json" not in chosen else f"*{_SAFETENSORS}"
        raise WeightsError(f"{where} holds no {missing}, which vLLM on TPU loads", hint=hint)
    return chosen, left_out


def left_out_text(paths: tuple[str, ...]) -> str:
    """That ``paths`` are not fetched, after what is; empty for none."""
    if not paths:
        return ""
    named, others = paths[:_NAMED], len(paths) - _NAMED
    more = f" and {others} more" if others > 0 else ""
    return f"; left out, as no data formats: {', '.join(named)}{more}"


def _require_path(path: str, where: str) -> None:
    """Check what a server says before a path on this machine is made of it.

    Raises:
        WeightsError: it is no path.
    """
    if any(part in ("", ".", "..") for part in path.split("/")) or not is_printable(path):
        raise WeightsError(f"{where} lists {printable(path)}, which is no path in it")
