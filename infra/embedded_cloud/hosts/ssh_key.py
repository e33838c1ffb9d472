"""The key of a host's SSH server, made from a secret of the cloud: nothing has to be kept."""

from __future__ import annotations

import hashlib

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from embedded_cloud.hosts.spec import HostSpec


def key_purpose(spec: HostSpec) -> str:
    """What the secret of a host's key is for, as `Access.secret` takes it."""
    return f"ssh:{spec.key}"


def host_key(secret: str) -> Ed25519PrivateKey:
    """A host's key, the same for the same secret."""
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(secret.encode()).digest())


def public_text(key: Ed25519PrivateKey) -> str:
    """The public half as the guest agent publishes it: base64, without the type."""
    line = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return line.decode().split()[1]
