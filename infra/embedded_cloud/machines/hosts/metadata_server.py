"""The metadata server of one emulated host.

Bound to the host's loopback address, it serves what a TPU VM reads at
``metadata.google.internal`` (the node's attributes, its identity, a token) and stores guest
attributes (https://cloud.google.com/compute/docs/metadata/overview).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import Callable
from email.utils import formatdate

from aiohttp import web

from embedded_cloud.core.clock import Clock
from embedded_cloud.core.peer import owners_door
from embedded_cloud.core.strictness import Strictness
from embedded_cloud.machines.hosts.guest_attributes import GuestAttributes, Queries, forbidden
from embedded_cloud.machines.hosts.metadata_tree import (
    HostTokens,
    Tree,
    find,
    metadata_tree,
    render,
)
from embedded_cloud.machines.hosts.spec import HostSpec

_ROOT = "/computeMetadata/v1"
_FLAVOR = {"Metadata-Flavor": "Google"}
#: Names of a metadata server, beside the host's address.
_NAMES = frozenset({"metadata.google.internal", "metadata"})

#: https://cloud.google.com/compute/docs/metadata/manage-guest-attributes#limitations
_MAX_GUEST_VALUE = 256 * 1024


class MetadataServer:
    """Serves the metadata of ``spec``.

    Args:
        spec: the host.
        guest: where guest attributes go.
        issue: makes an access token of the host's service account that lives for so many seconds.
        clock: the cloud's time.
        strictness: which of Google's bounds are imitated now.
    """

    def __init__(
        self,
        spec: HostSpec,
        guest: GuestAttributes,
        issue: Callable[[float], str],
        *,
        clock: Clock,
        strictness: Callable[[], Strictness],
    ) -> None:
        self._spec = spec
        self._guest = guest
        self._clock = clock
        self._queries = Queries(clock)
        self._strictness = strictness
        self._tokens = HostTokens(issue, clock, lambda: strictness().tokens.lifetime_s)
        self._runner: web.AppRunner | None = None
        self._changed = asyncio.Event()
        #: Set when a client begins to wait for a change.
        self.waited_for = asyncio.Event()
        self.port = 0

    @property
    def address(self) -> str:
        """``ip:port``, what ``GCE_METADATA_HOST`` is set to."""
        return f"{self._spec.address}:{self.port}"

    async def start(self) -> None:
        """Listen on the host's address at a free port."""
        app = web.Application(middlewares=[owners_door(_NAMES | {self._spec.address})])
        app.on_response_prepare.append(self._say_when)
        app.router.add_get("/", self._ping)
        app.router.add_get(f"{_ROOT}/instance/guest-attributes/{{path:.*}}", self._get_guest)
        app.router.add_put(
            f"{_ROOT}/instance/guest-attributes/{{namespace}}/{{key}}", self._put_guest
        )
        app.router.add_delete(
            f"{_ROOT}/instance/guest-attributes/{{namespace}}/{{key}}", self._delete_guest
        )
        app.router.add_get(f"{_ROOT}/{{path:.*}}", self._get)
        self._runner = web.AppRunner(
            app, handle_signals=False, access_log=None, shutdown_timeout=0.5
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._spec.address, 0)
        await site.start()
        self.port = int(self._runner.addresses[0][1])

    def update(self, spec: HostSpec) -> None:
        """Serve what ``spec`` says from now on; requests that wait for a change get it."""
        self._spec = spec
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def stop(self) -> None:
        """Stop listening."""
        self._wake()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _say_when(self, _request: web.Request, response: web.StreamResponse) -> None:
        """The cloud's time, by which runs end, stands in every answer."""
        response.headers["Date"] = formatdate(self._clock.now(), usegmt=True)

    async def _ping(self, _request: web.Request) -> web.Response:
        return web.Response(text="computeMetadata/\n", headers=_FLAVOR)

    async def _get(self, request: web.Request) -> web.Response:
        if not _is_metadata_request(request):
            return _forbidden("Missing Metadata-Flavor:Google header.")
        found = self._find(request)
        if request.query.get("wait_for_change", "").lower() == "true":
            try:
                found = await self._after_change(found, request)
            except ValueError:
                return web.Response(status=400, text="timeout_sec is no number\n", headers=_FLAVOR)
        return _answer(found, request)

    def _find(self, request: web.Request) -> Tree | None:
        tree = metadata_tree(self._spec, self._tokens.current())
        return find(tree, request.match_info["path"])

    async def _after_change(self, found: Tree | None, request: web.Request) -> Tree | None:
        """What is at the path once it is not ``found`` any more, at the latest after timeout_sec. A
        client that names another ETag has missed a change and gets it at once; what is not there is
        not waited for
        (https://cloud.google.com/compute/docs/metadata/querying-metadata#waitforchange)."""
        etag = _etag(found)
        limit = request.query.get("timeout_sec")
        missed = found is None or request.query.get("last_etag", etag) != etag
        self.waited_for.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if limit is None else int(limit)):
                while not missed and self._runner is not None and _etag(found) == etag:
                    await self._changed.wait()
                    found = self._find(request)
        return found

    async def _get_guest(self, request: web.Request) -> web.Response:
        if (refusal := self._guest_refusal(request)) is not None:
            return refusal
        self._queries.is_too_many(self._strictness().guest_attributes)
        path = request.match_info["path"]
        tree: dict[str, Tree] = {}
        for namespace, key, value in self._guest.query(self._spec.owner, self._spec.worker, ""):
            keys = tree.setdefault(namespace, {})
            if isinstance(keys, dict):
                keys[key] = value
        return _answer(find(tree, path), request)

    async def _put_guest(self, request: web.Request) -> web.Response:
        if (refusal := self._guest_refusal(request)) is not None:
            return refusal
        value = await request.text()
        if len(value.encode()) > _MAX_GUEST_VALUE:
            return web.Response(status=400, text="guest attribute value is too large\n")
        rules = self._strictness().guest_attributes
        if not value and not rules.empty_values:
            return web.Response(status=400, text="guest attribute value is empty\n")
        if self._queries.is_too_many(rules):
            # "Compute Engine might arbitrarily remove guest attributes that are in the process of
            # being written": nothing tells who writes.
            return web.Response(headers=_FLAVOR)
        self._guest.put(
            self._spec.owner,
            self._spec.worker,
            request.match_info["namespace"],
            request.match_info["key"],
            value,
        )
        return web.Response(headers=_FLAVOR)

    async def _delete_guest(self, request: web.Request) -> web.Response:
        if (refusal := self._guest_refusal(request)) is not None:
            return refusal
        namespace, key = (request.match_info[part] for part in ("namespace", "key"))
        if not self._guest.delete(self._spec.owner, self._spec.worker, namespace, key):
            return web.Response(status=404, text="not found\n", headers=_FLAVOR)
        return web.Response(headers=_FLAVOR)

    def _guest_refusal(self, request: web.Request) -> web.Response | None:
        if not _is_metadata_request(request):
            return _forbidden("Missing Metadata-Flavor:Google header.")
        if self._spec.has_guest_attributes and not forbidden(self._strictness()):
            return None
        return _forbidden("Guest attributes endpoint access is disabled.")


def _is_metadata_request(request: web.Request) -> bool:
    flavor = request.headers.get("Metadata-Flavor", "")
    return flavor == "Google" and "X-Forwarded-For" not in request.headers


def _etag(found: Tree | None) -> str:
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16]


def _answer(found: Tree | None, request: web.Request) -> web.Response:
    if found is None:
        return web.Response(status=404, text="not found\n", headers=_FLAVOR)
    headers = {**_FLAVOR, "ETag": _etag(found)}
    recursive = request.query.get("recursive", "").lower() == "true"
    as_json = request.query.get("alt", "") == "json" or (
        recursive and request.query.get("alt") != "text"
    )
    if as_json or (recursive and not isinstance(found, str)):
        return web.Response(
            text=json.dumps(found), content_type="application/json", headers=headers
        )
    text, content_type = render(found)
    return web.Response(text=text, content_type=content_type, headers=headers)


def _forbidden(reason: str) -> web.Response:
    return web.Response(status=403, text=f"{reason}\n", headers=_FLAVOR)
