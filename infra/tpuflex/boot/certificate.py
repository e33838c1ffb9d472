"""The certificate with which a server speaks TLS, as one PEM text with its key."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from tpuflex.errors import Finding, SettingsError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate as Certificate509

_HINT = (
    "It must hold, in PEM: the server's certificate, those that sign it if there are any, and the"
    " certificate's private key without a passphrase."
)


@dataclass(frozen=True, slots=True)
class Certificate:
    """What is public of a server's certificate.

    Attributes:
        fingerprint: its SHA-256, in hex.
        expires: when it expires.
        names: the names and addresses that it is for.
    """

    fingerprint: str
    expires: datetime
    names: tuple[str, ...]


def read_certificate(pem: str, now: datetime) -> Certificate:
    """The server's certificate in ``pem``, which also holds its key.

    Raises:
        SettingsError: a server could not use it: it cannot be read, the key is another one's, or it
            is not valid at ``now``.
    """
    # Every command would wait for the library, and few stacks have a certificate.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PublicFormat,
        load_pem_private_key,
    )

    text = pem.encode()
    try:
        leaf = x509.load_pem_x509_certificates(text)[0]
    except (ValueError, IndexError) as error:
        raise _refusal("holds no certificate that can be read") from error
    if pem.count("PRIVATE KEY-----") != 2:
        raise _refusal("does not hold exactly one private key")
    start = pem.rindex("-----BEGIN ", 0, pem.index("PRIVATE KEY-----"))
    try:
        key = load_pem_private_key(pem[start:].encode(), password=None)
    except (ValueError, TypeError):
        # Not the library's words: they could quote the key.
        raise _refusal("holds a private key that cannot be read, or has a passphrase") from None
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if key.public_key().public_bytes(*form) != leaf.public_key().public_bytes(*form):
        raise _refusal("holds a private key that is not that of its first certificate")
    if not leaf.not_valid_before_utc <= now < leaf.not_valid_after_utc:
        raise _refusal(
            f"is valid from {leaf.not_valid_before_utc:%Y-%m-%d %H:%M} to"
            f" {leaf.not_valid_after_utc:%Y-%m-%d %H:%M} UTC, not now"
        )
    return Certificate(
        leaf.fingerprint(hashes.SHA256()).hex(), leaf.not_valid_after_utc, _names(leaf)
    )


def _names(leaf: Certificate509) -> tuple[str, ...]:
    """The names and addresses that ``leaf`` is for."""
    from cryptography import x509

    try:
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return ()
    return tuple(str(name.value) for name in found)


def _refusal(problem: str) -> SettingsError:
    return SettingsError("the TLS certificate", (Finding("tls-certificate", problem, _HINT),))
