"""Who gets an answer over HTTP: the owner's processes, and no web page.

A metadata server gives a token to every caller, as Google's does. On a real network only the host
can reach it; on loopback every user of the machine can, and so can every web page that the user
visits: its name may resolve to this machine (DNS rebinding), and only the ``Host`` header reveals
that.
"""

from __future__ import annotations

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from embedded_cloud.core.errors import CloudError, permission_denied
from pulumi_plugin.peer import is_own_connection, refusal

#: Names by which the embedded cloud itself is called.
LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost"})


def owners_door(names: frozenset[str], *, origins: frozenset[str] = frozenset()) -> Middleware:
    """Refuses everything but requests of the owner's processes to a server called ``names``.

    Args:
        names: the server's names.
        origins: what a program may say in the ``Origin`` header; no page has such an origin.
    """

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        error = _refused(request, names, origins)
        if error is None:
            return await handler(request)
        return web.json_response(error.body(), status=error.http_status)

    return check


def is_own_user(request: web.Request) -> bool:
    """Whether the request comes from a process of the user who runs the embedded cloud."""
    connection = None if request.transport is None else request.transport.get_extra_info("socket")
    return connection is not None and is_own_connection(connection)


def _refused(
    request: web.Request, names: frozenset[str], origins: frozenset[str]
) -> CloudError | None:
    if not is_own_user(request):
        return permission_denied(refusal())
    origin = request.headers.get("Origin")
    if not (origin is None or origin in origins) or _called(request) not in names:
        return permission_denied("This is not for web pages: see the Host and Origin headers.")
    return None


def _called(request: web.Request) -> str:
    """The name by which the caller calls this server, without the port; empty if it has none."""
    try:
        return request.url.host or ""
    except ValueError:
        return ""
