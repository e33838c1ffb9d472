"""Certificates for tests, signed by themselves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID


def certificate(days: int = 30, passphrase: bytes = b"") -> tuple[str, str]:
    """A certificate and its key, in PEM; it expires in ``days``, or has if they are negative."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "llm.example.com")])
    end = datetime.now(UTC) + timedelta(days=days)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(end - timedelta(days=365))
        .not_valid_after(end)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("llm.example.com")]), False)
        .sign(key, hashes.SHA256())
    )
    encryption = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    return (
        signed.public_bytes(Encoding.PEM).decode(),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode(),
    )
