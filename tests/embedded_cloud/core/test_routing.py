"""Which handler a path goes to."""

from __future__ import annotations

import re

import pytest

from embedded_cloud.core.routing import Call, Reply, Route, Router, Service
from embedded_cloud.server import EmbeddedCloud


def _answer(_call: Call) -> Reply:
    return Reply()


_NODE = "/v2/projects/p/locations/z/nodes"
_SERVICE = Service(
    "tpu",
    "v2",
    {
        f"tpu.projects.locations.nodes.{name}": _answer
        for name in ("get", "stop", "getGuestAttributes", "list")
    },
    extra_routes=(Route("GET", "/extra/{object}/acl", "tpu.projects.locations.get", _answer),),
)
_ROUTER = Router((_SERVICE,))


@pytest.mark.parametrize(
    ("method", "path", "method_id", "params"),
    [
        ("GET", f"{_NODE}/a", "nodes.get", {"node": "a"}),
        ("GET", f"{_NODE}/a%2Fb%3Ac", "nodes.get", {"node": "a/b:c"}),
        ("POST", f"{_NODE}/a:getGuestAttributes", "nodes.getGuestAttributes", {"node": "a"}),
        ("POST", f"{_NODE}/a:stop", "nodes.stop", {"node": "a"}),
        ("GET", _NODE, "nodes.list", {}),
    ],
)
def test_paths_come_from_the_discovery_document(
    method: str, path: str, method_id: str, params: dict[str, str]
) -> None:
    """Verbs and sub-resources are not taken for ids; ids are decoded after matching."""
    match = _ROUTER.find(method, path)
    assert match is not None
    assert match.route.method_id == f"tpu.projects.locations.{method_id}"
    assert match.params == {"project": "p", "location": "z", **params}


def test_a_path_that_no_document_has_is_routed_too() -> None:
    """Paths of upload sessions, for example."""
    match = _ROUTER.find("GET", "/extra/x%2Fy/acl")
    assert match is not None
    assert match.params == {"object": "x/y"}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", f"{_NODE}/a"),
        ("GET", f"{_NODE}/a:stop"),
        ("GET", f"{_NODE}/"),
        ("GET", f"{_NODE}/a/b"),
        ("GET", f"{_NODE.upper()}/a"),
    ],
)
def test_nothing_else_matches(method: str, path: str) -> None:
    """An unknown verb is not taken for part of an id."""
    assert _ROUTER.find(method, path) is None


def test_a_method_without_handler_is_named() -> None:
    """A method that the service does not have is found by its path."""
    assert _ROUTER.find("POST", f"{_NODE}/a:start") is None
    assert _ROUTER.method_id("POST", f"{_NODE}/a:start") == "tpu.projects.locations.nodes.start"
    assert _ROUTER.method_id("GET", "/v9/nothing") == ""


def test_every_handler_is_found_by_the_path_of_its_method(cloud: EmbeddedCloud) -> None:
    """Across all services: no path of one is taken for another's, no method id is misspelt."""
    services = cloud.cloud.services
    router = Router(services)
    for service in services:
        for route in service.routes():
            match = router.find(route.method, re.sub(r"[{}]", "", route.path))
            assert match is not None
            assert (match.service, match.route) == (service, route)
