"""Make the files that a server needs for TLS out of one PEM text.

Run by the startup script: ``certificate.py PEM DIRECTORY``. It writes ``certificate.pem`` (the
server's certificate first, then those that sign it) and ``key.pem``, readable by their owner only,
once the key has been found to be the certificate's. Ends with a message if it is not.
"""

from __future__ import annotations

import os
import re
import ssl
import sys
from pathlib import Path

_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----\r?\n.*?-----END \1-----", re.DOTALL)


def split(pem: bytes) -> tuple[bytes, bytes]:
    """The certificates in their order, and the key.

    Raises:
        ValueError: there is no certificate, or not exactly one key.
    """
    blocks = [(match[1], match[0]) for match in _BLOCK.finditer(pem)]
    certificates = [text for kind, text in blocks if kind == b"CERTIFICATE"]
    keys = [text for kind, text in blocks if kind.endswith(b"PRIVATE KEY")]
    if not certificates:
        raise ValueError("it holds no certificate")
    if len(keys) != 1:
        raise ValueError(f"it holds {len(keys)} private keys instead of one")
    if keys[0].startswith(b"-----BEGIN ENCRYPTED") or b"Proc-Type: 4,ENCRYPTED" in keys[0]:
        raise ValueError("its private key is encrypted")
    return b"\n".join(certificates) + b"\n", keys[0] + b"\n"


def write(directory: Path, certificates: bytes, key: bytes) -> None:
    """Write both files, and check that they belong together.

    Raises:
        ValueError: they do not, or cannot be read.
    """
    directory.mkdir(mode=0o700, exist_ok=True)
    files = {"certificate.pem": certificates, "key.pem": key}
    for name, text in files.items():
        (directory / name).unlink(missing_ok=True)
        handle = os.open(directory / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
        with os.fdopen(handle, "wb") as file:
            file.write(text)
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # Without a callback, an encrypted key would be asked about on a terminal.
        context.load_cert_chain(*(directory / name for name in files), password=lambda: "")
    except (ssl.SSLError, OSError) as error:
        for name in files:
            (directory / name).unlink()
        reason = getattr(error, "reason", None) or "not readable"
        raise ValueError(f"certificate and key cannot be used together: {reason}") from None


def main() -> None:
    """Read, check, write."""
    try:
        write(Path(sys.argv[2]), *split(Path(sys.argv[1]).read_bytes()))
    except ValueError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
