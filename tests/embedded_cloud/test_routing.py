"""Which handler a path goes to."""

from __future__ import annotations

import pytest

from embedded_cloud.routing import Call, Reply, Route, Router, Service


def _answer(_call: Call) -> Reply:
    return Reply()


_ROUTES = (
    Route("GET", "/v1/things/{id}", "get", _answer),
    Route("POST", "/v1/things/{id}:stop", "stop", _answer),
    Route("GET", "/v1/things/{id}:info", "info", _answer),
    Route("GET", "/b/{bucket}/o/{object+}", "object", _answer),
    Route("GET", "/b/{bucket}/o/{object+}/acl", "acl", _answer),
)
_ROUTER = Router((Service("s", "v1", _ROUTES, ("tpu", "v2")),))


@pytest.mark.parametrize(
    ("method", "path", "method_id", "params"),
    [
        ("GET", "/v1/things/a", "get", {"id": "a"}),
        ("GET", "/v1/things/a%2Fb%3Ac", "get", {"id": "a/b:c"}),
        ("GET", "/v1/things/a:info", "info", {"id": "a"}),
        ("POST", "/v1/things/a:stop", "stop", {"id": "a"}),
        ("GET", "/b/k/o/x%2Fy", "object", {"bucket": "k", "object": "x/y"}),
        ("GET", "/b/k/o/x/y", "object", {"bucket": "k", "object": "x/y"}),
        ("GET", "/b/k/o/x%2Fy/acl", "acl", {"bucket": "k", "object": "x/y"}),
    ],
)
def test_the_most_literal_pattern_wins(
    method: str, path: str, method_id: str, params: dict[str, str]
) -> None:
    """Verbs and sub-resources are told from ids; ids are decoded after matching."""
    match = _ROUTER.find(method, path)
    assert match is not None
    assert (match.route.method_id, match.params) == (method_id, params)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/v1/things/a"),
        ("GET", "/v1/things/a:stop"),
        ("GET", "/v1/things/"),
        ("GET", "/v1/things/a/b"),
        ("GET", "/V1/things/a"),
    ],
)
def test_nothing_else_matches(method: str, path: str) -> None:
    """An unknown verb is not taken for part of an id."""
    assert _ROUTER.find(method, path) is None
