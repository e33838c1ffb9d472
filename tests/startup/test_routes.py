"""Which questions READY asks without the key."""

from __future__ import annotations

import pytest

from tpuflex.startup.routes import KNOWN, OPEN, documented, questions

DOCUMENT = {
    "paths": {
        "/health": {"get": {}, "summary": "not a method"},
        "/v1/responses/{response_id}/cancel": {"post": {}},
        "/a/{b}/{c}": {"delete": {}, "patch": {}},
    }
}


def test_each_documented_operation_is_asked_with_its_parameters_filled_in() -> None:
    """Methods and paths come from the server's own list; what is no method is left out."""
    assert set(documented(DOCUMENT)) == {
        ("GET", "/health"),
        ("POST", "/v1/responses/1/cancel"),
        ("DELETE", "/a/1/1"),
        ("PATCH", "/a/1/1"),
    }


def test_known_routes_are_asked_though_no_list_names_them() -> None:
    """Routes that are in no document, and OPTIONS of all, are asked as well."""
    asked = set(questions(DOCUMENT))
    for method, paths in KNOWN.items():
        assert {(method, path) for path in paths.split()} <= asked
    assert {("OPTIONS", "/a/1/1"), ("OPTIONS", "/docs"), ("OPTIONS", "/health")} <= asked
    assert ("POST", "/health") in asked
    assert not asked & OPEN


@pytest.mark.parametrize("document", [{}, [], None, {"paths": None}, {"paths": {}}, "text"])
def test_document_without_paths_is_no_list(document: object) -> None:
    """A server that names no route has not been checked by asking none."""
    with pytest.raises(ValueError, match="lists no paths"):
        list(documented(document))
