"""Modules that make a table at the start of every process, changed to make it when it is needed.

Of the 0.18 seconds that an engine takes until it does anything, two thirds went into lists of
common passwords, which `pulumi config set` looks at, and into the widths of all characters
(docs/adr/0039-tables-when-they-are-needed.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tpuflex.engine.changed_module import Change, change

#: Of nbutton23/zxcvbn-go and of its fork: without the table the first question makes it.
_PASSWORDS = (
    Change("frequency/frequency.go", "func init() {", "// Load makes Lists.\nfunc Load() {"),
    Change("matching/matching.go", "func init() {\n\tloadFrequencyList()\n}\n", ""),
    Change(
        "matching/matching.go",
        "\tfor n, list := range frequency.Lists {",
        "\tfrequency.Load()\n\tfor n, list := range frequency.Lists {",
    ),
)
#: Of go-runewidth 0.0.27: what is not in the table is computed.
_WIDTHS = (
    Change("runewidth.go", "\tinitStrictWidthLUT()\n\thandleEnv()\n", "\thandleEnv()\n"),
    Change(
        "runewidth.go",
        "\tif c.StrictEmojiNeutral {\n"
        "\t\tif c.EastAsianWidth {\n"
        "\t\t\treturn int(strictWidthLUT[1][r])\n"
        "\t\t}\n"
        "\t\treturn int(strictWidthLUT[0][r])\n"
        "\t}\n",
        "",
    ),
)

#: The changes, by module.
MODULES: Mapping[str, tuple[Change, ...]] = {
    "github.com/nbutton23/zxcvbn-go": _PASSWORDS,
    "github.com/ccojocar/zxcvbn-go": _PASSWORDS,
    "github.com/mattn/go-runewidth": _WIDTHS,
}

_HINT = (
    "docs/adr/0039-tables-when-they-are-needed.md says how the table of these changes is brought up"
    " to date."
)


def make_late(module: str, directory: Path) -> None:
    """Change a copy of one of :data:`MODULES`.

    Raises:
        EngineError: it is not the one that the changes are for.
    """
    change(module, directory, MODULES[module], _HINT)
