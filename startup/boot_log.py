"""The request of Cloud Logging's entries:write with what the boot log has since the last one.

The lines of a phase are entries of their own, also where an earlier request was lost and this one
has several phases: whoever reads them asks for a phase by its label. In the log are no secrets;
should one have found its way there all the same, it does not leave the host.

https://cloud.google.com/logging/docs/reference/v2/rest/v2/LogEntry
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

LOG = "tpuflex-boot"
#: Of an entry's 256 KiB (https://cloud.google.com/logging/quotas), with room for what JSON escapes.
LOG_CHARACTERS, CONTAINER_CHARACTERS, ERROR_CHARACTERS = 48_000, 16_000, 4_000
#: Of a request's 10 MB: what a boot wrote before this much is left out.
LOG_BYTES = 2**20
#: How ``phase`` of the startup script begins one in the log.
_PHASE = re.compile(r"\S+Z phase ([\w-]+)\s*")


class Sent(NamedTuple):
    """How much of the log has been written.

    Attributes:
        run: when this run of the script began, in milliseconds: which boot it is.
        at: bytes of the log that are written.
        phase: the phase that these end in.
    """

    run: str = "0"
    at: int = 0
    phase: str = "start"


def read_sent(path: Path) -> Sent:
    """What ``path`` says; nothing was sent where it does not."""
    try:
        run, at, phase = path.read_text(encoding="utf-8").split()
        return Sent(run, int(at), phase)
    except (OSError, ValueError):
        return Sent()


def read_end(path: Path, start: int = 0) -> tuple[bytes, int]:
    """The last bytes of ``path`` behind ``start``, and where they begin; empty without a file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            begin = file.seek(max(start if start <= size else 0, size - LOG_BYTES))
            return file.read(), begin
    except OSError:
        return b"", start


def text_of(path: Path) -> str:
    """The text of a small file; empty without one."""
    return read_end(path)[0].decode("utf-8", "replace").strip()


def secrets_in(memory: Path) -> list[str]:
    """The words that must not leave the host, the longest first."""
    directory = memory / "secrets"
    files = [*directory.iterdir()] if directory.is_dir() else []
    files += [memory / "authorization", memory / "compile-cache.key"]
    words = {word for file in files for word in text_of(file).split()}
    # The words of a header that everybody knows are no secrets.
    return sorted((w for w in words if len(w) > 7 and w != "Authorization:"), key=len, reverse=True)


def shown(text: str, hidden: list[str]) -> str:
    """``text`` without secrets, and without what moves a terminal's cursor."""
    for secret in hidden:
        text = text.replace(secret, "[removed]")
    return re.sub(r"[^\x20-\x7e\xa0-\uffff\n\t]", "?", text)


def pieces(text: str, phase: str) -> Iterator[tuple[str, str]]:
    """The lines of ``text`` by phase, with room in an entry each; the first are of ``phase``."""
    piece = ""
    for line in text.splitlines(keepends=True):
        begun = _PHASE.fullmatch(line)
        if piece and (begun or len(piece) + len(line) > LOG_CHARACTERS):
            yield phase, piece
            piece = ""
        phase = begun[1] if begun else phase
        piece += line[-LOG_CHARACTERS:]
    if piece:
        yield phase, piece


def _described(state: Path) -> dict[str, str]:
    """What Cloud TPU says of the host."""
    env = text_of(state / "about.tpu-env")
    return dict(re.findall(r"^(NODE_ID|WORKER_ID): '([\w.-]+)'$", env, re.MULTILINE))


def _endpoint(state: Path) -> dict[str, str]:
    """Project, stack and name of the endpoint; empty where the configuration has none."""
    try:
        endpoint = json.loads(text_of(state / "config.json"))["endpoint"]
        return {key: str(endpoint[key]) for key in ("project", "stack", "name")}
    except (ValueError, KeyError, TypeError):
        return {}


def place_of(state: Path) -> dict[str, str]:
    """Labels of the host as Google's monitored resource ``generic_node``."""
    return {
        "project_id": text_of(state / "about.project-id"),
        "location": text_of(state / "about.zone").rpartition("/")[2],
        "namespace": _endpoint(state).get("stack", ""),
        "node_id": _described(state).get("NODE_ID") or text_of(state / "about.name"),
    }


def labels_of(state: Path, node: str, worker: str, run: str) -> dict[str, str]:
    """Labels of every entry: whose boot it is."""
    labels = {f"tpuflex-{key}": value for key, value in _endpoint(state).items()}
    generation = re.search(r"-g([1-9]\d{0,8})(?:-\d+)?$", node)
    if generation:
        labels["tpuflex-generation"] = generation[1]
    boot = text_of(Path("/proc/sys/kernel/random/boot_id"))
    return {**labels, "tpuflex-worker": worker, "tpuflex-boot": run, "boot-id": boot}


def request(
    state: Path, log: Path, memory: Path, report: dict[str, str]
) -> tuple[dict[str, object], Sent]:
    """The request's document, and how much of the log it has.

    Args:
        state: directory of the script's state, with what the metadata server says as ``about.*``.
        log: the boot log.
        memory: directory with the secrets and the header that authorizes.
        report: ``severity``, and of the host's report ``phase``, ``error``, ``timeline`` and
            ``ended``.
    """
    sent = read_sent(state / "boot-log.sent")
    content, begin = read_end(log, sent.at)
    last = report["severity"] != "INFO"
    if not last:
        content = content[: content.rfind(b"\n") + 1]
    hidden = secrets_in(memory)
    entries = [*pieces(shown(content.decode("utf-8", "replace"), hidden), sent.phase)]
    if last and (not entries or entries[-1][0] != report["phase"]):
        entries.append((report["phase"], ""))
    if not entries:
        raise SystemExit(0)
    place = place_of(state)
    project, node = place["project_id"], place["node_id"]
    if not project:
        raise SystemExit("the metadata server does not say which project this is")
    labels = labels_of(state, node, _described(state).get("WORKER_ID", "0"), sent.run)
    # The host's Python may be 3.10, which has no datetime.UTC.
    now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")  # noqa: UP017
    documents: list[dict[str, object]] = [
        {
            "severity": "INFO",
            "timestamp": now,
            # Entries of one time are in order of it. Where the answer to a request is lost, the
            # next one begins with the same ids, by which whoever reads them drops the first.
            "insertId": f"{node}-{sent.run}-{begin:012d}-{number:03d}",
            "labels": {**labels, "tpuflex-phase": phase},
            "jsonPayload": {"phase": phase, "message": message},
        }
        for number, (phase, message) in enumerate(entries)
    ]
    documents[-1]["severity"] = report["severity"]
    documents[-1]["jsonPayload"] = {
        "phase": entries[-1][0],
        "error": shown(report["error"], hidden)[-ERROR_CHARACTERS:],
        "message": entries[-1][1],
        "container": shown(text_of(state / "container.log"), hidden)[-CONTAINER_CHARACTERS:]
        if last
        else "",
        "timeline": json.loads(report["timeline"] or "{}"),
        "ended": json.loads(report["ended"] or "null"),
    }
    document: dict[str, object] = {
        "logName": f"projects/{project}/logs/{LOG}",
        "resource": {"type": "generic_node", "labels": place},
        "entries": documents,
    }
    return document, Sent(sent.run, begin + len(content), entries[-1][0])


def main() -> None:
    """Write the request to standard output, and what it will have sent into a file."""
    state, log, memory, ends, *rest = sys.argv[1:]
    # A text that was cut within a character is no UTF-8.
    texts = (os.fsencode(word).decode("utf-8", "replace") for word in rest)
    report = dict(zip(("severity", "phase", "error", "timeline", "ended"), texts, strict=True))
    document, sent = request(Path(state), Path(log), Path(memory), report)
    Path(ends).write_text(f"{sent.run} {sent.at} {sent.phase}\n", encoding="utf-8")
    sys.stdout.buffer.write(json.dumps(document, ensure_ascii=False).encode())


if __name__ == "__main__":
    main()
