"""A registry of container images, as one who pulls knows it.

https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pull; registries that anybody
may read ask for a token of nobody in particular first
(https://distribution.github.io/distribution/spec/auth/token/).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import requests

from pulumi_plugin.printable import printable
from tpuflex.errors import AccessError, ApiError, TpuflexError, WeightsError
from tpuflex.gcp.image_registry import MANIFESTS, READER, refused
from tpuflex.operate.resumed_download import EmptyAnswer
from tpuflex.settings.image import on_docker_hub, registry_project
from tpuflex.startup.image_archive import (
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
#: So much is lost at most of what a broken line has brought.
_BLOCK = 2**18
#: How often a blob is asked for that brings nothing, and after which answers.
_ATTEMPTS = 4
_PASSING = frozenset({408, 429, 500, 502, 503})
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

    @contextmanager
    def blocks(self, blob: Blob, start: int) -> Iterator[Iterator[bytes]]:
        """The content of ``blob`` from byte ``start`` on; one request.

        Raises:
            NotFoundError, AccessError, ApiError: the registry refuses.
            requests.RequestException: the connection is lost.
        """
        # Compressed on the way it would have another length.
        headers = {"Range": f"bytes={start}-", "Accept-Encoding": "identity"}
        with closing(self._get(f"blobs/sha256:{blob.sha256}", headers)) as answer:
            skip = start if answer.status_code == requests.codes.ok else 0
            yield _without(skip, answer.iter_content(_BLOCK))

    def failed(self, error: Exception, failures: int) -> None:
        """Wait before a blob is asked for again, after ``failures`` in a row.

        Raises:
            NotFoundError, AccessError, ApiError: what ``error`` tells is no passing failure, or
                there were too many of them.
        """
        if not isinstance(error, requests.RequestException | ApiError | EmptyAnswer):
            raise error
        passing = not isinstance(error, ApiError) or error.status in _PASSING
        if not passing or failures >= _ATTEMPTS:
            raise _unreachable(self.image, error) from error
        self._pause(2.0**failures)

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
        # Not on to where an answer leads: that may be a network which only this machine reaches.
        answer = self._session.get(
            realm, params=asked, timeout=_TIMEOUT, stream=True, allow_redirects=False
        )
        with closing(answer):
            if answer.is_redirect:
                raise AccessError(
                    f"{self._host} names {printable(urlsplit(realm).hostname or '')} for a token,"
                    " which leads elsewhere, and is not followed there",
                    hint=_PUBLIC,
                )
            text = answer.raw.read(2**20, decode_content=True)
        try:
            found = json.loads(text)
            return str(found.get("token") or found["access_token"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._refused(answer.status_code, text) from error

    def _refused(self, status: int, content: bytes) -> TpuflexError:
        return refused(self._host, status, content, denied=_PUBLIC if self._anonymous else READER)


def _without(skip: int, blocks: Iterable[bytes]) -> Iterator[bytes]:
    """``blocks`` but for their first ``skip`` bytes."""
    for block in blocks:
        if skip < len(block):
            yield block[skip:]
        skip = max(0, skip - len(block))


def _config_of(text: bytes) -> set[str]:
    """SHA-256 of the config that the document ``text`` names, which is kept as a blob."""
    try:
        return {json.loads(text)["config"]["digest"].removeprefix("sha256:")}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return set()


def _unreachable(host: str, error: Exception) -> Exception:
    if isinstance(error, ApiError):
        return error
    what = (
        f"sends {error}"
        if isinstance(error, EmptyAnswer)
        else f"cannot be reached ({type(error).__name__})"
    )
    return ApiError(
        f"{host} {what}",
        hint="Run it again: it goes on where it stopped.",
    )
