"""Key rings and keys, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.embedded_cloud.api import PROJECT, Api, error_of

RINGS = f"v1/projects/{PROJECT}/locations/us-east5/keyRings"
KEYS = f"{RINGS}/states/cryptoKeys"
KEY: dict[str, Any] = {"purpose": "ENCRYPT_DECRYPT"}


@pytest.fixture
def key(api: Api) -> Api:
    """The API of a project with one key."""
    api.call("POST", RINGS, body={}, keyRingId="states").raise_for_status()
    api.call("POST", KEYS, body=KEY, cryptoKeyId="k").raise_for_status()
    return api


def test_nothing_is_ever_deleted(key: Api) -> None:
    """A version is destroyed after thirty days; ring and key stay, and so do their names."""
    destroyed = key.call("POST", f"{KEYS}/k/cryptoKeyVersions/1:destroy", body={}).json()
    again = key.call("POST", f"{KEYS}/k/cryptoKeyVersions/1:destroy", body={})

    assert destroyed["state"] == "DESTROY_SCHEDULED"
    assert again.status_code == 400
    assert key.call("GET", f"{KEYS}/k").json()["primary"]["state"] == "DESTROY_SCHEDULED"
    assert key.call("POST", RINGS, body={}, keyRingId="states").status_code == 409
    assert key.call("POST", KEYS, body=KEY, cryptoKeyId="k").status_code == 409


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"purpose": "ASYMMETRIC_SIGN"}, "only ENCRYPT_DECRYPT"),
        ({**KEY, "rotationPeriod": "7776000s"}, "must both be set"),
        (
            {**KEY, "rotationPeriod": "60s", "nextRotationTime": "2030-01-01T00:00:00Z"},
            "at least 24 hours",
        ),
    ],
)
def test_what_a_key_may_not_be(key: Api, body: dict[str, Any], message: str) -> None:
    """Refused by name."""
    refused = key.call("POST", KEYS, body=body, cryptoKeyId="other")

    assert refused.status_code == 400
    assert message in error_of(refused)[2]
