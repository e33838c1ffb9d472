"""A running server, asked what it says of itself.

What answers may not be the server that was started: its answers are bounded, and checked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Self, TypeVar
from urllib.parse import urlsplit

import requests
from pydantic import BaseModel, Field, ValidationError
from urllib3.exceptions import HTTPError

from tpuflex.advice import Advice
from tpuflex.errors import AccessError, ApiError, ServerDownError, TpuflexError, UsageError
from tpuflex.measure.metrics import MOST_BYTES, EngineMetrics
from tpuflex.operate.endpoint_connection import (
    Route,
    api_key,
    connected,
    serving_slice,
    session,
    unreachable_hint,
)
from tpuflex.operate.health import KEY_REFUSED, Probe, get, read_body
from tpuflex.stack.progress import Report, silent

if TYPE_CHECKING:
    from tpuflex.operate.slice import SliceStatus
    from tpuflex.stack.connection import Connection

T = TypeVar("T")

#: Bytes of a document that are read.
_DOCUMENT_BYTES = 1024 * 1024

#: What to do about a server that does not answer at an address that leads to its host.
_DOWN = Advice(
    "`{status}` says whether its host starts it again, and `{verify}` whether it serves then."
)


class ServedModel(BaseModel):
    """A model that a server serves, as its ``/v1/models`` says.

    Attributes:
        id: name under which it is served.
        max_model_len: tokens of the longest sequence.
    """

    id: Annotated[str, Field(max_length=1000)]
    max_model_len: Annotated[int, Field(ge=1, le=10**12)] | None = None


class _Models(BaseModel):
    data: tuple[ServedModel, ...] = Field(max_length=1000)


class _Requests(BaseModel):
    in_flight: Annotated[int, Field(ge=0, le=10**9)]


class _Version(BaseModel):
    version: str = Field(pattern=r"^[!-~]{1,100}$")


@dataclass(frozen=True, slots=True)
class ServerClient:
    """A server within reach.

    Attributes:
        endpoint: its base URL from here, which ends in ``/v1``.
        through: ``direct`` or ``iap``.
        model: name under which the stack serves its model.
        key: the API key.
        session: connections to it.
        reach: what to do where it cannot be reached.
        now: the time, as the server has it: the clock of an embedded cloud may be a faster one.
        pause: waits that many seconds.
    """

    endpoint: str
    through: str
    model: str
    key: str = field(repr=False)
    session: requests.Session
    reach: Advice | str = ""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    pause: Callable[[float], None] = time.sleep

    def metrics(self) -> EngineMetrics:
        """What it counts.

        Raises:
            AccessError: it refuses the key.
            ApiError: it does not answer, or with something else.
        """
        text = self._read("/metrics", MOST_BYTES + 1).decode("utf-8", "replace")
        return EngineMetrics.parse(text, self.now(), endpoint=self.endpoint)

    def models(self) -> tuple[ServedModel, ...]:
        """What it serves.

        Raises:
            AccessError, ApiError: as :meth:`metrics`.
        """
        try:
            return _Models.model_validate_json(self._read("/v1/models")).data
        except ValidationError as error:
            raise ApiError(f"{self.endpoint}/models answered with no list of models.") from error

    def version(self) -> str:
        """Its version of vLLM.

        Raises:
            AccessError, ApiError: as :meth:`metrics`.
        """
        try:
            return _Version.model_validate_json(self._read("/version")).version
        except ValidationError as error:
            raise ApiError(f"{self.endpoint} does not say which vLLM it is.") from error

    def in_flight(self) -> int | None:
        """Requests that its guard has let through and that have not ended; None where it does not
        say. An engine that is frozen is not asked for it.

        Raises:
            AccessError: it refuses the key.
        """
        try:
            return _Requests.model_validate_json(self._read("/tpuflex/requests")).in_flight
        except (ApiError, ValidationError):
            return None

    def code(self, path: str) -> int:
        """The status that it answers ``GET path`` with; without the key.

        Raises:
            ApiError: it does not answer.
        """
        return self._get(path, {}, 0)[0]

    def probe(self) -> Probe:
        """What asks it for tokens."""
        return Probe(
            self.endpoint, self.model, self.session, self.through, time.monotonic, self.pause
        )

    def _read(self, path: str, most: int = _DOCUMENT_BYTES) -> bytes:
        code, body = self._get(path, {"Authorization": f"Bearer {self.key}"}, most)
        if code in (requests.codes.unauthorized, requests.codes.forbidden):
            raise AccessError("The endpoint refused the API key.", hint=KEY_REFUSED.sentence())
        if code != requests.codes.ok:
            raise ApiError(f"{path} of {self.endpoint} answered {code}.", status=code)
        return body

    def _get(self, path: str, headers: Mapping[str, str], most: int) -> tuple[int, bytes]:
        url = f"{self.endpoint.removesuffix('/v1')}{path}"
        try:
            with get(self.session, self.endpoint, path, headers) as response:
                return response.status_code, read_body(response, most) if most else b""
        except requests.Timeout as error:
            message = f"{path} of {self.endpoint} did not answer in time."
            raise ApiError(message, url=url, hint=self.reach) from error
        except (requests.RequestException, HTTPError) as error:
            certificate = isinstance(error, requests.exceptions.SSLError)
            refused = isinstance(error, requests.ConnectionError) and not certificate
            if refused and self.through == Route.DIRECT:
                message = f"The server does not answer: no connection to {self.endpoint}."
                raise ServerDownError(message, url=url, hint=self.reach) from error
            message = f"{path} of {self.endpoint} cannot be reached from here."
            raise ApiError(message, url=url, hint=self.reach) from error


def base_url(url: str, option: str = "--here") -> str:
    """``url`` of an OpenAI server, which an ``option`` names, without ``/v1`` at its end.

    Nothing of it may be a secret: files and errors repeat it.

    Raises:
        UsageError: it is no URL, or has a user, a query or a fragment.
    """
    if not url.startswith(("http://", "https://")):
        raise UsageError("That is no URL: it begins with http:// or https://.", option=option)
    if any(sign in url for sign in "@?#") or not urlsplit(url).hostname:
        raise UsageError(
            "The URL of a server has a host, a port and a path alone: no user, password, query or"
            " fragment.",
            option=option,
        )
    return url.rstrip("/").removesuffix("/v1")


@contextmanager
def open_server(
    cloud: Connection,
    report: Report = silent,
    *,
    tunnel: bool = True,
    status: SliceStatus | None = None,
    key: str = "",
) -> Iterator[ServerClient]:
    """The server of the stack of ``cloud``, while the block runs; through a tunnel where its
    address is a private one.

    Args:
        cloud: the stack's cloud.
        report: receives why a tunnel is opened.
        tunnel: whether one may be opened.
        status: the stack's slice, where that has been read; it has an address.
        key: the API key, where that has been read.

    Raises:
        NotFoundError: the stack is not up, its host has no address yet, or there is no API key.
        AccessError: the key may not be read.
        TpuflexError: there is no way to the endpoint.
    """
    status = serving_slice(cloud) if status is None else status
    key = key or api_key(cloud)
    with connected(cloud, status, report, tunnel=tunnel) as found:
        yield ServerClient(
            endpoint=found.url,
            through=found.through,
            model=cloud.stack.settings.model.name,
            key=key,
            session=session(cloud, found.url),
            reach=_DOWN
            if found.through == Route.DIRECT
            else unreachable_hint(cloud, status, through=found.through),
        )


class KeptServer:
    """The way to the server of the stack of ``cloud``, opened again when it has closed: after a
    tunnel that broke, or with another slice.

    Args:
        cloud: the stack's cloud.
        report: receives why a tunnel is opened.
        tunnel: whether one may be opened.
        read_slice: reads the stack's slice, whenever the way is opened.
        opened: called with what it leads to, whenever it was opened.
    """

    def __init__(
        self,
        cloud: Connection,
        report: Report = silent,
        *,
        tunnel: bool = True,
        read_slice: Callable[[], SliceStatus],
        opened: Callable[[ServerClient], None] = lambda _server: None,
    ) -> None:
        self._cloud, self._report, self._tunnel = cloud, report, tunnel
        self._read_slice, self._opened = read_slice, opened
        self._way = ExitStack()
        self._server: ServerClient | None = None
        self._key = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the way, where it is open."""
        self._server = None
        self._way.close()

    def ask(self, question: Callable[[ServerClient], T]) -> T:
        """The answer to ``question``; asked a second time where the way to the server was open
        before, and may be broken.

        Raises:
            TpuflexError: there is no answer, or no way to it.
        """
        if self._server is not None:
            try:
                return question(self._server)
            except TpuflexError as error:
                self._lose(error)
        try:
            return question(self._open())
        except TpuflexError as error:
            self._lose(error)
            raise

    def _open(self) -> ServerClient:
        status = self._read_slice()
        way = open_server(
            self._cloud, self._report, tunnel=self._tunnel, status=status, key=self._key
        )
        server = self._way.enter_context(way)
        self._key = server.key
        self._opened(server)
        self._server = server
        return server

    def _lose(self, error: TpuflexError) -> None:
        if isinstance(error, AccessError):
            self._key = ""  # it may have been changed
        self.close()
