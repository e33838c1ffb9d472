"""P1, S11: the server fetches no media but from the hosts that the stack file names."""

from __future__ import annotations

import pytest

from tests.unit.stack_sections import sections
from tpuflex.boot.config import boot_config
from tpuflex.errors import Finding, SettingsError
from tpuflex.naming import Names
from tpuflex.settings.load import parse
from tpuflex.settings.rules import check

#: What it takes on Google for a server to reach anything.
REACHES = {"network.egress": "internet"}
ALL_REMEDIES = ["isolation: none", "egress: internet"]


def arguments(changes: dict[str, object] | None = None) -> list[str]:
    """The server's arguments for a stack."""
    config = boot_config(parse(sections(changes), "test"), Names("p", "s", "e"), "0" * 64)
    return list(config.serving.args)


def problems(content: dict[str, object]) -> tuple[Finding, ...]:
    """What the settings refuse in a stack file."""
    try:
        return check(parse(content, "test"))
    except SettingsError as error:
        return error.findings


def findings(domains: object) -> tuple[Finding, ...]:
    """What the settings refuse in these domains."""
    return problems(sections({"serving.media_domains": domains, **REACHES}))


def test_no_domain_is_allowed_by_default() -> None:
    """S11: without a setting the one domain allowed is nobody's, so URLs other than data: fail."""
    given = arguments()
    assert given[given.index("--allowed-media-domains") + 1 :] == ["none.invalid"]


def test_named_domains_are_allowed() -> None:
    """The domains of the stack file reach the server, and only they."""
    domains = ["a.example.com", "upload.wikimedia.org"]
    given = arguments({"serving.media_domains": domains, **REACHES})
    assert given[given.index("--allowed-media-domains") + 1 :] == domains


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


@pytest.mark.parametrize(
    ("changes", "remedies"),
    [
        ({}, ["egress: internet"]),
        ({"serving.isolation": "none"}, ["egress: internet"]),
        ({"network.egress": "internet"}, []),
        ({"serving.media_domains": ["storage.googleapis.com"]}, ["egress: internet"]),
        (REACHES, []),
        (
            {"serving.media_domains": ["storage.googleapis.com"], "serving.isolation": "none"},
            [],
        ),
    ],
)
def test_domain_that_cannot_be_reached_is_refused(
    changes: dict[str, object], remedies: list[str]
) -> None:
    """A domain that the network or the isolation keeps from the server is not silently ignored."""
    found = problems(sections({"serving.media_domains": ["a.example.com"], **changes}))
    assert [item.key for item in found] == ["tpuflex:serving.media_domains"][: len(remedies)]
    assert [text for text in ALL_REMEDIES if any(text in item.remedy for item in found)] == remedies


@pytest.mark.parametrize("value", ["example.com", {"a": "b"}, [1]])
def test_wrong_type_is_refused(value: object) -> None:
    """A single name, or something else than names, is refused as such."""
    assert findings(value)[0].key.startswith("tpuflex:serving.media_domains")
