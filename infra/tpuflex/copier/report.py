"""What the machine says of itself in its guest attributes, and how it is read.

Whoever is root on the machine writes it. So nothing in it is believed that can be looked up, and
what is shown is short and printable.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast, get_args

from tpuflex.copier.errors import CODES, Code

#: Where it is among the guest attributes.
NAMESPACE, KEY = "tpuflex", "copy"
#: Of the text; more is not read. 10,000 files that were kept need 60,000.
MOST_CHARACTERS = 100_000
#: Of the line that says why; a server may have put anything into it.
LONGEST_TEXT = 300

State = Literal["copying", "done", "failed"]


@dataclass(frozen=True, slots=True)
class Report:
    """How far a copy is.

    Attributes:
        job: id of the job.
        state: ``copying``, ``done`` or ``failed``.
        done_bytes: bytes that are in the bucket and right.
        kept: places in the job's list of the files that were there already.
        manifest_sha256: of the manifest that is in the bucket, when done.
        code: why it failed.
        text: the same in a line.
    """

    job: str
    state: State
    done_bytes: int = 0
    kept: tuple[int, ...] = ()
    manifest_sha256: str = ""
    code: Code | Literal[""] = ""
    text: str = ""

    def to_json(self) -> str:
        """The document."""
        return json.dumps({"schema": 1, **asdict(self)}, separators=(",", ":"))


def read_report(text: str, *, job: str, files: int, total: int) -> Report | None:
    """The report that ``text`` is; None if it is none of ``job``.

    Args:
        text: what the guest attribute holds.
        job: id of the job.
        files: how many files it has.
        total: how many bytes.
    """
    if len(text) > MOST_CHARACTERS:
        return None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or document.get("schema") != 1:
        return None
    if document.get("job") != job or document.get("state") not in get_args(State):
        return None
    code = document.get("code")
    return Report(
        job=job,
        state=cast("State", document["state"]),
        done_bytes=min(max(_whole(document.get("done_bytes")), 0), total),
        kept=_places(document.get("kept"), files),
        manifest_sha256=_hash(document),
        code=cast("Code", code) if code in CODES else "",
        text=_line(document.get("text")),
    )


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _places(value: object, files: int) -> tuple[int, ...]:
    listed = value if isinstance(value, list) else []
    found = {place for place in listed[:files] if type(place) is int and 0 <= place < files}
    return tuple(sorted(found))


def _hash(document: Mapping[str, Any]) -> str:
    value = document.get("manifest_sha256")
    right = isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")
    return str(value) if right else ""


def _line(value: object) -> str:
    text = value[:LONGEST_TEXT] if isinstance(value, str) else ""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)
