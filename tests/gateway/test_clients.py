"""Who may ask."""

from __future__ import annotations

import pytest
import yaml

from tpuflex.errors import UsageError
from tpuflex.gateway.clients import Clients, new_key
from tpuflex.settings.gateway import ClientLimits, ClientSettings, GatewaySettings


def test_a_client_is_found_by_its_key_of_which_only_the_digest_is_known() -> None:
    mine, other = new_key("mine"), new_key("other")
    limits = ClientLimits(requests_per_minute=3)
    clients = Clients(
        {
            "mine": ClientSettings(key_sha256=mine.digest, models=("m", "n"), limits=limits),
            "other": ClientSettings(key_sha256=other.digest, request_class="batch"),
        }
    )

    found = clients.find(mine.key.encode())
    assert found is not None
    assert (found.name, found.models, found.limits) == ("mine", frozenset({"m", "n"}), limits)
    found = clients.find(other.key.encode())
    assert found is not None
    assert (found.name, found.request_class, found.models) == ("other", "batch", None)


@pytest.mark.parametrize("key", [b"", b"tpuflex-", b"\xff\xfe", b"x" * 512])
def test_a_key_that_is_nobodys_finds_nobody(key: bytes) -> None:
    known = new_key("mine")
    clients = Clients({"mine": ClientSettings(key_sha256=known.digest)})

    assert clients.find(key) is None
    assert clients.find(known.digest.encode()) is None
    assert clients.find(known.key.encode() + b" ") is None
    assert Clients({}).find(key) is None


def test_each_new_key_is_another() -> None:
    keys = {new_key("mine").key for _ in range(100)}

    assert len(keys) == 100
    assert all(len(key) > 50 and key.startswith("tpuflex-") for key in keys)


@pytest.mark.parametrize("name", ["team-a", "007", "on", "null", "1e5"])
def test_a_new_key_s_lines_are_a_configuration(name: str) -> None:
    made = new_key(name)

    read = GatewaySettings.model_validate(yaml.safe_load(made.configuration))

    found = Clients(read.clients).find(made.key.encode())
    assert found is not None
    assert found.name == name
    assert made.key not in made.configuration


@pytest.mark.parametrize("name", ["", "Team", "a b", "-a", "a" * 41, "a\n"])
def test_a_name_that_no_client_can_have_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="lower-case"):
        new_key(name)
