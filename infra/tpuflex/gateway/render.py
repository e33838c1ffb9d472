"""Configuration of Envoy as TLS edge of a gateway, and the endpoints of llm-d's router.

Each is a function of the gateway's configuration, and says what of that it cannot express. By the
schemas of Envoy 1.40.0 and of llm-d-router 0.10's plugin `file-discovery`, read on 2026-11-29.
"""

from __future__ import annotations

import ipaddress
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

import yaml

from tpuflex.errors import Finding, NotFoundError, SettingsError
from tpuflex.gateway.config import GatewayConfig, local_address, served_models
from tpuflex.gateway.discovery import StackDiscovery
from tpuflex.settings.gateway import TlsSettings
from tpuflex.settings.stack_yaml import join
from tpuflex.stack.connection import Connection
from tpuflex.stack.progress import Report
from tpuflex.stack.stack import Stack

_ENVOY = "type.googleapis.com/envoy.extensions"
#: Bytes that Envoy holds of a connection before it stops reading the other side of it.
_EDGE_BUFFER = 32 * 1024
#: Seconds without a request after which Envoy closes a connection to the gateway, which itself
#: does so after 75: else a request could meet a connection that is just being closed.
_EDGE_IDLE_S = 60
#: Enough never to be the limit: the gateway has its own, and says when to try again.
_EDGE_REQUESTS = 100_000


@dataclass(frozen=True, slots=True)
class Rendered:
    """Configuration of another program.

    Attributes:
        document: it, as a value.
        text: it, as a file.
        omitted: what of the gateway's configuration it cannot express, and what has to be known:
            a sentence each. Where the file's language has comments, ``text`` begins with them.
        commented: whether it has.
    """

    document: Mapping[str, object]
    text: str
    omitted: tuple[str, ...]
    commented: bool

    def to_json(self) -> dict[str, object]:
        """The document of `gateway render --json`."""
        return {"configuration": self.document, "omitted": list(self.omitted)}


def envoy_edge(
    config: GatewayConfig, *, certificate: str, key: str, host: str, port: int
) -> Rendered:
    """Envoy's configuration as what ends TLS in front of the gateway, and decides nothing.

    Args:
        config: the gateway's.
        certificate: file of the certificate on Envoy's machine.
        key: file of its key there.
        host: address that Envoy listens on.
        port: its port.

    Raises:
        SettingsError: the gateway ends TLS itself, or its port is not known.
    """
    if isinstance(config.settings.tls, TlsSettings):
        remedy = "Write tls: elsewhere, or no tls where it listens on loopback."
        raise SettingsError(
            config.source,
            (Finding(join(config.key, "tls"), "the gateway ends TLS itself", remedy),),
        )
    upstream_host, upstream_port = reached_at(config)
    routes = [
        {"match": {"prefix": "/v1/"}, "route": _to_gateway()},
        {"match": {"path": "/health"}, "route": _to_gateway()},
    ]
    manager = {
        "@type": f"{_ENVOY}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "edge",
        "use_remote_address": True,
        "preserve_external_request_id": True,
        "always_set_request_id_in_response": True,
        # The gateway compares paths as they were sent.
        "normalize_path": False,
        "path_with_escaped_slashes_action": "REJECT_REQUEST",
        "request_headers_timeout": "10s",
        # An answer may take its time: the gateway ends what is silent for too long.
        "stream_idle_timeout": "0s",
        "request_timeout": "0s",
        "common_http_protocol_options": {
            "idle_timeout": "75s",
            "headers_with_underscores_action": "REJECT_REQUEST",
        },
        "http2_protocol_options": {
            "max_concurrent_streams": 128,
            "initial_stream_window_size": 65_536,
            "initial_connection_window_size": 1_048_576,
        },
        "http_filters": [
            {
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": f"{_ENVOY}.filters.http.router.v3.Router"},
            }
        ],
        "route_config": {
            "name": "gateway",
            "virtual_hosts": [{"name": "gateway", "domains": ["*"], "routes": routes}],
        },
    }
    tls = {
        "@type": f"{_ENVOY}.transport_sockets.tls.v3.DownstreamTlsContext",
        "common_tls_context": {
            "alpn_protocols": ["h2", "http/1.1"],
            "tls_params": {"tls_minimum_protocol_version": "TLSv1_2"},
            "tls_certificates": [
                {
                    "certificate_chain": {"filename": certificate},
                    "private_key": {"filename": key},
                }
            ],
        },
    }
    listener = {
        "name": "edge",
        "address": _socket(host, port),
        "per_connection_buffer_limit_bytes": _EDGE_BUFFER,
        "filter_chains": [
            {
                "transport_socket": {
                    "name": "envoy.transport_sockets.tls",
                    "typed_config": tls,
                },
                "filters": [
                    {
                        "name": "envoy.filters.network.http_connection_manager",
                        "typed_config": manager,
                    }
                ],
            }
        ],
    }
    most = dict.fromkeys(
        ("max_connections", "max_pending_requests", "max_requests"), _EDGE_REQUESTS
    )
    cluster = {
        "name": "gateway",
        "type": "STATIC",
        "connect_timeout": "5s",
        "per_connection_buffer_limit_bytes": _EDGE_BUFFER,
        "circuit_breakers": {"thresholds": [most]},
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": f"{_ENVOY}.upstreams.http.v3.HttpProtocolOptions",
                "common_http_protocol_options": {"idle_timeout": f"{_EDGE_IDLE_S}s"},
                "explicit_http_config": {"http_protocol_options": {}},
            }
        },
        "load_assignment": {
            "cluster_name": "gateway",
            "endpoints": [
                {"lb_endpoints": [{"endpoint": {"address": _socket(upstream_host, upstream_port)}}]}
            ],
        },
    }
    document = {"static_resources": {"listeners": [listener], "clusters": [cluster]}}
    omitted = [
        "/metrics and /tpuflex/gateway are not let through: ask the gateway itself.",
        "It retries nothing and cuts no answer: that is the gateway's.",
    ]
    if not ipaddress.ip_address(upstream_host).is_loopback:
        omitted.append(
            f"Between Envoy and {upstream_host} keys and prompts are in clear: that network has to"
            " be one that nobody else is in."
        )
    return _yaml(document, "Envoy 1.40 as TLS edge of a gateway: envoy -c FILE", "envoy", omitted)


def _to_gateway() -> dict[str, object]:
    """A route without retries; at 0 s none cuts a stream."""
    return {"cluster": "gateway", "timeout": "0s", "idle_timeout": "0s"}


def _socket(host: str, port: int) -> dict[str, object]:
    return {"socket_address": {"address": host, "port_value": port}}


@dataclass(frozen=True, slots=True)
class ServingAddress:
    """Where an upstream serves now.

    Attributes:
        name: of the upstream, and of a slice that of its node, too.
        upstream: of the upstream.
        url: its base URL.
    """

    name: str
    upstream: str
    url: str


def serving_addresses(
    config: GatewayConfig, connect: Callable[[Stack], Connection], report: Report
) -> tuple[ServingAddress, ...]:
    """Where the gateway's upstreams serve now, at their own addresses: those of stacks as `status`
    finds them, less those that drain.

    Args:
        config: the gateway's.
        connect: connects to the cloud of a stack.
        report: receives for which stacks there may be more.

    Raises:
        TpuflexError: a cloud cannot be asked.
    """
    found = list[ServingAddress]()
    for name, upstream in config.upstreams.items():
        if upstream.stack is None:
            found.append(ServingAddress(name, name, upstream.url or ""))
            continue
        stack = config.stacks[upstream.stack]
        look = StackDiscovery(stack, connect, reopen=lambda stack: stack).look()
        if look.unsure or not look.whole:
            report(f"{name}: of some slices it is not known whether they serve; they are left out.")
        found += (
            ServingAddress(f"{name}-{each.node}", name, stack.settings.url(each.status.address))
            for each in look.slices.values()
            if each.ready and not each.draining
        )
    return tuple(found)


def llm_d_endpoints(
    config: GatewayConfig, serving: Sequence[ServingAddress], model: str | None = None
) -> Rendered:
    """The file of endpoints that llm-d's router finds servers by: those of one model.

    Args:
        config: the gateway's.
        serving: where its upstreams serve now.
        model: the model as clients call it; needed where there are several.

    Raises:
        NotFoundError: there is no such model, or several of which none is named.
    """
    routes = config.routes
    if model is None and len(routes) == 1:
        (model,) = routes
    if model is None or model not in routes:
        wrong = "Which model is not said" if model is None else f"There is no model {model}"
        raise NotFoundError(
            f"{wrong}: a router of llm-d's serves one.",
            hint=f"Name one with --model: {', '.join(routes)}",
        )
    first, *others = routes[model]
    entries, omitted = list[dict[str, object]](), list[str]()
    for each in serving:
        if each.upstream not in first:
            continue
        parts = urlsplit(each.url)
        if (why := _not_for_llm_d(parts)) is not None:
            omitted.append(f"{each.name} is left out: {why}.")
            continue
        entries.append(
            {
                "name": each.name.replace("_", "-"),
                "address": parts.hostname,
                "port": str(parts.port or 80),
                "labels": {"tpuflex-upstream": each.upstream},
            }
        )
    left_out = ", ".join(name for pool in others for name in pool)
    if left_out:
        omitted.append(f"It knows no second pool: {left_out} left out.")
    served = served_models(config.upstreams, config.stacks)
    names = {served[name] for name in first}
    if names != {model}:
        either = " or ".join(sorted(names))
        omitted.append(f"It gives models no other names: clients ask for {either}.")
    omitted += (
        "It has no keys: clients send the server's own, which is one for all slices of a stack.",
        "Classes, limits of clients, prices and the end of runs stay with the gateway.",
        "It says what serves now: write it again, by a rename, when a slice comes or goes.",
    )
    title = f"Endpoints of {model} for llm-d's router, plugin file-discovery with watchFile: true"
    return _yaml({"endpoints": entries}, title, "llm-d", omitted)


def _not_for_llm_d(url: SplitResult) -> str | None:
    """Why its file discovery cannot have a server."""
    try:
        ipaddress.IPv4Address(url.hostname or "")
    except ValueError:
        return f"{url.hostname} is no IPv4 address"
    if url.scheme != "http":
        return "it talks TLS"
    return None if url.path == "/v1" else f"its API is at {url.path or '/'}, not at /v1"


def reached_at(config: GatewayConfig) -> tuple[str, int]:
    """Address and port at which something on the gateway's machine reaches it.

    Raises:
        SettingsError: it listens at any free port.
    """
    settings = config.settings
    if settings.port == 0:
        raise SettingsError(
            config.source,
            (Finding(join(config.key, "port"), "is any free one", "Write one, such as 8080."),),
        )
    return local_address(settings.host), settings.port


def _yaml(
    document: Mapping[str, object], title: str, target: str, omitted: Sequence[str]
) -> Rendered:
    head = [f"{title}.", f"Written by `tpuflex gateway render {target}`.", *omitted]
    comment = textwrap.TextWrapper(
        100, initial_indent="# ", subsequent_indent="#   ", break_long_words=False
    )
    lines = (comment.fill(each) for each in head)
    body = yaml.safe_dump(document, sort_keys=False, width=100)
    return Rendered(document, "\n".join((*lines, body.rstrip())), tuple(omitted), commented=True)
