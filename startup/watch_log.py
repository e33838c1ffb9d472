"""What the watch writes down: lines of the boot log, which go to Cloud Logging as the boot's do.

An entry of the watch has the label and the timeline of the boot that it goes on from: whoever reads
the newest entry of a boot finds what it found before, and the lines besides.
"""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

from boot_log import read_end, request, secrets_in, shown
from watch_host import ask

#: The phase that a boot has ended in.
READY = "READY"
#: Of a reason: as of a boot's error.
REASON_CHARACTERS = 3000
#: How uvicorn logs the questions of the watch, two at each look.
_LOOK = re.compile(r'"GET /(?:metrics|tpuflex/requests) HTTP')
#: What uvicorn logs of any client's question, with words of that client's choice.
_OF_CLIENTS = re.compile(r' - "[^ ]+ .* HTTP/[\d.]+" \d{3}|without completing handshake')


class Log:
    """The boot log, and its copy in Cloud Logging.

    Args:
        state: directory of the script's state.
        file: the boot log.
        url: of Cloud Logging's API, with its version.
        token: makes an access token.
        server_log: reads so many last lines of the server's log.
    """

    def __init__(
        self,
        state: Path,
        file: Path,
        url: str,
        token: Callable[[], str],
        server_log: Callable[[int], str],
    ) -> None:
        self._state, self._file, self._url = state, file, url
        self._token, self._server_log = token, server_log

    def write(self, text: str, severity: str) -> None:
        """Write a line, and send what Cloud Logging does not have. That never ends the watch.

        Args:
            text: for people.
            severity: as Cloud Logging has them: NOTICE, WARNING, ERROR.
        """
        # The host's Python may be 3.10, which has no datetime.UTC.
        now = datetime.now(timezone.utc)  # noqa: UP017
        try:
            with self._file.open("a", encoding="utf-8") as file:
                # What a server says of itself begins no line of its own: it would pass for ours.
                words = "\n  | ".join(self.scrubbed(text).splitlines())
                file.write(f"{now:%Y-%m-%dT%H:%M:%SZ} watch: {words}\n")
            self._send(severity)
        except (OSError, ValueError, SystemExit):
            # A full disk, or nobody who takes it: what is in the file goes with the next line.
            return

    def last_lines(self, count: int) -> str:
        """The end of the server's log, without secrets; of one line the cause, if there is one."""
        said = [line.strip() for line in self._server_lines(60)]
        lines = [line[:300] for line in said if line and not _OF_CLIENTS.search(line)]
        causes = [line for line in lines if "error:" in line.lower() or "Error: " in line]
        chosen = causes[-1:] if count == 1 and causes else lines[-count:]
        return "\n".join(chosen)[-REASON_CHARACTERS:]

    def _server_lines(self, count: int) -> list[str]:
        """The last lines of the server's log, without secrets, and without those that say that the
        watch has looked."""
        text = self.scrubbed(self._server_log(10 * count))
        return [line for line in text.splitlines() if not _LOOK.search(line)][-count:]

    def scrubbed(self, text: str) -> str:
        """``text`` without secrets."""
        return shown(text, secrets_in(self._state / "memory"))

    def _send(self, severity: str) -> None:
        if (self._state / "boot-log.refused").exists():
            return
        if severity != "NOTICE":
            text = "\n".join(self._server_lines(200))
            (self._state / "container.log").write_text(text, encoding="utf-8")
        with (self._state / "boot-log.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            report = {
                "severity": severity,
                "phase": READY,
                "error": "",
                "timeline": _text(self._state / "boot.timeline"),
                "ended": _text(self._state / "boot.ended"),
            }
            memory = self._state / "memory"
            document, sent = request(self._state, self._file, memory, report)
            headers = {
                "Authorization": f"Bearer {self._token()}",
                "Content-Type": "application/json",
            }
            content = json.dumps(document, ensure_ascii=False).encode()
            answer = ask(f"{self._url}/entries:write", headers, content, method="POST")
            if answer.status == 200:
                line = f"{sent.run} {sent.at} {sent.phase}\n"
                (self._state / "boot-log.sent").write_text(line, encoding="utf-8")


def _text(path: Path) -> str:
    return re.sub(r"\s", "", read_end(path)[0].decode("utf-8", "replace"))
