"""Ways to write the path of a request, so that a check and a router may read it differently."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

#: Routes with content, some of them only in developer mode.
ROUTES = ("/invocations", "/v1/models", "/metrics", "/openapi.json", "/server_info", "/version")


def encoded(path: str) -> Iterator[str]:
    """Single letters, all of them, and the slashes, percent-encoded once and twice."""
    for index in range(1, len(path), 2):
        yield f"{path[:index]}%{ord(path[index]):02x}{path[index + 1 :]}"
    yield "/" + "".join(f"%{ord(letter):02X}" for letter in path[1:])
    yield "%2f" + path[1:]
    yield path + "%2f"
    yield quote(quote(path, safe=""), safe="")


def slashed(path: str) -> Iterator[str]:
    """More slashes, dots between them, and what ends a path elsewhere."""
    yield from (f"/{path}", f"//{path}", f"{path}/", f"{path}//", f"/.{path}", f"/..{path}")
    yield from (f"/./{path}", f"/x/..{path}", f"/x/%2e%2e{path}", f"\\{path[1:]}", f"{path}\\")
    yield from (f"{path};x", f"{path};/health", f"{path}.json", f"{path}%00", f"{path}%20")
    yield from (
        f"{path}?/health",
        f"{path}?x=/health",
        f"{path}#/health",
        f"{path}%23",
        f"{path}%3f",
    )
    yield from (f"{path}%0d%0a", f"{path}%c0%af", f"{path}\u2028", f"/%ef%bc%8f{path[1:]}")


def behind_health(path: str) -> Iterator[str]:
    """The open path in front of another."""
    yield from (f"/health/..{path}", f"/health/%2e%2e{path}", f"/health%2f..{path}")
    yield from (f"/health{path}", f"/health?{path}", f"/health;{path}", f"/health/.{path}")
    yield from (
        f"/health/..;{path}",
        f"/health%00{path}",
        f"/health#/..{path}",
        f"/health\\..{path}",
    )


def absolute(path: str) -> Iterator[str]:
    """The target as a proxy gets it, and other forms."""
    yield from (f"http://h{path}", f"HTTP://127.0.0.1{path}", f"https://h:1{path}")
    yield from (f"http://h/health{path}", f"http:{path}", f"//h{path}", f"http://h@x{path}")
    yield from (path[1:], f"file://{path}", f"h:80{path}", f"[::1]{path}")


def lettered(path: str) -> Iterator[str]:
    """Other letters."""
    yield from sorted({path.upper(), path.title(), path.swapcase()})
    yield path.replace("e", "\u0435")


#: Spellings of the open path that are not the open path.
HEALTH = tuple(
    target
    for make in (encoded, slashed, lettered)
    for target in make("/health")
    if not target.startswith(("/health?", "/health#"))
)
_CLOSED = tuple(
    target
    for path in ROUTES
    for make in (encoded, slashed, behind_health, absolute, lettered)
    for target in (path, *make(path))
    if not target.startswith(("/health?", "/health#"))
)
ALL = tuple(dict.fromkeys(_CLOSED + HEALTH))
