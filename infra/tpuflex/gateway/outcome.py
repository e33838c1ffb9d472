"""How one request has ended, for the client, the counters and the access log."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Why a request was refused, or did not end well; docs/how-to/gateway.md has all of them."""

    # What the door refuses.
    INVALID_REQUEST = "invalid_request"
    BAD_FRAMING = "bad_framing"
    INVALID_KEY = "invalid_api_key"
    NO_PATH = "not_found"
    NO_METHOD = "method_not_allowed"
    NO_MODEL = "model_not_found"
    BODY_TOO_SLOW = "body_too_slow"
    BODY_TOO_LONG = "body_too_long"
    COMPRESSED = "compressed"
    # What is beyond the limits of its client.
    LIMIT = "client_limit"
    BUDGETS_UNREACHABLE = "budgets_unreachable"
    # What no upstream can take.
    NO_UPSTREAM = "no_upstream"
    DRAINING = "draining"
    RUN_ENDS = "run_ends"
    KV_CACHE = "kv_cache"
    SLOW = "first_token"
    FULL = "overloaded"
    WAITED = "waited"
    # What an upstream did not do.
    UPSTREAM_FAILED = "upstream_failed"
    UPSTREAM_ERROR = "upstream_error"
    UPSTREAM_KEY = "upstream_key"
    UPSTREAM_REFUSED = "upstream_refused"
    TOO_LATE = "first_token_timeout"
    TIMEOUT = "timeout"
    # What had no other end.
    STOPPING = "gateway_stopping"
    CLIENT_LEFT = "client_left"
    FAILED = "failed"


# Not frozen, which takes five times as long to make; there is one for each request.
@dataclass(slots=True)
class Outcome:
    """A request that has ended. It has nothing of what was asked or answered.

    Attributes:
        id: its id, which the client has in ``x-request-id``.
        client: name of the client; empty if its key is not known.
        request_class: name of its class; empty if it was refused before that was known.
        model: the model as the client called it; empty if it was refused before that was known.
        upstream: name of the upstream that it had last; None if it had none.
        pool: number of that one's pool, from 0.
        status: of the answer; 499 if the client left before there was one.
        reason: why it was refused or did not end well; None if it did.
        streamed: whether the client asked for a stream.
        moved: why it went to a second upstream; None if it did not.
        waited_s: seconds in the waiting room.
        first_token_s: seconds to the first token from when the upstream had the request; None if
            there was none, or the answer was not streamed.
        seconds: from when it came until it had ended.
        prompt_tokens: tokens of its prompt, as the upstream says; None if it did not.
        generated_tokens: tokens that were generated.
        cached: whether the answer was one that was given before.
    """

    id: str
    client: str
    request_class: str
    model: str
    upstream: str | None
    pool: int | None
    status: int
    reason: Reason | None
    streamed: bool
    moved: Reason | None
    waited_s: float
    first_token_s: float | None
    seconds: float
    prompt_tokens: int | None
    generated_tokens: int | None
    cached: bool = False
