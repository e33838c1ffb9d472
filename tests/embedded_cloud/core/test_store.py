"""The embedded cloud's memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedded_cloud.core.store import Store


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A store of either kind."""
    return Store(None if request.param == "memory" else tmp_path / "s" / "store.sqlite")


def test_what_is_put_is_got_as_a_fresh_object(store: Store) -> None:
    """A reader cannot change what is stored by changing what it got."""
    store.put("c/x", "k", {"a": [1, {"b": "é"}]})
    got = store.get("c/x", "k")
    assert got == {"a": [1, {"b": "é"}]}
    got["a"] = "changed"
    assert store.get("c/x", "k") == {"a": [1, {"b": "é"}]}


@pytest.mark.parametrize(
    ("prefix", "keys"),
    [
        ("", ["a/1", "a/2", "a%", "a_", "b", "é/1"]),
        ("a/", ["a/1", "a/2"]),
        # Signs that mean something to SQL's LIKE are ordinary.
        ("a%", ["a%"]),
        ("a_", ["a_"]),
        ("é", ["é/1"]),
        ("c", []),
    ],
)
def test_a_listing_is_in_key_order_and_by_literal_prefix(
    store: Store, prefix: str, keys: list[str]
) -> None:
    """Listing a prefix gives exactly the keys that start with it, in order."""
    for key in ("b", "a/2", "é/1", "a%", "a/1", "a_"):
        store.put("c/x", key, {})
    store.put("c/y", "a/9", {})
    assert sorted(key for key, _ in store.list("c/x", prefix)) == sorted(keys)
    assert [key for key, _ in store.list("c/x", prefix)] == sorted(keys)


def test_collections_lists_what_holds_something(store: Store) -> None:
    """An emptied collection is not listed; clear empties all."""
    store.put("b/x", "k", {})
    store.put("a/x", "k", {})
    store.delete("b/x", "k")
    assert store.collections() == ("a/x",)
    store.clear()
    assert store.collections() == ()


def test_numbers_are_counted_by_key(store: Store) -> None:
    """Each key begins at 1."""
    assert [store.next_number("_c/x", key) for key in ("a", "a", "b", "a")] == [1, 2, 1, 3]
