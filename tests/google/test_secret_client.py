"""Secret versions against the embedded cloud: added once, pinned, never replaced."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from tests.operate.marked_things import Api
from tpuflex.errors import ApiError, ConflictError, NotFoundError, SettingsError
from tpuflex.google.secrets import SecretClient, new_key
from tpuflex.google.timing import DEFAULT_BUDGET
from tpuflex.google.transport import JsonObject, Query

if TYPE_CHECKING:
    from tests.google.conftest import Clients

SECRET = "projects/my-project/secrets/key"


def test_key_is_generated_once(clients: Clients) -> None:
    """The first call makes the key, every other one finds it."""
    values = iter(("first", "second"))
    made = clients.secrets.ensure_version(SECRET, 1, lambda: next(values))
    again = clients.secrets.ensure_version(SECRET, 1, lambda: next(values))
    assert made == again
    assert made.number == 1
    assert clients.secrets.access(f"{SECRET}/versions/1") == "first"
    assert next(values) == "second"


def test_raising_the_version_adds_the_next(clients: Clients) -> None:
    """Rotation: version 2 comes beside version 1."""
    clients.secrets.ensure_version(SECRET, 1, lambda: "one")
    clients.secrets.ensure_version(SECRET, 2, lambda: "two")
    assert clients.secrets.access(f"{SECRET}/versions/1") == "one"
    assert clients.secrets.access(f"{SECRET}/versions/2") == "two"
    assert [version.number for version in clients.secrets.list_versions(SECRET)] == [1, 2]


def test_version_too_far_ahead_is_refused(clients: Clients) -> None:
    """A version cannot be added before the ones below it: the finding says what to write."""
    with pytest.raises(SettingsError) as caught:
        clients.secrets.ensure_version(SECRET, 3)
    assert "Write 1" in caught.value.findings[0].remedy
    assert clients.secrets.list_versions(SECRET) == ()


def test_disabled_version_is_not_used(clients: Clients) -> None:
    """A version that was disabled stays out of use; the hint says which number to take."""
    clients.secrets.ensure_version(SECRET, 1)
    clients.secretmanager.call("POST", f"/v1/{SECRET}/versions/1:disable", body={})
    with pytest.raises(ConflictError) as caught:
        clients.secrets.ensure_version(SECRET, 1)
    assert "DISABLED" in caught.value.message
    assert "2" in str(caught.value.hint)


@pytest.mark.parametrize("end", ["disable", "destroy"])
def test_a_version_that_is_of_no_use_says_what_to_do(clients: Clients, end: str) -> None:
    """`tpuflex ask` meets a destroyed key: which one, what it means, and the way on."""
    clients.secrets.ensure_version(SECRET, 1)
    clients.secretmanager.call("POST", f"/v1/{SECRET}/versions/1:{end}", body={})

    with pytest.raises(ConflictError, match="Version 1 of the secret key was disabled") as caught:
        clients.secrets.access(f"{SECRET}/versions/1")

    assert "http://" not in caught.value.message
    assert "tpuflex secrets ensure" in str(caught.value.hint)


def test_missing_secret_and_version_are_not_found(clients: Clients) -> None:
    """What is not there is told as such."""
    with pytest.raises(NotFoundError):
        clients.secrets.ensure_version("projects/my-project/secrets/other", 1)
    with pytest.raises(NotFoundError):
        clients.secrets.access(f"{SECRET}/versions/1")


def test_keys_are_long_random_and_fit_a_header() -> None:
    """Keys differ, have 256 bits, and need no quoting."""
    one, other = new_key(), new_key()
    assert one != other
    assert len(one) >= 43
    assert one.replace("-", "").replace("_", "").isalnum()


class _LostAnswer:
    """An API whose first addVersion takes effect although its answer is lost."""

    def __init__(self) -> None:
        self.versions: list[str] = []

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: JsonObject | None = None,
        budget: float = DEFAULT_BUDGET,
    ) -> JsonObject:
        del method, query, body
        if path.endswith(":addVersion"):
            assert budget == 0, "a second call would add a second version"
            self.versions.append(f"{SECRET}/versions/{len(self.versions) + 1}")
            raise ApiError("no answer", status=0)
        return {"versions": [{"name": name, "state": "ENABLED"} for name in self.versions]}


def test_lost_answer_adds_no_second_version() -> None:
    """When the answer is lost, the version that was added is found instead of added again."""
    api = _LostAnswer()
    assert SecretClient(api).ensure_version(SECRET, 1).number == 1
    assert len(api.versions) == 1


def test_damaged_value_is_refused() -> None:
    """A value that was damaged on its way is an error that does not show it."""
    payload = {"data": base64.b64encode(b"value").decode(), "dataCrc32c": "1"}
    api = Api({f"GET /v1/{SECRET}/versions/1:access": {"payload": payload}})
    with pytest.raises(ApiError, match="damaged") as caught:
        SecretClient(api).access(f"{SECRET}/versions/1")
    assert "value" not in str(caught.value).replace("damaged", "")
