"""The startup script of the machine: the modules of :mod:`tpuflex.copier` in a zip, which Python
runs.

The modules are those that run here, under their own names; what makes them packages is empty there,
because the top of tpuflex loads Pulumi.
"""

from __future__ import annotations

import base64
import io
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

#: Of a value in a machine's metadata, in bytes (https://cloud.google.com/compute/docs/metadata/
#: setting-custom-metadata#limitations).
MOST_BYTES = 262_144
_SHARED = ("boot/manifest_document.py",)
_PACKAGES = ("tpuflex/__init__.py", "tpuflex/boot/__init__.py")
_MAIN = "import os, sys\nfrom tpuflex.copier.__main__ import main\nsys.exit(main(os.environ))\n"
_SCRIPT = """\
#!/bin/bash
# Made by `tpuflex weights push --from-region`: copies a model into a bucket.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
base64 -d > "$work/copier.pyz" <<'END'
{content}END
for _ in {{1..{attempts}}}; do
  code=0
  python3 -I "$work/copier.pyz" || code=$?
  # Killed, by want of memory say, it has not said how it ended: the command would wait long for it.
  [[ $code -gt 128 ]] || break
done
exit "$code"
"""
#: How often the program is started where it is killed; it goes on where it was.
_ATTEMPTS = 3


@cache
def startup_script() -> str:
    """The script; the same bytes for the same version of tpuflex."""
    content = base64.encodebytes(_archive()).decode()
    return _SCRIPT.format(content=content, attempts=_ATTEMPTS)


def _archive() -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, text in sorted(_members()):
            # Without a time of its own, so that the script is the same wherever it is made.
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
    return written.getvalue()


def _members() -> Iterator[tuple[str, str]]:
    top = files("tpuflex")
    yield "__main__.py", _MAIN
    for name in _PACKAGES:
        yield name, ""
    for path in _SHARED:
        yield f"tpuflex/{path}", _text(top / path)
    for entry in (top / "copier").iterdir():
        if entry.name.endswith(".py"):
            yield f"tpuflex/copier/{entry.name}", _text(entry)


def _text(entry: Traversable) -> str:
    return entry.read_text("utf-8")
