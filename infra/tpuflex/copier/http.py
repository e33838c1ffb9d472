"""HTTP with the standard library: one connection per request, and redirects that carry no secret.

``urllib`` sends ``Authorization`` to wherever it is redirected, and asks the environment for
proxies, so neither is used.
"""

from __future__ import annotations

import http.client
import ipaddress
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import urljoin, urlsplit

_TIMEOUT = 60.0
_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 5
#: Attempts at a request that brings nothing, and the longest wait between two, in seconds. The Hub
#: counts requests in windows of five minutes (https://huggingface.co/docs/hub/rate-limits).
ATTEMPTS = 8
_LONGEST_WAIT = 300.0
#: Of an answer that is read whole.
_MOST_BYTES = 8 * 2**20

_Answer = TypeVar("_Answer")


class UnreachableError(Exception):
    """No answer, or one that broke off."""


@dataclass(frozen=True)
class Response:
    """An answer.

    Attributes:
        status: HTTP status.
        headers: its headers, names in lower case.
        read: the next bytes of its body; fewer than asked for only at the end.
    """

    status: int
    headers: Mapping[str, str]
    read: Callable[[int], bytes] = field(repr=False)

    def body(self) -> bytes:
        """The whole body, of which no more is read than an answer in JSON has.

        Raises:
            UnreachableError: it broke off.
        """
        return self.read(_MOST_BYTES)


class RefusedError(Exception):
    """An answer that is no success.

    Attributes:
        status: HTTP status.
        wait: seconds that the server asks to wait; None if it does not.
    """

    def __init__(self, response: Response) -> None:
        super().__init__(f"HTTP {response.status}")
        self.status = response.status
        asked = response.headers.get("retry-after", "")
        self.wait = float(asked) if asked.isascii() and asked.isdigit() else None

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in (408, 429) or self.status >= 500


@contextmanager
def request(
    method: str,
    url: str,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    *,
    follow: bool = False,
) -> Iterator[Response]:
    """Send one request; its answer can be read within the block.

    Args:
        method: HTTP method.
        url: an absolute http(s) URL.
        headers: headers; ``Authorization`` goes to the URL's own origin only.
        body: what to send.
        follow: whether a redirect is followed: at most five, to https or to the origin itself, and
            to no address within the machine's own networks.

    Raises:
        UnreachableError: no answer, or it broke off.
        ValueError: a redirect leads to where nothing may be fetched from.
    """
    origin, sent, local = _origin(url), dict(headers or {}), is_loopback(url)
    for _ in range(_MOST_REDIRECTS + 1):
        # The answer keeps the socket open beyond the connection's own end.
        with closing(_connection(url)) as connection, ExitStack() as opened:
            answer = _exchange(connection, opened, method, url, sent, body)
            if not (follow and answer.status in _REDIRECTS):
                yield answer
                return
            url = urljoin(url, answer.headers.get("location", ""))
        if _origin(url) != origin:
            if not (local and is_loopback(url)):
                _require_public(url)
            sent = {key: value for key, value in sent.items() if key.lower() != "authorization"}
    raise ValueError("more redirects than any file needs")


@dataclass(frozen=True)
class Patience:
    """Asks again, within bounds.

    Attributes:
        sleep: waits that many seconds.
    """

    sleep: Callable[[float], object]

    def ask(self, attempt: Callable[[], _Answer]) -> _Answer:
        """What ``attempt`` gives, asked again where it may succeed later.

        Raises:
            UnreachableError, RefusedError: it does not.
        """
        for count in range(1, ATTEMPTS):
            try:
                return attempt()
            except (UnreachableError, RefusedError) as error:
                if not self.pause(error, count):
                    raise
        return attempt()

    def pause(self, error: Exception, count: int) -> bool:
        """Wait before another attempt after ``error``, the ``count``-th in a row; False if there is
        none to be made."""
        asked = None
        if isinstance(error, RefusedError):
            if not error.passing:
                return False
            asked = error.wait
        if count >= ATTEMPTS or (asked or 0.0) > _LONGEST_WAIT:
            return False
        self.sleep(min(2.0 ** (count - 1), 30.0) if asked is None else asked + 1.0)
        return True


def is_loopback(url: str) -> bool:
    """Whether ``url`` names this machine itself by a number or as ``localhost``."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def _require_public(url: str) -> None:
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    try:
        public = ipaddress.ip_address(host).is_global
    except ValueError:
        # The metadata server's names; it wants a header that is never sent, too.
        public = "." in host and not host.endswith((".internal", ".local", ".localhost"))
    if parts.scheme != "https" or not public:
        raise ValueError("a redirect to where no model is kept")


def _connection(url: str) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    if parts.scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(
            parts.hostname or "", parts.port, timeout=_TIMEOUT, context=context
        )
    return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_TIMEOUT)


def _exchange(
    connection: http.client.HTTPConnection,
    opened: ExitStack,
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None,
) -> Response:
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request(method, target, body=body, headers=dict(headers))
        answer = opened.enter_context(connection.getresponse())
    except (OSError, http.client.HTTPException) as error:
        raise UnreachableError(type(error).__name__) from error

    def read(size: int) -> bytes:
        try:
            return answer.read(size)
        except (OSError, http.client.HTTPException) as error:
            raise UnreachableError(type(error).__name__) from error

    found = {name.lower(): value for name, value in answer.getheaders()}
    return Response(answer.status, found, read)
