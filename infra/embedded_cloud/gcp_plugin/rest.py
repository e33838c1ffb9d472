"""JSON over HTTP to the embedded cloud, and nowhere else."""

from __future__ import annotations

import http.client
import ipaddress
import json
from collections.abc import Iterator, Mapping
from urllib.parse import quote, urlencode, urlsplit

from embedded_cloud.control_client import OwnersConnection
from embedded_cloud.gcp_plugin.token import Token
from embedded_cloud.gcp_plugin.waiting import Waiter
from embedded_cloud.json_types import JsonObject, JsonValue, child, text
from tpuflex.errors import ApiError, EmulatorError

#: Statuses after which the published plugin retries, too.
_TRANSIENT = {429, 500, 502, 503, 504}
_TRANSIENT_TRIES = 5
_UNAUTHENTICATED = 401
_TIMEOUT_S = 60.0


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
        connection = OwnersConnection(self._host, self._port, timeout=_TIMEOUT_S)
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
