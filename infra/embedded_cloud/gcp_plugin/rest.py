"""JSON over HTTP to the embedded cloud, and nowhere else."""

from __future__ import annotations

import http.client
import ipaddress
import json
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, urlencode, urlsplit

from embedded_cloud.core.control_client import OwnersConnection, call
from embedded_cloud.core.json_types import JsonObject, JsonValue, child, text
from tpuflex.errors import ApiError, EmulatorError, TpuflexError

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0


class WaitCancelledError(TpuflexError):
    """The engine cancelled while a call was waiting."""


class WaitTimeoutError(TpuflexError):
    """A call's time ran out while it was waiting."""


@dataclass(frozen=True, slots=True)
class Waiter:
    """How long one call may wait.

    Attributes:
        pause: waits that many seconds; returns whether the engine has cancelled meanwhile.
        now: a monotonic clock, in seconds.
        deadline: the clock's reading at which the call times out.
    """

    pause: Callable[[float], bool]
    now: Callable[[], float]
    deadline: float

    def pauses(self, what: str) -> Iterator[None]:
        """Pause, a little longer every time, before each step of the caller's loop.

        Args:
            what: what is waited for, for the message.

        Raises:
            WaitCancelledError: the engine cancelled.
            WaitTimeoutError: the deadline passed.
        """
        seconds = FIRST_PAUSE_S
        while True:
            if self.now() + seconds > self.deadline:
                raise WaitTimeoutError(f"timeout while waiting for {what}")
            # Half fixed, half random, so that several calls do not retry in step.
            if self.pause(seconds * (0.5 + random.random() / 2)):  # noqa: S311
                raise WaitCancelledError(f"cancelled while waiting for {what}")
            yield
            seconds = min(seconds * 1.6, LONGEST_PAUSE_S)


#: What names the emulator, its token's file, the kind of credentials, and the project in the
#: environment that `tpuflex` gives the engine, and the engine its plugins.
URL, TOKEN_FILE = "TPUFLEX_EMULATOR", "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE"
KIND, PROJECT = "TPUFLEX_EMULATOR_CREDENTIALS", "GOOGLE_CLOUD_PROJECT"
_TIMEOUT_S = 30.0


class Token(Protocol):
    """Gives the token for a request."""

    def __call__(self, refused: str = "") -> str:
        """The token; another one than ``refused``, which the cloud did not take (any more)."""
        ...


class FixedToken:
    """One that does not expire."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, refused: str = "") -> str:
        """The token."""
        return self._token


class CallersToken:
    """Those of the account that a kind of credentials stands for. Safe to use from many threads.

    Args:
        fetch: gets a new one.
    """

    def __init__(self, fetch: Callable[[], str]) -> None:
        self._fetch = fetch
        self._lock = threading.Lock()
        self._token = ""

    def __call__(self, refused: str = "") -> str:
        """The token; a new one in place of ``refused``."""
        with self._lock:
            if self._token in ("", refused):
                self._token = self._fetch()
            return self._token


def callers_token(environ: Mapping[str, str]) -> CallersToken:
    """The tokens of the user who runs the engine in ``environ``.

    Raises:
        EmulatorError: ``environ`` is not what tpuflex gives the engine.
    """
    missing = [name for name in (URL, TOKEN_FILE, KIND, PROJECT) if not environ.get(name)]
    if missing:
        raise EmulatorError(
            f"the gcp stand-in plugin lacks {', '.join(missing)} in its environment",
            hint='Run: eval "$(tpuflex emulator env --credentials KIND)"',
        )
    state_dir, port = Path(environ[TOKEN_FILE]).parent, urlsplit(environ[URL]).port or 0
    asked: JsonObject = {"kind": environ[KIND], "project": environ[PROJECT]}

    def fetch() -> str:
        try:
            answer = call(state_dir, port, "POST", "token", asked, timeout_s=_TIMEOUT_S)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise EmulatorError(f"{environ[URL]} gives no token: {error}") from error
        return text(answer, "access_token")

    return CallersToken(fetch)


#: Statuses after which the published plugin retries, too.
_TRANSIENT = {429, 500, 502, 503, 504}
_TRANSIENT_TRIES = 5
_UNAUTHENTICATED = 401
_REST_TIMEOUT_S = 60.0


class Rest:
    """The REST APIs of the embedded cloud at one base URL. Safe to use from many threads."""

    def __init__(self, base_url: str, token: Token) -> None:
        """Remember where the embedded cloud listens, and what gives the token that opens it.

        Raises:
            EmulatorError: ``base_url`` is not plain HTTP on a loopback address.
        """
        self.base_url = base_url.rstrip("/")
        parts = urlsplit(self.base_url)
        if parts.scheme != "http" or not _is_loopback(parts.hostname or ""):
            raise EmulatorError(
                f"the gcp stand-in plugin only talks to a loopback address, not to {base_url}",
                hint="give it the embedded cloud's URL, such as http://127.0.0.1:8470",
            )
        self._host = parts.hostname or ""
        self._port = parts.port or 80
        self._prefix = parts.path
        self._token = token

    def call(
        self,
        method: str,
        path: str,
        waiter: Waiter,
        *,
        query: Mapping[str, str] | None = None,
        body: JsonObject | None = None,
    ) -> JsonObject:
        """Send one request and return the JSON body of the answer.

        ``path`` may have parts that are percent-encoded already (names of objects).

        Raises:
            ApiError: the answer is an error, or there was none; ``status`` is then 0.
            WaitCancelledError: the engine cancelled between two attempts.
        """
        target = self._prefix + quote(path, safe="/:@%")
        if query:
            target += "?" + urlencode(query)
        for tries, _ in enumerate(_first_at_once(waiter, f"{method} {path}"), start=1):
            token = self._token()
            status, answer = self._send(method, target, body, token)
            if status == _UNAUTHENTICATED:
                status, answer = self._send(method, target, body, self._token(refused=token))
            if status < 400:
                return answer
            if status not in _TRANSIENT or tries == _TRANSIENT_TRIES:
                raise _api_error(status, answer, method, path)
        raise AssertionError("unreachable: the pauses never end by themselves")

    def _send(
        self, method: str, target: str, body: JsonObject | None, token: str
    ) -> tuple[int, JsonObject]:
        connection = OwnersConnection(self._host, self._port, timeout=_REST_TIMEOUT_S)
        headers = {"Authorization": f"Bearer {token}", "User-Agent": "tpuflex-gcp-stand-in"}
        payload = None
        if body is not None:
            payload = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        elif method in ("POST", "PUT", "PATCH"):
            headers["Content-Length"] = "0"
        try:
            connection.request(method, target, body=payload, headers=headers)
            response = connection.getresponse()
            return response.status, _parse(response.read())
        except (OSError, http.client.HTTPException) as error:
            raise ApiError(
                f"the embedded cloud at {self.base_url} does not answer: {error}",
                method=method,
                url=self.base_url + target.split("?", 1)[0],
                hint="start it: tpuflex emulator start",
            ) from error
        finally:
            connection.close()


def _first_at_once(waiter: Waiter, what: str) -> Iterator[None]:
    yield
    yield from waiter.pauses(what)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _parse(payload: bytes) -> JsonObject:
    try:
        parsed: JsonValue = json.loads(payload) if payload else {}
    except ValueError:
        parsed = {"error": {"message": payload[:200].decode(errors="replace")}}
    return parsed if isinstance(parsed, dict) else {"value": parsed}


def _api_error(status: int, answer: JsonObject, method: str, path: str) -> ApiError:
    error = child(answer, "error")
    listed = error.get("errors")
    first = listed[0] if isinstance(listed, list) and listed else {}
    reason = text(first, "reason") if isinstance(first, dict) else ""
    reported = text(error, "message", "no message")
    # The published plugin's wording, which people search for.
    message = f"googleapi: Error {status}: {reported}" + (f", {reason}" if reason else "")
    return ApiError(
        message, status=status, reason=text(error, "status") or reason, method=method, url=path
    )
