"""P1: keys of clients and collectors, from the command line to the host's configuration."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import pytest

from tests.unit.stack_sections import sections
from tpuflex.boot.config import boot_config
from tpuflex.cli.secrets.command import read_value
from tpuflex.deploy.secret_versions import ensure_versions
from tpuflex.deploy.secrets import require_value
from tpuflex.errors import UsageError
from tpuflex.google.secrets import SecretVersion
from tpuflex.naming import API_KEY, METRICS_KEY, Names, SecretRole
from tpuflex.operate.endpoint_connection import api_key
from tpuflex.settings.load import parse
from tpuflex.stack.connection import Connection

NAMES = Names("p", "s", "e")


@dataclass
class Secrets:
    """Secret Manager with one value for everything."""

    value: str = "key"
    made: list[str] = field(default_factory=list)

    def access(self, _version: str) -> str:
        return self.value

    def list_versions(self, _secret: str) -> tuple[SecretVersion, ...]:
        return ()

    def ensure_version(self, secret: str, number: int) -> SecretVersion:
        self.made.append(secret)
        return SecretVersion(secret, number, "ENABLED")


def cloud(secrets: Secrets, **pinned: int) -> Connection:
    """A cloud that is its secrets only."""
    settings = parse(sections({"secrets": pinned}), "test")
    stack = SimpleNamespace(settings=settings, names=NAMES, name="s")
    double = SimpleNamespace(
        stack=stack,
        secrets=secrets,
        secret=NAMES.secret,
        secret_version=lambda role: settings.secret_version(NAMES, role),
    )
    return cast("Connection", double)


def test_metrics_key_is_made_on_demand() -> None:
    """A collector's key is made when the stack file pins a version of it, and not before."""
    without, with_ = Secrets(), Secrets()
    ensure_versions(cloud(without), lambda _line: None)
    ensure_versions(cloud(with_, metrics_key_version=1), lambda _line: None)
    assert NAMES.secret(METRICS_KEY) not in without.made
    assert {*with_.made} - {*without.made} == {NAMES.secret(METRICS_KEY)}


def test_host_is_told_of_the_metrics_key() -> None:
    """The pinned version of the metrics key reaches the host's configuration, by its role."""
    settings = parse(sections({"secrets": {"metrics_key_version": 2}}), "test")
    secrets = boot_config(settings, NAMES, "0" * 64).secrets
    assert [secret.role for secret in secrets] == [API_KEY, METRICS_KEY]
    assert secrets[1].version.endswith(f"/secrets/{NAMES.secret(METRICS_KEY)}/versions/2")


@pytest.mark.parametrize("value", ["first", "first\nsecond", " first \r\nsecond\n", "\nfirst\n"])
def test_tpuflex_asks_with_the_first_key(value: str) -> None:
    """Where clients have a key each, tpuflex uses the first one."""
    assert api_key(cloud(Secrets(value))) == "first"


@pytest.mark.parametrize(
    ("role", "typed", "value"),
    [
        (API_KEY, "one\n", "one"),
        (API_KEY, "one\ntwo\n", "one\ntwo"),
        (METRICS_KEY, "one\ntwo", "one\ntwo"),
        (API_KEY, "", None),
        (API_KEY, "\n", None),
        (API_KEY, "one\n\ntwo\n", None),
        (API_KEY, "with space\n", None),
        (API_KEY, "one\r\n", None),
        (API_KEY, "ключ\n", None),
        (API_KEY, "\x1b[31mred\n", None),
    ],
)
def test_only_keys_are_accepted(
    monkeypatch: pytest.MonkeyPatch, role: SecretRole, typed: str, value: str | None
) -> None:
    """A value that the host would refuse is refused before it is stored."""
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    if value is None:
        with pytest.raises(UsageError):
            require_value(role, read_value(role), datetime.now(UTC))
    else:
        assert read_value(role) == value
