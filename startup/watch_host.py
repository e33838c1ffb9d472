"""What the watch asks and does on its host: time, the metadata server, docker.

``watch.py`` uses it, beside which the startup script writes this and ``watch_state.py``.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from watch_state import Container

ATTRIBUTES = "instance/attributes/"
DRAIN_KEY, RESTART_KEY = "tpuflex-drain", "tpuflex-restart"
SERVING_KEY = "instance/guest-attributes/tpuflex/serving"
TOKEN_KEY = "instance/service-accounts/default/token"  # noqa: S105 - a path
#: Bounds on what is waited for: an answer of Google, docker.
GOOGLE_S, DOCKER_S = 15.0, 120.0
ANSWER_BYTES = 4 * 2**20
#: What docker gives a server between SIGTERM and SIGKILL.
STOP_S = 10
#: Google's bounds on queries of guest attributes, as in part 02.
_SPACING_MS, _MINUTE_MS = 400, 60_000
#: Of a header with whole seconds, with what an answer takes.
_RESOLUTION_S = 3.0
#: The metadata server is asked without a proxy, whatever the environment says.
_OPENER = build_opener(ProxyHandler({}))


class Clock:
    """Seconds since the epoch, as the machine had them at the start; it never goes back.

    Args:
        sleep: a command to run instead of sleeping; what it is told has passed, if not more has.
    """

    def __init__(self, sleep: str = "") -> None:
        self._offset = time.time() - time.monotonic()
        self._sleep, self._slept = sleep, 0.0

    def now(self) -> float:
        """The time."""
        return self.machine() + self._slept

    def machine(self) -> float:
        """The time without what only a command has slept."""
        return time.monotonic() + self._offset

    def pause(self, seconds: float) -> None:
        """Let ``seconds`` pass."""
        if not self._sleep:
            time.sleep(seconds)
            return
        began, whole = time.monotonic(), max(1, round(seconds))
        subprocess.run([self._sleep, str(whole)], check=False)
        self._slept += max(0.0, whole - (time.monotonic() - began))


class Answer(NamedTuple):
    """An answer of HTTP; status 0 where there was none."""

    status: int
    text: str = ""
    etag: str = ""
    date: str = ""


def ask(
    url: str,
    headers: Mapping[str, str],
    content: bytes | None = None,
    *,
    method: str = "GET",
    seconds: float = GOOGLE_S,
) -> Answer:
    """Ask one of Google's servers."""
    request = Request(url, content, dict(headers), method=method)  # noqa: S310 - as the script has it
    try:
        with _OPENER.open(request, timeout=seconds) as response:  # nosec B310
            text = response.read(ANSWER_BYTES).decode("utf-8", "replace")
            fields = response.headers
            return Answer(response.status, text, fields.get("ETag", ""), fields.get("Date", ""))
    except HTTPError as error:
        return Answer(error.code, _text(error), date=error.headers.get("Date", ""))
    except (OSError, http.client.HTTPException):
        return Answer(0)


def _text(error: HTTPError) -> str:
    """What a server says of its refusal."""
    try:
        return error.read(ANSWER_BYTES).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        return ""


def ahead_by(date: str, now: float, before: float) -> float:
    """Seconds by which ``date``, a header with whole seconds, is ahead of ``now``; ``before`` where
    it says nothing, or nothing new."""
    try:
        found = parsedate_to_datetime(date).timestamp() - now
    except (ValueError, TypeError):
        return before
    return found if abs(found - before) > _RESOLUTION_S else before


class Asked(NamedTuple):
    """What is asked of the host by keys of its metadata; each is empty without its key."""

    drain: str = ""
    restart: str = ""


class Metadata:
    """The metadata server, below its ``computeMetadata/v1``.

    Args:
        url: that address.
        asked: file with the times, in milliseconds, at which guest attributes were asked for; the
            startup script counts them there, too.
        per_minute: how often they may be asked for within a minute.
        now: this machine's time.

    Attributes:
        ahead: seconds by which its clock is ahead of this machine's, as far as its answers say.
    """

    _HEADERS: Mapping[str, str] = {"Metadata-Flavor": "Google"}

    def __init__(self, url: str, asked: Path, per_minute: int, now: Callable[[], float]) -> None:
        self._url, self._asked, self._per_minute = url, asked, per_minute
        self._now = now
        self._asked_for, self._etag = Asked(), ""
        self.ahead = 0.0

    def asked_for(self, seconds: float = 0) -> Asked:
        """The keys ``tpuflex-drain`` and ``tpuflex-restart``; what they were where nobody answers.

        Args:
            seconds: how long to wait for a change; less than a whole one is not waited. All keys
                are asked for, since one that is not there cannot be waited for
                (https://cloud.google.com/compute/docs/metadata/querying-metadata#waitforchange).
        """
        query = "recursive=true&alt=json"
        if seconds >= 1 and self._etag:
            query += f"&wait_for_change=true&last_etag={self._etag}&timeout_sec={int(seconds)}"
        answer = ask(f"{self._url}/{ATTRIBUTES}?{query}", self._HEADERS, seconds=seconds + GOOGLE_S)
        self.ahead = ahead_by(answer.date, self._now(), self.ahead)
        if answer.status == 200:
            self._asked_for, self._etag = read_keys(answer.text, self._asked_for), answer.etag
        else:
            # Whoever refuses to wait, or does not come back from it, is asked without next time.
            self._etag = ""
        return self._asked_for

    def tell(self, document: object) -> bool:
        """Write ``tpuflex/serving``; whether it was taken. False, and nothing is asked, where this
        minute has had its queries."""
        now = int(time.time() * 1000)
        # Where the clock went back, some are of the future.
        asked = [at for at in _numbers(self._asked) if 0 <= now - at < _MINUTE_MS]
        # An embedded host may ask more often.
        spacing = _SPACING_MS if self._per_minute <= 60 else 0
        if len(asked) >= self._per_minute or any(now - at < spacing for at in asked):
            return False
        fresh = self._asked.with_name("asked.watch")
        fresh.write_text("".join(f"{at}\n" for at in (*asked, now)), encoding="ascii")
        fresh.replace(self._asked)
        content = json.dumps(document).encode()
        url = f"{self._url}/{SERVING_KEY}"
        return ask(url, self._HEADERS, content, method="PUT", seconds=5).status == 200

    def token(self) -> str:
        """An access token of the host's service account; empty without one."""
        answer = ask(f"{self._url}/{TOKEN_KEY}", self._HEADERS)
        try:
            return str(json.loads(answer.text)["access_token"]) if answer.status == 200 else ""
        except (ValueError, LookupError, TypeError):
            return ""


def read_keys(text: str, before: Asked) -> Asked:
    """The keys in ``text``, all attributes of the machine; ``before`` where it is none of that. One
    of blanks is a key, too."""
    try:
        attributes = json.loads(text)
        found = [attributes.get(key, "") for key in (DRAIN_KEY, RESTART_KEY)]
        drain, restart = (key.strip() or key for key in found)
    except (ValueError, AttributeError):
        return before
    return Asked(drain, restart)


class Docker:
    """The container of the server.

    Args:
        name: its name.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def container(self) -> Container | None:
        """What docker says of it; None where docker does not answer."""
        code, text = self._run("inspect", self._name)
        if code is None:
            return None
        try:
            found = json.loads(text)
            if not found:
                return Container("absent")
            state = found[0]["State"]
            restarts, started = found[0].get("RestartCount", 0), state.get("StartedAt", "")
            return Container(state["Status"], restarts, state["ExitCode"], str(started))
        except (ValueError, LookupError, TypeError):
            return None

    def restart(self) -> None:
        """End it, at once since it is frozen or has ended, and start it again."""
        self._run("restart", "--time", "1", self._name)

    def stop(self) -> None:
        """End it for good."""
        self._run("stop", "--time", str(STOP_S), self._name)

    def log(self, lines: int) -> str:
        """The end of what it wrote."""
        return self._run("logs", "--tail", str(lines), self._name)[1]

    def _run(self, *words: str) -> tuple[int | None, str]:
        """Exit code and output of a docker command; without a code where it did not end."""
        try:
            done = subprocess.run(
                ["docker", *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if words[0] == "logs" else subprocess.DEVNULL,
                timeout=DOCKER_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None, ""
        return done.returncode, done.stdout.decode("utf-8", "replace")


def _numbers(path: Path) -> list[int]:
    try:
        return [int(word) for word in path.read_text(encoding="ascii").split()]
    except (OSError, ValueError):
        return []


def environment(name: str) -> str:
    """A variable; empty without it."""
    return os.environ.get(name, "")
