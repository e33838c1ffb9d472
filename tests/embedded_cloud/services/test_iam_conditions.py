"""Which resources a condition on their names lets a role hold for."""

from __future__ import annotations

import pytest

from embedded_cloud.services.iam.conditions import applies_to

_CACHE = "resource.name.startsWith('projects/_/buckets/b/objects/cache/')"
_OBJECT = "resource.type == 'storage.googleapis.com/Object'"
_BUCKET = "resource.type == 'storage.googleapis.com/Bucket'"


@pytest.mark.parametrize(
    ("expression", "name", "applies"),
    [
        (_CACHE, "projects/_/buckets/b/objects/cache/a", True),
        (_CACHE, "projects/_/buckets/b/objects/models/a", False),
        (f"!{_CACHE}", "projects/_/buckets/b/objects/cache/a", False),
        (f" ! {_CACHE} ", "projects/_/buckets/b/objects/models/a", True),
        (_CACHE.replace("'", '"'), "projects/_/buckets/b/objects/cache/a", True),
        (f"{_CACHE} || true", "projects/_/buckets/b/objects/cache/a", None),
        (f"!!{_CACHE}", "projects/_/buckets/b/objects/cache/a", None),
        (f"{_OBJECT} && {_CACHE}", "projects/_/buckets/b/objects/cache/a", True),
        (f"{_OBJECT} && {_CACHE}", "projects/_/buckets/b/objects/models/a", False),
        # What is listed is the bucket, whatever the prefix is.
        (f"{_OBJECT} && {_CACHE}", "projects/_/buckets/b", False),
        (f"{_CACHE} || {_BUCKET}", "projects/_/buckets/b", True),
        (f"{_CACHE} || {_BUCKET}", "projects/_/buckets/b/objects/models/a", False),
        (f"{_CACHE} && {_BUCKET} || {_OBJECT}", "projects/_/buckets/b/objects/x", True),
        ("resource.type != 'storage.googleapis.com/Bucket'", "projects/_/buckets/b", False),
        ("resource.name == 'projects/_/buckets/b'", "projects/_/buckets/b", True),
        ("resource.name.endsWith('/a')", "projects/_/buckets/b/objects/cache/a", True),
        (f"({_CACHE})", "projects/_/buckets/b/objects/cache/a", None),
        ("resource.name.startsWith('a && b')", "a && b", None),
        (f"{_CACHE} &&", "projects/_/buckets/b/objects/cache/a", None),
    ],
)
def test_names_and_types(expression: str, name: str, applies: bool | None) -> None:
    """A role holds for the names and types that a condition admits; nothing is said of a form that
    is not understood."""
    assert applies_to(expression, name) is applies
