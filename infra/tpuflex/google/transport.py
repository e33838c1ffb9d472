"""JSON over HTTP to a Google API: retries with backoff and Retry-After, errors of our own tree."""

from __future__ import annotations

import email.utils
import json
import math
from collections.abc import Mapping
from datetime import UTC
from typing import Protocol

import requests
from pydantic import JsonValue

from tpuflex.errors import ApiError, InterruptedByUser
from tpuflex.google.rpc_errors import NO_ANSWER, RpcError, as_exception, read_rpc_error
from tpuflex.google.timing import DEFAULT_BUDGET, Settling, Timing

JsonObject = dict[str, JsonValue]
Query = Mapping[str, str]

_FIRST_DELAY = 1.0
_LONGEST_DELAY = 30.0
#: Connect and read timeouts of one attempt, in seconds.
_TIMEOUT = (10.0, 30.0)


class HttpSession(Protocol):
    """The part of an authorized session that the transport uses."""

    def request(
        self,
        method: str,
        url: str,
        *,
        params: Query,
        data: bytes | None,
        headers: Mapping[str, str],
        timeout: tuple[float, float],
        allow_redirects: bool,
    ) -> requests.Response:
        """Send one request."""

    def refresh_token(self) -> None:
        """Get a new access token."""


class Api(Protocol):
    """What clients of one API need of a :class:`Transport`."""

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: JsonObject | None = None,
        budget: float = DEFAULT_BUDGET,
    ) -> JsonObject:
        """As :meth:`Transport.call`."""


class Transport:
    """Sends JSON requests below one base URL.

    Safe to use from several threads.

    Args:
        session: sends them.
        base_url: without a slash at the end.
        timing: clocks and pauses.
        settling: until when an API that was just enabled may go on refusing; it then is asked
            again. By default a refusal is final: nobody has enabled anything.
        timeout: connect and read timeouts of one attempt, in seconds.
        retries: whether a call may be tried more than once; otherwise each has a budget of 0.
    """

    def __init__(
        self,
        session: HttpSession,
        base_url: str,
        timing: Timing,
        settling: Settling | None = None,
        timeout: tuple[float, float] = _TIMEOUT,
        *,
        retries: bool = True,
    ) -> None:
        self._session = session
        self._base_url = base_url
        self._timing = timing
        self._settling = settling or Settling()
        self._timeout = timeout
        self._retries = retries

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: JsonObject | None = None,
        budget: float = DEFAULT_BUDGET,
    ) -> JsonObject:
        """The JSON object that the API answers with.

        Args:
            method: HTTP method.
            path: path below the base URL, with a leading slash.
            query: query parameters.
            body: JSON body.
            budget: seconds that retries may take together; 0 means a single attempt. An API that
                settles is asked again whatever the budget.

        Raises:
            NotFoundError: 404.
            AccessError, QuotaError: 401, 403, and 429 that is not a mere rate limit.
            AlreadyExistsError, ConflictError, ApiError: other refusals, and what is left when
                the budget is spent.
            InterruptedByUser: the process is shutting down.
        """
        give_up = self._timing.monotonic() + (budget if self._retries else 0.0)
        attempt = 0
        refreshed = False
        while True:
            outcome = self._attempt(method, path, query or {}, body)
            if isinstance(outcome, dict):
                return outcome
            if outcome.error.http_status == 401 and not refreshed:
                # Once: an expired token is replaced; a refused one only the user can fix.
                refused = self._renewal_failure()
                refreshed = refused is None
                if refreshed:
                    continue
                outcome = refused or outcome
            delay = self._delay(attempt, outcome.retry_after)
            if self._timing.monotonic() + delay > self._limit(outcome.error, give_up):
                raise as_exception(
                    outcome.error,
                    method=method,
                    url=self._base_url + path,
                    retry_after=outcome.retry_after or 0.0,
                )
            if self._timing.pause(delay):
                raise InterruptedByUser(f"stopped while retrying {method} {self._base_url}{path}")
            attempt += 1

    def _limit(self, error: RpcError, give_up: float) -> float:
        """Until when the request is worth another attempt, on the monotonic clock."""
        if error.service_disabled:
            return self._settling.until
        return give_up if error.retryable else -math.inf

    def _attempt(
        self, method: str, path: str, query: Query, body: JsonObject | None
    ) -> JsonObject | _Refusal:
        headers = {"Accept": "application/json"}
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
        try:
            response = self._session.request(
                method,
                self._base_url + path,
                params=query,
                data=data,
                headers=headers,
                timeout=(
                    self._timing.patience(self._timeout[0]),
                    self._timing.patience(self._timeout[1]),
                ),
                allow_redirects=False,
            )
        except (requests.ConnectionError, requests.Timeout) as error:
            return _transport_fault(f"no answer ({type(error).__name__})")
        except (requests.exceptions.ContentDecodingError, requests.exceptions.ChunkedEncodingError):
            return _transport_fault("the answer was cut short")
        except requests.RequestException as error:
            raise ApiError(
                f"{method} {self._base_url}{path}: {type(error).__name__}",
                brief=type(error).__name__,
                method=method,
                url=self._base_url + path,
            ) from error
        if response.status_code < 300:
            return _json_object(response)
        return _Refusal(
            read_rpc_error(response.status_code, response.content),
            self._retry_after(
                response.headers.get("Retry-After", ""), response.headers.get("Date", "")
            ),
        )

    def _renewal_failure(self) -> _Refusal | None:
        """Get a new token; what went wrong if the token server did not answer."""
        try:
            self._session.refresh_token()
        except (requests.ConnectionError, requests.Timeout) as error:
            return _transport_fault(f"no new access token ({type(error).__name__})")
        return None

    def _retry_after(self, value: str, date: str) -> float | None:
        """Seconds for which the server asks not to be called again; None if it does not say.

        A date counts from the answer's own ``date``: our clock may be hours off.
        """
        if value.isascii() and value.isdecimal():
            return float(value)
        moment = _http_date(value)
        if moment is None:
            return None
        now = _http_date(date)
        return max(0.0, moment - (self._timing.wall() if now is None else now))

    def _delay(self, attempt: int, retry_after: float | None) -> float:
        """Full jitter (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter),
        never earlier than the server asked for."""
        spread = min(_LONGEST_DELAY, _FIRST_DELAY * 2.0 ** min(attempt, 10)) * self._timing.jitter()
        return spread if retry_after is None else retry_after + spread


def _http_date(value: str) -> float | None:
    """Seconds since the epoch; None if ``value`` is no HTTP date."""
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:  # "-0000": the sender's zone is unknown, the time is UTC
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()


class _Refusal:
    def __init__(self, error: RpcError, retry_after: float | None) -> None:
        self.error = error
        self.retry_after = retry_after


def _transport_fault(message: str) -> _Refusal:
    return _Refusal(RpcError(NO_ANSWER, "UNAVAILABLE", message, frozenset()), None)


def _json_object(response: requests.Response) -> JsonObject | _Refusal:
    """A 2xx answer's object; anything else with a 2xx (a login page, half an object) is a fault
    of the transport, and worth a retry."""
    if response.status_code == 204:
        return {}
    try:
        payload = json.loads(response.content)
    except ValueError:
        return _transport_fault(f"status {response.status_code}, but the body is not JSON")
    if not isinstance(payload, dict):
        return _transport_fault(f"status {response.status_code}, but the body is not an object")
    return payload
