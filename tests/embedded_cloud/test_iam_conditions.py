"""Which resources a condition on their names lets a role hold for."""

from __future__ import annotations

import pytest

from embedded_cloud.iam.conditions import applies_to

_CACHE = "resource.name.startsWith('projects/_/buckets/b/objects/cache/')"


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
    ],
)
def test_a_name_and_its_negation(expression: str, name: str, applies: bool | None) -> None:
    """A role holds for names that begin so, or do not where that is negated; nothing is said of a
    form that is not understood."""
    assert applies_to(expression, name) is applies
