"""Configuration of Bifrost: URLs as its providers, stacks through the gateway.

By transports/config.schema.json of maximhq/bifrost, read on 2026-11-29, and `ttft_timeout_ms` of
its release 2.3, which no public copy of the schema has yet.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from tpuflex.gateway.config import GatewayConfig
from tpuflex.gateway.render import Rendered, reached_at
from tpuflex.settings.gateway import (
    ClientSettings,
    GatewaySettings,
    TlsSettings,
    UpstreamSettings,
    is_private,
)

#: Bifrost's default cuts an answer after 30 seconds.
_REQUEST_S = 3600
#: The longest silence within a stream, as the gateway has it.
_SILENCE_S = 600
#: Bifrost's provider for what this gateway serves.
_GATEWAY = "tpuflex"


def bifrost_config(config: GatewayConfig) -> Rendered:
    """Bifrost's configuration: URLs as providers of its own, and stacks through this gateway, for
    their addresses change with every run.

    Args:
        config: the gateway's.

    Raises:
        SettingsError: the gateway's port is not known.
    """
    settings, upstreams = config.settings, config.upstreams
    urls = {name: each for name, each in upstreams.items() if each.url is not None}
    providers = {
        (provider := f"{_GATEWAY}-{name}"): _provider(provider, each) for name, each in urls.items()
    }
    if len(urls) < len(upstreams):
        itself = UpstreamSettings(url=f"{config.url(*reached_at(config))}/v1")
        providers[_GATEWAY] = _provider(_GATEWAY, itself)
    targets = {
        model: [
            list(dict.fromkeys(_target(upstreams[name], name, model) for name in pool))
            for pool in pools
        ]
        for model, pools in config.routes.items()
    }
    document: dict[str, object] = {
        "$schema": "https://www.getbifrost.ai/schema",
        "client": {
            "enforce_auth_on_inference": True,
            "disable_content_logging": True,
            "max_request_body_size_mb": -(-settings.requests.body_bytes // 2**20),
        },
        "providers": providers,
        "governance": {
            "routing_rules": [
                _routing_rule(model, pools, _first_token_s(settings, model))
                for model, pools in targets.items()
            ],
            "virtual_keys": [
                _virtual_key(name, client, targets) for name, client in settings.clients.items()
            ],
            "rate_limits": [
                limit
                for name, client in settings.clients.items()
                if (limit := _rate_limit(name, client)) is not None
            ],
            "budgets": [
                {
                    "id": f"{name}-day",
                    "max_limit": float(client.limits.usd_per_day),
                    "reset_duration": "1d",
                    "virtual_key_id": name,
                }
                for name, client in settings.clients.items()
                if client.limits.usd_per_day is not None
            ],
        },
        "config_store": {"enabled": False},
    }
    text = json.dumps(document, indent=2)
    return Rendered(document, text, tuple(_not_in_bifrost(config)), commented=False)


def _provider(name: str, upstream: UpstreamSettings) -> dict[str, object]:
    parts = urlsplit(upstream.url or "")
    custom: dict[str, object] = {"base_provider_type": "openai"}
    if (path := parts.path.rstrip("/")) != "/v1":
        custom["request_path_overrides"] = {
            f"{kind}{way}": f"{path}/{where}"
            for kind, where in (
                ("chat_completion", "chat/completions"),
                ("text_completion", "completions"),
            )
            for way in ("", "_stream")
        }
    provider: dict[str, object] = {
        "keys": [{"name": name, "value": f"env.{_key_of(name)}", "models": ["*"], "weight": 1}],
        "network_config": {
            "base_url": f"{parts.scheme}://{parts.netloc}",
            "default_request_timeout_in_seconds": _REQUEST_S,
            "stream_idle_timeout_in_seconds": _SILENCE_S,
            "max_retries": 0,
            "allow_private_network": is_private(parts.hostname or ""),
        },
        "custom_provider_config": custom,
    }
    if (band := upstream.in_flight) is not None:
        provider["concurrency_and_buffer_size"] = {
            "concurrency": band.most,
            "buffer_size": band.most,
        }
    return provider


def _target(upstream: UpstreamSettings, name: str, model: str) -> tuple[str, str]:
    """A provider, and the model there."""
    if upstream.url is None:
        return _GATEWAY, model
    return f"{_GATEWAY}-{name}", upstream.model or ""


def _routing_rule(
    model: str, pools: Sequence[Sequence[tuple[str, str]]], first_token_s: float
) -> dict[str, object]:
    first, *others = pools
    return {
        "id": model,
        "name": model,
        "cel_expression": f"model == {json.dumps(model)}",
        "targets": [
            {"provider": provider, "model": there, "weight": 1 / len(first)}
            for provider, there in first
        ],
        "fallbacks": [f"{provider}/{there}" for pool in others for provider, there in pool],
        "ttft_timeout_ms": round(first_token_s * 1000),
    }


def _first_token_s(settings: GatewaySettings, model: str) -> float:
    """Seconds after which a request for a model moves; of several classes the longest."""
    route = settings.models.get(model)
    if route is not None and route.request_class is not None:
        names = {route.request_class}
    else:
        names = {each.request_class for each in settings.clients.values()} or {"interactive"}
    return max(settings.all_classes[name].first_token.limit for name in names)


def _virtual_key(
    name: str,
    client: ClientSettings,
    targets: Mapping[str, Sequence[Sequence[tuple[str, str]]]],
) -> dict[str, object]:
    allowed: dict[str, list[str]] = {}
    for model, pools in targets.items():
        if client.models is None or model in client.models:
            for provider, there in (target for pool in pools for target in pool):
                if there not in allowed.setdefault(provider, []):
                    allowed[provider].append(there)
    key: dict[str, object] = {
        "id": name,
        "name": name,
        "value": f"env.{_key_of(f'client-{name}')}",
        "calendar_aligned": True,
        "provider_configs": [
            {"provider": provider, "allowed_models": models, "key_ids": ["*"]}
            for provider, models in allowed.items()
        ],
    }
    if _rate_limit(name, client) is not None:
        key["rate_limit_id"] = name
    return key


def _rate_limit(name: str, client: ClientSettings) -> dict[str, object] | None:
    """Bifrost's limits of a client: of each kind it has one, and the minute's is the one that
    keeps others from waiting."""
    limits, limit = client.limits, dict[str, object]()
    for kind, minute, day in (
        ("request", limits.requests_per_minute, limits.requests_per_day),
        ("token", limits.tokens_per_minute, limits.tokens_per_day),
    ):
        if minute is not None or day is not None:
            limit[f"{kind}_max_limit"] = day if minute is None else minute
            limit[f"{kind}_reset_duration"] = "1d" if minute is None else "1m"
    return {"id": name, **limit} if limit else None


def _not_in_bifrost(config: GatewayConfig) -> Iterator[str]:
    settings, upstreams = config.settings, config.upstreams
    stacks = [name for name, each in upstreams.items() if each.url is None]
    urls = [f"{_GATEWAY}-{name}" for name, each in upstreams.items() if each.url is not None]
    keys = [_key_of(name) for name in (*urls, *([_GATEWAY] if stacks else []))]
    yield f"Bifrost reads keys from its environment: set {', '.join(keys)}."
    if stacks:
        yield (
            f"{', '.join(stacks)}: asked through this gateway, which finds the slices; give it only"
            " these in its own pools, or what fails moves twice."
        )
        if isinstance(settings.tls, TlsSettings):
            yield "Where its certificate is your own, write ca_cert_pem to network_config."
    if clients := settings.clients:
        yield (
            "Of clients' keys only digests are known: give each a new one, in "
            + ", ".join(_key_of(f"client-{name}") for name in clients)
            + "."
        )
    else:
        yield "There are no clients, so Bifrost lets nobody in: write virtual_keys."
    for name, client in clients.items():
        limits = client.limits
        for kind in ("requests", "tokens"):
            if None not in (
                getattr(limits, f"{kind}_per_minute"),
                getattr(limits, f"{kind}_per_day"),
            ):
                yield f"clients.{name}.limits.{kind}_per_day: of {kind} it has one limit."
        if limits.usd_per_day is not None:
            yield f"clients.{name}.limits.usd_per_day: Bifrost counts by its own prices."
    if any(route.cache for route in settings.models.values()):
        yield "cache: Bifrost's is a plugin, semantic_cache."
    yield (
        "Waiting rooms, priorities, limits of first tokens but `limit`, sampling, limits in flight"
        " that move, and requests.n and max_tokens: it has none of these."
    )
    yield "Limits of a first token need Bifrost 2.3, which has ttft_timeout_ms."


def _key_of(name: str) -> str:
    """The variable that has a key."""
    return f"{name.upper().replace('-', '_')}_KEY"
