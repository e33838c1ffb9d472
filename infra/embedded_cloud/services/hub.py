"""A small Hugging Face Hub: the models that lie in a directory, over the HTTP API that
huggingface_hub speaks.

A model's commit follows from its files: to change one makes another commit, and the one
before is gone, as after a branch was overwritten. A model with a file ``.gated`` is gated: each
line of the file is a token that may read it. While a model has a file ``.limited``, its callers
have asked too often; the file says for how many seconds.

Served is what huggingface_hub calls to list and fetch a model: info, tree, auth-check and resolve
(https://huggingface.co/docs/hub/api; headers as in its file_download.py).
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from embedded_cloud.core.environment import HUB_PATH
from embedded_cloud.core.history import History
from embedded_cloud.core.json_types import JsonObject

GATED_FILE = ".gated"
LIMITED_FILE = ".limited"
BRANCH = "main"
#: What the Hub keeps in LFS: by its .gitattributes tensors, and everything that is large
#: (https://huggingface.co/docs/hub/repositories-getting-started).
_LFS_BYTES = 10 * 2**20
_LFS_SUFFIX = ".safetensors"
#: What is no file of a model.
_OF_THE_HUB = (GATED_FILE, LIMITED_FILE)
_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,95}", re.ASCII)
_BLOCK = 2**20


class HubError(Exception):
    """A refusal, as the Hub words it.

    Attributes:
        status: HTTP status.
        code: ``X-Error-Code``.
        text: ``X-Error-Message``.
        headers: further headers.
    """

    def __init__(
        self, status: int, code: str, text: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(text)
        self.status = status
        self.code = code
        self.text = text
        self.headers = headers or {}


@dataclass(frozen=True, slots=True)
class Blob:
    """A file of a model.

    Attributes:
        path: path in the repository.
        place: where it is on this machine.
        size: in bytes.
        git_id: Git's id of the content, or of the pointer's text.
        sha256: SHA-256 of a file in LFS; empty for others.
    """

    path: str
    place: Path
    size: int
    git_id: str
    sha256: str

    @property
    def etag(self) -> str:
        """What a HEAD of the file says of its content."""
        return self.sha256 or self.git_id


@dataclass(frozen=True, slots=True)
class Repository:
    """A model at its one commit."""

    name: str
    commit: str
    blobs: tuple[Blob, ...]
    gated: bool

    def blob(self, path: str) -> Blob:
        """The file at ``path``.

        Raises:
            HubError: there is none.
        """
        for blob in self.blobs:
            if blob.path == path:
                return blob
        raise HubError(404, "EntryNotFound", "Entry not found")


class Repositories:
    """The models below one directory.

    Args:
        root: the directory.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._sums: dict[tuple[str, int, int], tuple[str, str]] = {}

    def find(self, owner: str, name: str, revision: str = BRANCH) -> Repository:
        """The model OWNER/NAME at ``revision``.

        Raises:
            HubError: there is none, it has no such revision, or it is asked for too often.
        """
        directory = self._root / owner / name
        if not (_PART.fullmatch(owner) and _PART.fullmatch(name) and directory.is_dir()):
            raise HubError(401, "RepoNotFound", "Repository not found")
        _require_patience(directory)
        files = sorted(
            path
            for path in directory.rglob("*")
            if path.is_file() and path.resolve().is_relative_to(directory.resolve())
        )
        blobs = tuple(self._blob(directory, path) for path in files if path.name not in _OF_THE_HUB)
        listing = "".join(f"{blob.path} {blob.git_id}\n" for blob in blobs)
        commit = hashlib.sha1(listing.encode(), usedforsecurity=False).hexdigest()
        if revision not in (BRANCH, commit):
            raise HubError(404, "RevisionNotFound", "Invalid rev id: " + revision)
        return Repository(f"{owner}/{name}", commit, blobs, (directory / GATED_FILE).is_file())

    def require_access(self, repository: Repository, authorization: str) -> None:
        """Check that the sender of this header may read ``repository``.

        Raises:
            HubError: it is gated, and the token is none or not one of those that may.
        """
        if not repository.gated:
            return
        token = authorization.removeprefix("Bearer ")
        allowed = (self._root / repository.name / GATED_FILE).read_text().split()
        if not authorization:
            raise HubError(
                401,
                "GatedRepo",
                f"Access to model {repository.name} is restricted. You must have access to it and"
                " be authenticated to access it. Please log in.",
            )
        if token not in allowed:
            raise HubError(
                403,
                "GatedRepo",
                f"Access to model {repository.name} is restricted and you are not in the authorized"
                " list.",
            )

    def _blob(self, directory: Path, path: Path) -> Blob:
        state = path.stat()
        key = (str(path), state.st_size, state.st_mtime_ns)
        if key not in self._sums:
            self._sums[key] = _sums(path, state.st_size)
        git_id, sha256 = self._sums[key]
        return Blob(path.relative_to(directory).as_posix(), path, state.st_size, git_id, sha256)


def _require_patience(directory: Path) -> None:
    """Refuse a model that is limited, with the time left of a window
    (https://huggingface.co/docs/hub/rate-limits#rate-limit-headers)."""
    limited = directory / LIMITED_FILE
    if limited.is_file():
        left = int(limited.read_text())
        headers = {"RateLimit": f'"api";r=0;t={left}'}
        raise HubError(429, "", "Too many requests", headers)


def pointer_text(sha256: str, size: int) -> str:
    """What Git keeps in place of a file in LFS
    (https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md)."""
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n"


def _sums(path: Path, size: int) -> tuple[str, str]:
    """Git's id of ``path`` and, of a file in LFS, its SHA-256."""
    large = path.suffix == _LFS_SUFFIX or size >= _LFS_BYTES
    digest = hashlib.sha256() if large else hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    if not large:
        return digest.hexdigest(), ""
    pointer = pointer_text(digest.hexdigest(), size).encode()
    git_id = hashlib.sha1(b"blob %d\0%s" % (len(pointer), pointer), usedforsecurity=False)
    return git_id.hexdigest(), digest.hexdigest()


#: Directory of the models, in the embedded cloud's state.
DIRECTORY = "hub"

_MODEL = "{owner}/{name}"


def add_routes(app: web.Application, state_dir: Path, history: History) -> None:
    """Serve the models in the state directory, and record the calls in ``history``."""
    hub = _Hub(Repositories(state_dir / DIRECTORY))

    def route(path: str, method_id: str, answer: _Answer) -> None:
        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                response = await answer(request)
            except HubError as error:
                response = _refused(error)
            history.append(
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
