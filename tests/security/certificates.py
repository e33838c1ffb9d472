"""Certificates for tests, signed by themselves or by one another."""

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
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID


def certificate(
    days: int = 30,
    passphrase: bytes = b"",
    issuer: tuple[str, str] | None = None,
    common_name: str = "llm.example.com",
) -> tuple[str, str]:
    """A certificate and its key, in PEM; it expires in ``days``, or has if they are negative.

    The ``issuer``, another such pair, signs it; without one its own key does.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    signing = load_pem_private_key(issuer[1].encode(), None) if issuer else key
    assert isinstance(signing, ec.EllipticCurvePrivateKey)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    end = datetime.now(UTC) + timedelta(days=days)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(x509.load_pem_x509_certificate(issuer[0].encode()).subject if issuer else name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(end - timedelta(days=365))
        .not_valid_after(end)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("llm.example.com")]), False)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), True)
        .sign(signing, hashes.SHA256())
    )
    encryption = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    return (
        signed.public_bytes(Encoding.PEM).decode(),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode(),
    )
