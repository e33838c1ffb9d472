"""The small Hub over HTTP, below ``/huggingface``: HF_ENDPOINT leads there.

Served is what huggingface_hub calls to list and fetch a model: info, tree, auth-check and resolve
(https://huggingface.co/docs/hub/api; headers as in its file_download.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from aiohttp import web

from embedded_cloud.environment import HUB_PATH
from embedded_cloud.hub.repositories import (
    BRANCH,
    Blob,
    HubError,
    Repositories,
    Repository,
    pointer_text,
)
from embedded_cloud.json_types import JsonObject

if TYPE_CHECKING:
    from embedded_cloud.cloud import Cloud

#: Directory of the models, in the embedded cloud's state.
DIRECTORY = "hub"

_MODEL = "{owner}/{name}"


def add_routes(app: web.Application, cloud: Cloud) -> None:
    """Serve the models in the state directory of ``cloud``."""
    hub = _Hub(Repositories(cloud.state_dir / DIRECTORY))

    def route(path: str, method_id: str, answer: _Answer) -> None:
        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                response = await answer(request)
            except HubError as error:
                response = _refused(error)
            cloud.history.append(
                method=request.method,
                path=request.path,
                method_id=method_id,
                status=response.status,
                request_id="",
            )
            return response

        app.router.add_get(f"{HUB_PATH}{path}", handle, allow_head=True)

    route(f"/api/models/{_MODEL}", "hub.models.info", hub.info)
    route(f"/api/models/{_MODEL}/auth-check", "hub.models.authCheck", hub.auth_check)
    route(f"/api/models/{_MODEL}/revision/{{revision:.+}}", "hub.models.info", hub.info)
    route(f"/api/models/{_MODEL}/tree/{{revision}}", "hub.models.tree", hub.tree)
    route(f"/{_MODEL}/resolve/{{revision}}/{{path:.+}}", "hub.models.resolve", hub.resolve)


_Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _Hub:
    def __init__(self, repositories: Repositories) -> None:
        self._repositories = repositories

    async def info(self, request: web.Request) -> web.StreamResponse:
        """What a model is, at a revision; anybody may list a gated one."""
        found = await self._find(request)
        document: JsonObject = {
            "id": found.name,
            "modelId": found.name,
            "sha": found.commit,
            "private": False,
            "gated": "manual" if found.gated else False,
            "disabled": False,
            "siblings": [_sibling(blob, request.query.get("blobs", "")) for blob in found.blobs],
        }
        return web.json_response(document)

    async def tree(self, request: web.Request) -> web.StreamResponse:
        """The files of a model; folders are not listed."""
        found = await self._find(request)
        return web.json_response([_entry(blob) for blob in found.blobs])

    async def auth_check(self, request: web.Request) -> web.StreamResponse:
        """Whether the caller may read a model."""
        self._require_access(request, await self._find(request))
        return web.json_response({})

    async def resolve(self, request: web.Request) -> web.StreamResponse:
        """A file, whole or a range of it."""
        found = await self._find(request)
        self._require_access(request, found)
        blob = found.blob(request.match_info["path"])
        headers = {"ETag": f'"{blob.etag}"', "X-Repo-Commit": found.commit}
        if blob.sha256:
            headers |= {"X-Linked-Etag": f'"{blob.etag}"', "X-Linked-Size": str(blob.size)}
        return web.FileResponse(blob.place, headers=headers)

    async def _find(self, request: web.Request) -> Repository:
        words = request.match_info
        revision = words.get("revision", BRANCH)
        # Sums of large files take a while, once.
        return await asyncio.to_thread(
            self._repositories.find, words["owner"], words["name"], revision
        )

    def _require_access(self, request: web.Request, found: Repository) -> None:
        self._repositories.require_access(found, request.headers.get("Authorization", ""))


def _sibling(blob: Blob, with_blobs: str) -> JsonObject:
    if not with_blobs:
        return {"rfilename": blob.path}
    return {
        "rfilename": blob.path,
        "size": blob.size,
        "blobId": blob.git_id,
        **_lfs(blob, "sha256"),
    }


def _entry(blob: Blob) -> JsonObject:
    return {
        "type": "file",
        "path": blob.path,
        "size": blob.size,
        "oid": blob.git_id,
        **_lfs(blob, "oid"),
    }


def _lfs(blob: Blob, name: str) -> JsonObject:
    """What is said of a file in LFS; its sum is called ``name``."""
    if not blob.sha256:
        return {}
    pointer = len(pointer_text(blob.sha256, blob.size))
    return {"lfs": {name: blob.sha256, "size": blob.size, "pointerSize": pointer}}


def _refused(error: HubError) -> web.Response:
    headers = {"X-Error-Message": error.text, **error.headers}
    if error.code:
        headers["X-Error-Code"] = error.code
    return web.json_response({"error": error.text}, status=error.status, headers=headers)
