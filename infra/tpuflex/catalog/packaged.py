"""Data files of this package."""

from __future__ import annotations

import pkgutil

import yaml


def packaged_data(name: str) -> bytes:
    """The content of ``catalog/data/NAME``.

    Raises:
        FileNotFoundError: the installation lacks it.
    """
    content = pkgutil.get_data("tpuflex.catalog", f"data/{name}")
    if content is None:
        raise FileNotFoundError(f"tpuflex/catalog/data/{name}")
    return content


def packaged_rows(name: str) -> dict[str, object]:
    """The mapping in the YAML file ``catalog/data/NAME``, read by the parser in C where there is
    one: the files are large, and read at the start of a command."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(packaged_data(name))
    try:
        rows: dict[str, object] = loader.get_single_data()
    finally:
        loader.dispose()
    return rows
