"""The settings of a gateway: where it listens, what is behind it, whom it serves and how."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from tpuflex.duration import Duration
from tpuflex.errors import Finding
from tpuflex.settings.base import Frozen, Remedy, bounded, refusal


def check_url(text: str) -> str:
    """``text`` if its host and port can be read."""
    try:
        _ = urlsplit(text).port
    except ValueError as error:
        raise refusal(
            "its host or port cannot be read",
            "Write a port up to 65535, and brackets around an IPv6 address only.",
        ) from error
    return text


Name = Annotated[
    str,
    Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$"),
    Remedy("Write at most 40 lower-case letters, digits, - and _."),
]
ModelName = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_./:-]{0,95}$"),
    Remedy("Write a name of one model: at most 96 letters, digits and _./:- without a wildcard."),
]
Url = Annotated[
    str,
    Field(pattern=r"^https?://[A-Za-z0-9.:\[\]-]+(?:/[A-Za-z0-9._~/-]*)?$", max_length=300),
    AfterValidator(check_url),
    Remedy("Write a base URL such as https://api.example.com/v1, without a key in it."),
]
Digest = Annotated[
    str,
    Field(pattern=r"^[0-9a-f]{64}$"),
    Remedy("Write the 64 digits that `tpuflex gateway key` prints, in lower case."),
]
#: How names end that the public DNS does not have, beside those of one word: Compute Engine's and
#: Kubernetes' own are among them.
_PRIVATE_NAMES = (".internal", ".local", ".svc", ".localhost")

Seconds = Annotated[float, Field(gt=0, le=3600)]
Count = Annotated[int, Field(ge=1, le=10**12)]
Usd = Annotated[Decimal, Field(gt=0, le=1_000_000)]
Wait = Annotated[Duration, bounded(most=(timedelta(minutes=10), "clients wait"))]


class InFlightBand(Frozen):
    """The range of the limit on requests in flight."""

    least: int = Field(ge=1, le=65_536)
    """It is never below this."""

    most: int = Field(ge=1, le=65_536)
    """It is never above this."""


class UpstreamSettings(Frozen):
    """One server behind the gateway: a stack, or a URL that answers as OpenAI's API does."""

    stack: Name | None = None
    """A stack of this project: each of its slices that serves, wherever it is."""

    url: Url | None = None
    """Base URL of any server with OpenAI's API, up to `/v1`."""

    model: ModelName | None = None
    """The model that the server at `url` is asked for."""

    key_file: str | None = Field(default=None, min_length=1, max_length=1000)
    """File with the API key for `url`, which nobody else may read; relative to this file."""

    in_flight: InFlightBand | None = None
    """The range of the limit on requests in flight, which is adjusted each second. By default, for
    a stack, from the sequences of full length that its KV cache holds to `max_num_seqs`; for a URL
    from 16 to 256."""

    priority_scheduling: bool = False
    """Whether the server at `url` was started with `--scheduling-policy priority`, and so gets the
    priorities of classes. For a stack this is known."""

    usd_per_million_prompt: Usd | None = None
    """US dollars for a million prompt tokens, for the limits of clients in dollars."""

    usd_per_million_generated: Usd | None = None
    """US dollars for a million generated tokens."""


class FirstTokenSettings(Frozen):
    """How long the first token, of content or of reasoning, may take once an upstream has the
    request: time in the gateway's own waiting room does not count, nor, for a stack, the time for
    which a parser or a stop sequence holds back what was generated."""

    slow: Seconds = 1.5
    """Where the 95th percentile is above this, in seconds, requests go to the next pool."""

    very_slow: Seconds = 2.0
    """Where it is above this everywhere, requests are refused with 503."""

    learn: bool = False
    """Whether both limits are learnt from the endpoint's own histogram, of the times at which no
    more than the least of `in_flight` is in flight there and nothing waits: 1.5 and 2 times its
    95th percentile, where that is more than what is written."""

    limit: Seconds = 30.0
    """After this many seconds without a first token, a request moves to another upstream."""


class SamplingSettings(Frozen):
    """Sampling parameters for requests that do not set them."""

    temperature: float | None = Field(default=None, ge=0, le=2)
    """Temperature."""

    top_p: float | None = Field(default=None, gt=0, le=1)
    """Share of the probability mass that is sampled from."""

    max_tokens: int | None = Field(default=None, ge=1, le=10_000_000)
    """Most tokens of an answer."""

    enforce: bool = False
    """Whether they replace what a request sets itself; `max_tokens` is then an upper bound."""


class ClassSettings(Frozen):
    """How requests of one class are treated."""

    priority: int = Field(default=0, ge=0, le=1000)
    """Lower goes first, in the waiting room and in vLLM's own scheduler."""

    wait: Wait = timedelta(seconds=10)
    """How long a request may wait for room. `0s`: not at all."""

    waiting: int = Field(default=256, ge=0, le=100_000)
    """How many requests of the class may wait."""

    first_token: FirstTokenSettings = FirstTokenSettings()
    """How long the first token may take."""

    sampling: SamplingSettings = SamplingSettings()
    """Sampling parameters."""


#: The classes that exist without being configured.
BUILTIN_CLASSES = {
    "interactive": ClassSettings(),
    "extraction": ClassSettings(sampling=SamplingSettings(temperature=0, max_tokens=256)),
    "batch": ClassSettings(
        priority=100,
        wait=timedelta(minutes=2),
        waiting=2048,
        first_token=FirstTokenSettings(slow=20, very_slow=30, limit=120),
    ),
}


class RouteSettings(Frozen):
    """One model as clients ask for it."""

    pools: Annotated[
        tuple[tuple[Name, ...], ...],
        Remedy("Write lists of upstreams in a list, such as [[east, west], [rented]]."),
    ] = Field(min_length=1, max_length=8)
    """Upstreams, in pools: the next pool is used where the one before cannot take a request."""

    request_class: Name | None = None
    """Class of requests for it, whichever client asks. By default the client's."""

    cache: bool = False
    """Whether identical requests of one client at temperature 0, which are not streamed, get the
    answer that was given in the last hour. They count as requests, and use no tokens."""


class ClientLimits(Frozen):
    """What a client may use. What is not written is not limited."""

    requests_per_minute: Count | None = None
    """Requests in a minute of the clock."""

    requests_per_day: Count | None = None
    """Requests in a day, UTC."""

    tokens_per_minute: Count | None = None
    """Tokens, of prompts and generated, in a minute of the clock."""

    tokens_per_day: Count | None = None
    """Tokens in a day, UTC."""

    usd_per_day: Usd | None = None
    """US dollars in a day, UTC, by the prices of the upstreams."""


class ClientSettings(Frozen):
    """One client, which has a key to the gateway."""

    key_sha256: Digest
    """SHA-256 of its key, as `tpuflex gateway key` prints it. The key itself is written nowhere."""

    request_class: Name = "interactive"
    """Class of its requests."""

    models: tuple[ModelName, ...] | None = None
    """The models that it may ask for; by default all."""

    limits: ClientLimits = ClientLimits()
    """What it may use."""


class RequestLimits(Frozen):
    """Bounds on one request."""

    body_bytes: int = Field(default=4 * 1024 * 1024, ge=1024, le=256 * 1024 * 1024)
    """Most bytes in its body."""

    n: int = Field(default=4, ge=1, le=128)
    """Most answers that it may ask for."""

    max_tokens: int = Field(default=32_768, ge=1, le=10_000_000)
    """Most tokens that it may ask for, of each answer."""


class TlsSettings(Frozen):
    """PEM files with which the gateway serves TLS; relative to this file."""

    certificate_file: str = Field(min_length=1, max_length=1000)
    """The certificate, and those that it was signed with."""

    key_file: str = Field(min_length=1, max_length=1000)
    """Its key, which nobody else may read."""


class BudgetStore(Frozen):
    """Where what clients have used is counted, when several gateways run."""

    url: Annotated[
        str,
        Field(pattern=r"^(?:redis|rediss|valkey)://[A-Za-z0-9.:\[\]-]+(?:/[0-9]{1,2})?$"),
        AfterValidator(check_url),
        Remedy("Write redis://HOST:PORT, without a password: that belongs in password_file."),
    ]
    """Redis or Valkey; `rediss://` talks TLS."""

    password_file: str | None = Field(default=None, min_length=1, max_length=1000)
    """File with its password, which nobody else may read; relative to this file."""


class GatewaySettings(Frozen):
    """A gateway: one address in front of endpoints."""

    host: str = Field(default="127.0.0.1", max_length=45)
    """Address to listen on."""

    port: int = Field(default=8080, ge=0, le=65_535)
    """Port to listen on; 0 is any free one."""

    tls: TlsSettings | Literal["elsewhere"] | None = None
    """Files for TLS; `elsewhere` if something in front of the gateway ends TLS. Without either,
    the gateway listens on loopback addresses only."""

    upstreams: dict[Name, UpstreamSettings] = Field(default={}, max_length=64)
    """What is behind it, by names of your choice. By default the stack alone."""

    models: dict[ModelName, RouteSettings] = Field(default={}, max_length=256)
    """Models as clients ask for them. By default those of the upstreams, by their names there."""

    classes: dict[Name, ClassSettings] = Field(default={}, max_length=64)
    """Classes of requests, beside `interactive`, `extraction` and `batch`, which can be
    redefined."""

    clients: dict[Name, ClientSettings] = Field(default={}, max_length=10_000)
    """Who may ask. Without any, a key is made, and kept in a file of the state directory."""

    budgets: BudgetStore | None = None
    """Where what clients have used is counted; by default in memory, for this run."""

    access_log: str | None = Field(default=None, min_length=1, max_length=1000)
    """File that gets a line of JSON for each request, relative to this file; `-` for standard
    output. No prompt, no answer and no key is in it. By default there is none."""

    requests: RequestLimits = RequestLimits()
    """Bounds on one request."""

    kv_use: float = Field(default=0.85, gt=0, le=1)
    """An upstream with more of its KV cache in use gets no new request."""

    retry_share: float = Field(default=0.2, ge=0, le=1)
    """What share of each client's requests may go to a second upstream."""

    @property
    def all_classes(self) -> dict[str, ClassSettings]:
        """The classes by name, with those that exist without being configured."""
        return {**BUILTIN_CLASSES, **self.classes}

    def behind(self, stacks: Iterable[str]) -> dict[str, UpstreamSettings]:
        """The upstreams by name; where none is written, the ``stacks`` that there are."""
        return self.upstreams or {name: UpstreamSettings(stack=name) for name in stacks}

    def routes(self, served: Mapping[str, str]) -> dict[str, tuple[tuple[str, ...], ...]]:
        """The names of upstreams by model, in pools; where no model is written, one pool for each
        name of a model that upstreams have.

        Args:
            served: the model's name there, by name of the upstream.
        """
        if self.models:
            return {model: route.pools for model, route in self.models.items()}
        names: dict[str, tuple[str, ...]] = {}
        for name, model in served.items():
            names[model] = (*names.get(model, ()), name)
        return {model: (pool,) for model, pool in names.items()}


def gateway_findings(gateway: GatewaySettings, key: str) -> Iterator[Finding]:
    """What cannot be honoured together; ``key`` is the section's, empty for a file of its own."""
    at = f"{key}." if key else ""
    yield from _address_findings(gateway, at)
    store = gateway.budgets
    if store is not None and store.password_file is not None and _in_clear(store.url):
        yield Finding(
            f"{at}budgets.url",
            f"its password would go over the network to {store.url} in clear",
            "Write rediss://, or a private address or name.",
        )
    for name, upstream in gateway.upstreams.items():
        yield from _upstream_findings(upstream, f"{at}upstreams.{name}")
    classes = gateway.all_classes
    for name, rules in gateway.classes.items():
        token = rules.first_token
        if token.slow > token.very_slow or token.very_slow > token.limit:
            yield Finding(
                f"{at}classes.{name}.first_token",
                f"slow ({token.slow:g} s), very_slow ({token.very_slow:g} s) and limit"
                f" ({token.limit:g} s) are not in this order",
                "Write no less for each than for the one before.",
            )
    chosen = {each.request_class for each in gateway.models.values()}
    chosen |= {each.request_class for each in gateway.clients.values()}
    for name, rules in classes.items():
        tokens, most = rules.sampling.max_tokens, gateway.requests.max_tokens
        if tokens is not None and tokens > most and name in {*gateway.classes, *chosen}:
            yield Finding(
                f"{at}classes.{name}.sampling.max_tokens",
                f"{tokens} is more than the {most} that a request may ask for",
                f"Write no more, or more for {at}requests.max_tokens.",
            )
    for name, route in gateway.models.items():
        place = f"{at}models.{name}"
        if route.request_class is not None and route.request_class not in classes:
            yield _unknown(f"{place}.request_class", route.request_class, classes)
        placed = [each for pool in route.pools for each in pool]
        for each in dict.fromkeys(placed):
            if each not in gateway.upstreams:
                yield _unknown(f"{place}.pools", each, gateway.upstreams)
            elif placed.count(each) > 1:
                yield Finding(f"{place}.pools", f"{each} stands there twice", "Write it once.")
        if not all(route.pools):
            yield Finding(f"{place}.pools", "a pool is empty", "Remove it.")
    digests: dict[str, str] = {}
    for name, client in gateway.clients.items():
        place = f"{at}clients.{name}"
        if client.request_class not in classes:
            yield _unknown(f"{place}.request_class", client.request_class, classes)
        if gateway.models:
            for each in client.models or ():
                if each not in gateway.models:
                    yield _unknown(f"{place}.models", each, gateway.models)
        if (other := digests.setdefault(client.key_sha256, name)) != name:
            yield Finding(
                f"{place}.key_sha256", f"{other} has the same key", "Make one for each of them."
            )
        if client.limits.usd_per_day is not None:
            yield from _price_findings(gateway, f"{place}.limits.usd_per_day", at)


def _address_findings(gateway: GatewaySettings, at: str) -> Iterator[Finding]:
    try:
        loopback = ipaddress.ip_address(gateway.host).is_loopback
    except ValueError:
        yield Finding(
            f"{at}host", f"{gateway.host!r} is no IP address", "Write one, such as 127.0.0.1."
        )
        return
    if not loopback and gateway.tls is None:
        yield Finding(
            f"{at}host",
            f"keys and prompts would go over the network to {gateway.host} in clear",
            "Write tls.certificate_file and tls.key_file; or tls: elsewhere, if something in front"
            " of the gateway ends TLS.",
        )


def _upstream_findings(upstream: UpstreamSettings, place: str) -> Iterator[Finding]:
    if (upstream.stack is None) == (upstream.url is None):
        both = "both are there" if upstream.url is not None else "neither is there"
        yield Finding(place, f"it is a stack or a url, and {both}", "Write one of them.")
    elif upstream.url is not None and upstream.model is None:
        yield Finding(f"{place}.model", "is missing", "Write the name of its model there.")
    elif upstream.stack is not None:
        for name in ("model", "key_file"):
            if getattr(upstream, name) is not None:
                yield Finding(f"{place}.{name}", "a stack has its own", "Remove it.")
        if upstream.priority_scheduling:
            yield Finding(f"{place}.priority_scheduling", "for a stack it is known", "Remove it.")
    if upstream.url is not None and upstream.key_file is not None and _in_clear(upstream.url):
        yield Finding(
            f"{place}.url",
            f"its key and all prompts would go over the network to {upstream.url} in clear",
            "Write https://, or a private address or name.",
        )
    prices = (upstream.usd_per_million_prompt, upstream.usd_per_million_generated)
    if (prices[0] is None) != (prices[1] is None):
        yield Finding(place, "it has one of its two prices", "Write both, or neither.")
    band = upstream.in_flight
    if band is not None and band.least > band.most:
        yield Finding(
            f"{place}.in_flight",
            f"least ({band.least}) is more than most ({band.most})",
            "Write no more than most.",
        )


def _in_clear(url: str) -> bool:
    """Whether what is sent to ``url`` goes without TLS to anything but a private host. Slices
    without a certificate are private."""
    parts = urlsplit(url)
    return parts.scheme not in ("https", "rediss") and not is_private(parts.hostname or "")


def is_private(host: str) -> bool:
    """Whether ``host`` is a private address, or a name that only a private network knows."""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith(_PRIVATE_NAMES)


def _price_findings(gateway: GatewaySettings, place: str, at: str) -> Iterator[Finding]:
    unpriced = [
        name for name, each in gateway.upstreams.items() if each.usd_per_million_generated is None
    ]
    if unpriced or not gateway.upstreams:
        name = unpriced[0] if unpriced else "NAME"
        yield Finding(
            place,
            "what a request costs is not known: an upstream has no price",
            f"Write usd_per_million_prompt and usd_per_million_generated to {at}upstreams.{name}.",
        )


def _unknown(place: str, name: str, known: Mapping[str, object]) -> Finding:
    remedy = f"Write one of these: {', '.join(known)}." if known else "Write it to upstreams."
    return Finding(place, f"there is no {name}", remedy)
