"""The certificate that the emulated relay shows for ``tunnel.cloudproxy.app``."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from embedded_cloud.private_files import private_directory
from tpuflex.trusted_files import write_private

#: Its file, which gcloud is told to trust, below the emulator's state directory.
CERTIFICATE = "iap/certificate.pem"
_KEY = "iap/key.pem"
_LIFETIME = datetime.timedelta(days=365)
_SKEW = datetime.timedelta(days=1)


def server_context(state_dir: Path, name: str, now: datetime.datetime) -> ssl.SSLContext:
    """TLS for a server called ``name``, with a certificate of its own that is made anew: only a
    client that is told of it takes it for that server."""
    private_directory(state_dir / "iap")
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    write_private(state_dir / CERTIFICATE, pem.decode())
    write_private(
        state_dir / _KEY,
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode(),
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(state_dir / CERTIFICATE, state_dir / _KEY)
    return context
