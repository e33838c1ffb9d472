"""What somebody who has broken into the server would try; run inside a container by path.

``python hostile.py LOOPBACK-URL…`` prints one line of JSON per try, ``{"try": …, "got": …}``, in
which `got` is null when it was refused. Then it serves on port 8000, for clients.
"""

from __future__ import annotations

import http.server
import json
import os
import socket
import sys
import urllib.request
from collections.abc import Callable

#: Google's metadata server, private API range, a public resolver, and the Hub.
EGRESS = (
    ("169.254.169.254", 80),
    ("199.36.153.8", 443),
    ("8.8.8.8", 53),
    ("192.0.2.53", 53),
    ("104.16.0.1", 443),
)
NAMES = ("metadata.google.internal", "huggingface.co", "storage.googleapis.com")
SECONDS = 2.0


def fetch(url: str) -> str:
    """Media, tokens, other hosts' ports."""
    request = urllib.request.Request(url, headers={"Metadata-Flavor": "Google"})
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        return str(answer.read(200).decode())


def connect(address: tuple[str, int]) -> str:
    """A way out."""
    with socket.create_connection(address, SECONDS):
        return "connected"


def send(address: tuple[str, int]) -> str:
    """A datagram, such as a question to a name server."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        return f"{way.sendto(b'?', address)} bytes sent"


def resolve(name: str) -> str:
    """A name, and with it whatever its letters carry."""
    return str(socket.getaddrinfo(name, 443))


def gain() -> str:
    """A network device of the host, or a right to make one."""
    devices = [name for _, name in socket.if_nameindex() if name != "lo"]
    if devices:
        return ", ".join(devices)
    os.setuid(0)
    socket.sethostname("broken-into")
    return "renamed the host"


def main(urls: list[str]) -> None:
    """Try everything, report it, serve."""
    tries: list[tuple[str, Callable[[], str]]] = [
        *((f"GET {url}", lambda url=url: fetch(url)) for url in urls),
        *((f"connect {each}", lambda each=each: connect(each)) for each in EGRESS),
        *((f"send {each}", lambda each=each: send(each)) for each in EGRESS),
        *((f"resolve {name}", lambda name=name: resolve(name)) for name in NAMES),
        ("gain", gain),
    ]
    for name, attempt in tries:
        got: str | None
        try:
            got = attempt()
        except OSError:
            got = None
        sys.stdout.write(json.dumps({"try": name, "got": got}) + "\n")
    sys.stdout.write("done\n")
    sys.stdout.flush()
    everywhere = ("0.0.0.0", 8000)  # noqa: S104 (of the container)
    http.server.HTTPServer(everywhere, http.server.SimpleHTTPRequestHandler).serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
