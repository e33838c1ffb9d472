"""Fetch a container image from its registry into an OCI image layout, every byte checked.

https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pull; registries that anybody
may read ask for a token of nobody in particular first
(https://distribution.github.io/distribution/spec/auth/token/).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import requests

from tpuflex.errors import ApiError, InterruptedByUser, TpuflexError, WeightsError
from tpuflex.gcp.image_registry import MANIFESTS, READER, refused
from tpuflex.gcp.weights_files import Progress, Tally
from tpuflex.settings.image import on_docker_hub, registry_project
from tpuflex.startup.image_archive import (
    BLOBS,
    MAX_DOCUMENT_BYTES,
    Blob,
    Image,
    ImageError,
    digest_of,
    read_image,
)

if TYPE_CHECKING:
    from tpuflex.gcp.endpoints import Endpoints

#: Seconds to connect, and to wait for the next bytes.
_TIMEOUT = (10.0, 60.0)
_BLOCK = 4 * 2**20
#: Blobs fetched at a time, and how often one is asked for that brings nothing.
_AT_ONCE, _ATTEMPTS = 4, 4
_HUB = "registry-1.docker.io"
_PUBLIC = (
    "From registries that are not Google's only what everybody may pull is fetched: make an OCI"
    " image layout with another tool, and push that with --layout."
)
_EMPTY = "The embedded cloud's registries keep no content: push an OCI image layout with --layout."
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')


class NobodysSession(requests.Session):
    """A session without any credentials: what `~/.netrc` has for a host is not sent to it either.
    A registry says itself whom to ask for a token, and gets what that answers; so with the
    caller's password it could have a token of the caller's elsewhere. Proxies of the environment
    are used."""

    def __init__(self) -> None:
        super().__init__()
        # With it, no credentials are looked up for a request; below, for a redirect.
        self.auth = _unsigned

    def rebuild_auth(
        self, prepared_request: requests.PreparedRequest, response: requests.Response
    ) -> None:
        """Send no credentials on to another host, and none of its own."""
        was, now = response.request.url or "", prepared_request.url or ""
        if self.should_strip_auth(was, now):  # type: ignore[no-untyped-call]
            prepared_request.headers.pop("Authorization", None)


def _unsigned(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


class Registry:
    """The registry of one image.

    Args:
        image: the image, pinned by its digest.
        endpoints: where Artifact Registry is, of which the embedded cloud has every host.
        google: a session with the caller's credentials, for registries of Google's; another one
            never gets these.
        other: a session without any.
        pause: waits so many seconds before another attempt.
    """

    def __init__(
        self,
        image: str,
        endpoints: Endpoints,
        google: Callable[[], requests.Session],
        other: Callable[[], requests.Session] = NobodysSession,
        *,
        pause: Callable[[float], object],
    ) -> None:
        name = image.partition("@")[0]
        hub = on_docker_hub(name)
        host, _, path = (_HUB, "", hub) if hub is not None else name.partition("/")
        where, slash, last = path.rpartition("/")
        self.image, self._host, self._pause = image, host, pause
        self._embedded = endpoints.embedded
        emulated = f"{endpoints.artifactregistry}/registry/{host}"
        root = emulated if endpoints.embedded else f"https://{host}"
        self._url = f"{root}/v2/{where}{slash}{last.partition(':')[0]}"
        # Registries of Google's that are no project's, such as mirror.gcr.io, take no credentials.
        self._anonymous = not endpoints.embedded and registry_project(image) is None
        self._session = other() if self._anonymous else google()
        self._token = ""

    def read(self) -> tuple[Image, Mapping[str, bytes]]:
        """The image, and its documents by their SHA-256.

        Raises:
            WeightsError: what the registry has is not the image of that digest.
            NotFoundError, AccessError, ApiError: the registry refuses, or cannot be reached.
        """
        documents: dict[str, bytes] = {}
        configs: set[str] = set()

        def read(sha256: str) -> bytes:
            if sha256 not in documents:
                kind = "blobs" if sha256 in configs else "manifests"
                text = self._document(f"{kind}/sha256:{sha256}")
                documents[sha256] = text
                configs.update(_config_of(text))
            return documents[sha256]

        try:
            return read_image(digest_of(self.image), read), documents
        except ImageError as error:
            raise WeightsError(
                f"{self._host}, {self.image}: {error}",
                hint=_EMPTY if self._embedded else "Is it an image for linux/amd64?",
            ) from error

    def blocks(self, blob: Blob, start: int) -> Iterator[bytes]:
        """The content of ``blob`` from byte ``start`` on; one request.

        Raises:
            NotFoundError, AccessError, ApiError: the registry refuses.
            requests.RequestException: the connection is lost.
        """
        # Compressed on the way it would have another length.
        headers = {"Range": f"bytes={start}-", "Accept-Encoding": "identity"}
        with closing(self._get(f"blobs/sha256:{blob.sha256}", headers)) as answer:
            skip = start if answer.status_code == requests.codes.ok else 0
            for block in answer.iter_content(_BLOCK):
                if skip < len(block):
                    yield block[skip:]
                skip = max(0, skip - len(block))

    def pause(self, attempt: int) -> None:
        """Wait before another attempt."""
        self._pause(2.0**attempt)

    def _document(self, path: str) -> bytes:
        try:
            with closing(self._get(path, {"Accept": MANIFESTS})) as answer:
                return bytes(answer.raw.read(MAX_DOCUMENT_BYTES + 1, decode_content=True))
        except (requests.RequestException, OSError) as error:
            raise _unreachable(self._host, error) from error

    def _get(self, path: str, headers: dict[str, str]) -> requests.Response:
        """Ask for ``path`` of the repository."""
        answer = self._ask(path, headers)
        if answer.status_code == requests.codes.unauthorized and self._anonymous:
            answer.close()
            self._token = self._nobodys_token(answer.headers.get("WWW-Authenticate", ""))
            answer = self._ask(path, headers)
        if answer.status_code not in (requests.codes.ok, requests.codes.partial_content):
            with closing(answer):
                answer.raw.decode_content = True
                raise self._refused(answer.status_code, answer.raw.read(_BLOCK))
        return answer

    def _ask(self, path: str, headers: dict[str, str]) -> requests.Response:
        # A redirect to where blobs are kept loses the token: requests sends it to no other host.
        token = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        return self._session.get(
            f"{self._url}/{path}", headers={**headers, **token}, timeout=_TIMEOUT, stream=True
        )

    def _nobodys_token(self, challenge: str) -> str:
        """The token that the registry's own challenge says where to get.

        Raises:
            AccessError: it gives none.
        """
        asked = dict(_CHALLENGE.findall(challenge)) if challenge.startswith("Bearer ") else {}
        realm = asked.pop("realm", "")
        if urlsplit(realm).scheme != urlsplit(self._url).scheme:
            raise self._refused(401, b"")
        asked = {key: asked[key] for key in ("service", "scope") if key in asked}
        answer = self._session.get(realm, params=asked, timeout=_TIMEOUT, stream=True)
        with closing(answer):
            text = answer.raw.read(2**20, decode_content=True)
        try:
            found = json.loads(text)
            return str(found.get("token") or found["access_token"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._refused(answer.status_code, text) from error

    def _refused(self, status: int, content: bytes) -> TpuflexError:
        return refused(self._host, status, content, denied=_PUBLIC if self._anonymous else READER)


def fetch_layout(registry: Registry, directory: Path, progress: Progress) -> Image:
    """Fetch the image of ``registry`` into the layout ``directory``, or go on with it.

    A blob has its name once it is whole and has the hash that this is; one under way ends in
    ``.part``.

    Args:
        registry: the image's registry.
        directory: where it goes; made if it is not there.
        progress: called with the bytes that are there and the total, by one thread at a time.

    Raises:
        WeightsError: there is no room, or what came is not what its digest says.
        NotFoundError, AccessError, ApiError: the registry refuses, or cannot be reached.
    """
    image, documents = registry.read()
    blobs = directory / BLOBS
    blobs.mkdir(mode=0o700, parents=True, exist_ok=True)
    _require_room(registry.image, image, blobs)
    for sha256, text in documents.items():
        (blobs / sha256).write_bytes(text)
    stop = Event()
    tally = Tally(sum(blob.size for blob in image.layers), progress)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        jobs = [
            pool.submit(_fetch, registry, blob, blobs, tally.add, stop)
            for blob in dict.fromkeys(image.layers)
        ]
        try:
            for job in wait(jobs, return_when=FIRST_EXCEPTION).done:
                job.result()
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return image


def _require_room(name: str, image: Image, blobs: Path) -> None:
    present = sum(path.stat().st_size for path in blobs.iterdir())
    needed = sum(blob.size for blob in image.blobs) - present
    free = shutil.disk_usage(blobs).free
    if needed > free:
        raise WeightsError(
            f"{name} needs {needed / 1e9:.1f} GB in {blobs}, and {free / 1e9:.1f} GB are free"
            " there",
            hint="Make room, or set TPUFLEX_HOME to a directory on a larger disk.",
        )


def _fetch(
    registry: Registry, blob: Blob, blobs: Path, arrived: Callable[[int], None], stop: Event
) -> None:
    """Fetch what is missing of ``blob``, and give it its name if its hash is right."""
    place, part = blobs / blob.sha256, blobs / f"{blob.sha256}.part"
    if place.is_file():
        arrived(blob.size)
        return
    digest, attempt = hashlib.sha256(), 0
    with part.open("a+b") as file:
        file.seek(0)
        while block := file.read(_BLOCK):
            _take(digest.update, arrived, block, stop)
        while file.tell() < blob.size:
            before = file.tell()
            try:
                for block in registry.blocks(blob, before):
                    _take(digest.update, arrived, block, stop)
                    file.write(block)
                    if file.tell() > blob.size:
                        break
                if file.tell() == before:
                    break
            except (requests.RequestException, ApiError) as error:
                # What brought something was no failure.
                attempt = 1 if file.tell() > before else attempt + 1
                passing = not isinstance(error, ApiError) or error.status in (
                    408,
                    429,
                    500,
                    502,
                    503,
                )
                if not passing or attempt >= _ATTEMPTS:
                    raise _unreachable(registry.image, error) from error
                registry.pause(attempt)
        file.flush()
        os.fsync(file.fileno())
    if part.stat().st_size != blob.size or digest.hexdigest() != blob.sha256:
        part.unlink()
        raise WeightsError(
            f"{registry.image}: what came for sha256:{blob.sha256} is not what its digest says",
            hint="Run it again: it is fetched anew. If it happens again, something between here and"
            " the registry alters what it sends.",
        )
    part.rename(place)


def _take(
    hashed: Callable[[bytes], object], arrived: Callable[[int], None], block: bytes, stop: Event
) -> None:
    if stop.is_set():
        raise InterruptedByUser("Stopped while the image was being fetched.")
    hashed(block)
    arrived(len(block))


def _config_of(text: bytes) -> set[str]:
    """SHA-256 of the config that the document ``text`` names, which is kept as a blob."""
    try:
        return {json.loads(text)["config"]["digest"].removeprefix("sha256:")}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return set()


def _unreachable(host: str, error: Exception) -> Exception:
    if isinstance(error, ApiError):
        return error
    return ApiError(
        f"{host} cannot be reached ({type(error).__name__})",
        hint="Run it again: it goes on where it stopped.",
    )
