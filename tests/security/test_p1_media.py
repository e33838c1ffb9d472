"""P1, S11: the server fetches no media but from the hosts that the stack file names."""

from __future__ import annotations

import pytest

from tests.unit.stack_sections import sections
from tpuflex.boot.config import boot_config
from tpuflex.errors import Finding, SettingsError
from tpuflex.naming import Names
from tpuflex.settings.load import parse
from tpuflex.settings.rules import check


def arguments(changes: dict[str, object] | None = None) -> list[str]:
    """The server's arguments for a stack."""
    config = boot_config(parse(sections(changes), "test"), Names("p", "s", "e"), "0" * 64)
    return list(config.serving.args)


def findings(domains: object) -> tuple[Finding, ...]:
    """What the settings refuse in these domains."""
    try:
        return check(parse(sections({"serving.media_domains": domains}), "test"))
    except SettingsError as error:
        return error.findings


def test_no_domain_is_allowed_by_default() -> None:
    """S11: without a setting the one domain allowed is nobody's, so URLs other than data: fail."""
    given = arguments()
    assert given[given.index("--allowed-media-domains") + 1 :] == ["none.invalid"]


def test_named_domains_are_allowed() -> None:
    """The domains of the stack file reach the server, and only they."""
    given = arguments({"serving.media_domains": ["a.example.com", "upload.wikimedia.org"]})
    assert given[given.index("--allowed-media-domains") + 1 :] == [
        *("a.example.com", "upload.wikimedia.org")
    ]


@pytest.mark.parametrize(
    "domain",
    [
        *("", "localhost", "host", "127.0.0.1", "169.254.169.254", "[::1]", "0x7f.1", "2130706433"),
        *(
            "metadata.google.internal",
            "a.internal",
            "a.local",
            "b.localhost",
            "1.0.0.127.in-addr.arpa",
        ),
        *(
            "*.example.com",
            "example.com:80",
            "https://example.com",
            "example.com/x",
            "example.com.",
        ),
        *("Example.com", "exämple.com", "-a.example.com", "a..example.com", "--api-key", "a b.com"),
        *("a.home", "a.lan", "x.corp", "none.invalid", "a" * 64 + ".com", "a." * 127 + "com"),
    ],
)
def test_no_private_name_or_address_is_accepted(domain: str) -> None:
    """S11: addresses, names of private networks, and what is no host name are refused."""
    (finding,) = findings([domain])
    assert finding.key == "tpuflex:serving.media_domains[0]"
    assert "upload.wikimedia.org" in finding.remedy


@pytest.mark.parametrize("value", ["example.com", {"a": "b"}, [1]])
def test_wrong_type_is_refused(value: object) -> None:
    """A single name, or something else than names, is refused as such."""
    assert findings(value)[0].key.startswith("tpuflex:serving.media_domains")
