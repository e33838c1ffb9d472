"""The oldest vLLM that may serve, and which known holes say so."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from tpuflex.catalog.rows import Source
from tpuflex.startup.served import release


@dataclass(frozen=True, slots=True)
class Advisory:
    """A hole that is closed in every version that may serve.

    Attributes:
        name: its CVE number.
        what: what it allows.
        fixed_in: the first version without it.
        source: where that is said.
    """

    name: str
    what: str
    fixed_in: str
    source: Source


def _advisory(name: str, what: str, fixed_in: str) -> Advisory:
    source = Source(where=f"https://nvd.nist.gov/vuln/detail/{name}", date=date(2026, 11, 22))
    return Advisory(name, what, fixed_in, source)


#: Those that reach a server of ours from a request or from its weights, oldest first. Newer ones
#: that only let a client with a key stop the server are in docs/security.md: no image for TPU
#: without them is known, so as a floor they would keep every server from starting.
ADVISORIES: tuple[Advisory, ...] = (
    _advisory("CVE-2025-59425", "the API key can be guessed by timing", "0.11.0"),
    _advisory("CVE-2025-62164", "a request's embeddings are unpickled", "0.11.1"),
    _advisory("CVE-2026-22773", "a picture of one pixel ends the server", "0.12.0"),
    _advisory("CVE-2026-22807", "a model's code runs without trust_remote_code", "0.14.0"),
    _advisory("CVE-2026-22778", "a broken picture runs code, without a key", "0.14.1"),
    _advisory("CVE-2026-24779", "media come from a domain that is not allowed", "0.14.1"),
    _advisory("CVE-2026-27893", "a model's code runs without trust_remote_code", "0.18.0"),
    _advisory("CVE-2026-48746", "requests pass without the API key", "0.22.0"),
    _advisory("CVE-2026-53923", "a GGUF file reads other requests' memory", "0.23.1"),
)

#: An image that serves with an older one is stopped by its host before it is READY. A user's row
#: of the catalog can raise the floor of its image, and not lower it (settings/catalog_rows.py).
SECURITY_FLOOR = max((row.fixed_in for row in ADVISORIES), key=release)
