"""A client of the Hub: huggingface_hub's, with retries within bounds and errors of our own.

No file of huggingface_hub's is read for a token, and none is written: the token is the caller's,
and goes into the header of a request and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx2

from pulumi_plugin.printable import printable
from tpuflex.errors import AccessError, TpuflexError, WeightsError
from tpuflex.google.timing import Timing
from tpuflex.planning.model_files import ServerNeeds
from tpuflex.settings.weights_source import HubSource
from tpuflex.weights.hub.refusals import (
    LONGEST_WAIT,
    cause_of,
    compressed,
    limited,
    passing,
    retry_after,
    too_large_error,
    translated,
)
from tpuflex.weights.hub.snapshot import HubFile, ListedFiles, Snapshot, choose_files
from tpuflex.weights.model import Arrived
from tpuflex.weights.remote_model import FetchedFiles, RemoteFile, RemoteModel

#: How often a request is made that brings nothing.
ATTEMPTS = 5
_TIMEOUT = 30.0
_LOOPBACK = ("127.0.0.1", "localhost", "::1")

_Answer = TypeVar("_Answer")
#: How many bytes an answer may have: a listing of 10,000 files has three million. A download has
#: those of its file, and a refusal or a redirection some more.
_MOST: ContextVar[int] = ContextVar("_MOST", default=32 * 2**20)
_LEAST_BOUND = 2**16


class _Bounded(httpx2.SyncByteStream):
    """The body of an answer, which ends with an error where it is longer than it may be."""

    def __init__(self, stream: httpx2.SyncByteStream, host: str, most: int) -> None:
        self._stream = stream
        self._host = host
        self._most = most

    def __iter__(self) -> Iterator[bytes]:
        came = 0
        for block in self._stream:
            came += len(block)
            if came > self._most:
                raise too_large_error(self._host, self._most)
            yield block

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()


def http_client(transport: httpx2.BaseTransport | None = None) -> httpx2.Client:
    """What huggingface_hub makes requests with: answers are bounded in size, and are refused if
    they are compressed, as nobody knows what they become. This machine itself is reached around
    proxies: httpx asks the proxy of the environment for ``localhost``, too
    (https://www.python-httpx.org/environment_variables/), and a token would cross the network in
    clear.

    Args:
        transport: how requests are sent; by default over the network.
    """
    from huggingface_hub import errors, is_offline_mode

    def online(_request: httpx2.Request) -> None:
        if is_offline_mode():
            raise errors.OfflineModeIsEnabled

    def bound(response: httpx2.Response) -> None:
        encoding = response.headers.get("Content-Encoding", "identity")
        if encoding != "identity":
            raise compressed(response.url.host, encoding)
        if isinstance(response.stream, httpx2.SyncByteStream):
            response.stream = _Bounded(response.stream, response.url.host, _MOST.get())

    hosts = (f"[{name}]" if ":" in name else name for name in _LOOPBACK)
    direct = {} if transport else {f"all://{host}": httpx2.HTTPTransport() for host in hosts}
    return httpx2.Client(
        mounts=direct,
        transport=transport,
        headers={"Accept-Encoding": "identity"},
        event_hooks={"request": [online], "response": [bound]},
        follow_redirects=True,
        timeout=None,
    )


class HubClient:
    """Reads models of the Hub.

    Args:
        endpoint: address of the Hub or of a mirror, without a slash at the end; empty for
            https://huggingface.co.
        token: gives the token to send, empty for none; called once, when it is needed.
        timing: clock and sleep for waits.
        client: makes what requests are sent with.
    """

    def __init__(
        self,
        endpoint: str,
        token: Callable[[], str],
        timing: Timing,
        client: Callable[[], httpx2.Client] = http_client,
    ) -> None:
        from huggingface_hub import set_client_factory

        self._endpoint = endpoint or None
        self._read_token = token
        self._timing = timing
        set_client_factory(client)

    @cached_property
    def _token(self) -> str | bool:
        """What huggingface_hub takes for a token; False for none, which keeps it from looking for
        one of the user's."""
        token = self._read_token().strip()
        if not all("!" <= letter <= "~" for letter in token):
            raise AccessError(
                "The token for the Hub has characters that no token has.",
                hint="Look at HF_TOKEN, or at the version of a secret that tpuflex:secrets.hf_token"
                " or hf_token_version names.",
            )
        where = urlsplit(self._endpoint or "https:")
        if token and where.scheme != "https" and where.hostname not in _LOOPBACK:
            raise AccessError(
                f"HF_ENDPOINT is {where.scheme}://{where.hostname}: no token is sent there, it"
                " would cross the network in clear",
                hint="Name a mirror with https://, or unset HF_TOKEN.",
            )
        return token or False

    def snapshot(self, source: HubSource, needs: ServerNeeds) -> Snapshot:
        """The files of ``source``, and the commit that its revision is now.

        Args:
            source: the model.
            needs: what the server reads.

        Raises:
            WeightsError: it is not what could be served.
            TpuflexError: as :meth:`reading`.
        """
        return self.reading(
            source, lambda files, commit: choose_files(source.repository, commit, files, needs)
        )

    def reading(self, source: HubSource, use: Callable[[ListedFiles, str], _Answer]) -> _Answer:
        """What ``use`` makes of the files of ``source``, and the commit that its revision is now.

        Raises:
            NotFoundError: there is no such model or revision.
            AccessError: it is gated or private, and the token is none or not enough.
            WeightsError: the Hub gives another commit.
            ApiError: the Hub cannot be reached, or limits requests.
            TpuflexError: what ``use`` raises.
        """
        from huggingface_hub import HfApi

        api = HfApi(endpoint=self._endpoint, token=self._token)
        where = f"hf://{source.repository}@{source.revision or 'main'}"

        def ask() -> _Answer:
            info = api.model_info(
                source.repository,
                revision=source.revision or None,
                files_metadata=True,
                timeout=_TIMEOUT,
            )
            if source.pinned and info.sha != source.revision:
                raise WeightsError(
                    f"asked for {where}, the Hub gives commit {printable(str(info.sha))}",
                    hint="Do not use it. Is HF_ENDPOINT a mirror that keeps one commit only?",
                )
            # What a gated model holds everybody may list; only this asks for leave to read it.
            api.auth_check(source.repository)
            files = [
                HubFile(
                    path=one.rfilename,
                    size=-1 if one.size is None else one.size,
                    sha256=one.lfs.sha256 if one.lfs else "",
                    git_id=one.blob_id or "",
                )
                for one in info.siblings or ()
            ]
            commit = str(info.sha)
            read = partial(self._read, source.repository, commit)
            return use(ListedFiles(files, read), commit)

        return self._patiently(ask, where, source.repository)

    def fetch(self, snapshot: Snapshot, path: str, directory: Path, arrived: Arrived) -> Path:
        """Fetch the file ``path`` of ``snapshot`` into ``directory``, and give its place.

        Args:
            snapshot: the model at its commit.
            path: path in it.
            directory: where it goes, with what huggingface_hub keeps of it.
            arrived: called with the bytes that have come; with less than none where some are to
                come once more.

        Raises:
            NotFoundError, AccessError, WeightsError, ApiError: as :meth:`snapshot`.
        """
        from huggingface_hub import constants, hf_hub_download
        from huggingface_hub.utils import tqdm

        # Xet sends the token to whatever host an answer names, and keeps logs and parts below the
        # user's own cache.
        constants.HF_HUB_DISABLE_XET = True

        came = 0

        class Watched(tqdm):
            """Shows nothing, and tells what has come."""

            def __init__(self, *args: Any, **options: Any) -> None:
                super().__init__(  # type: ignore[no-untyped-call]
                    *args, **{**options, "disable": True}
                )

            def update(self, n: float | None = 1) -> bool:
                nonlocal came
                came += int(n or 0)
                arrived(int(n or 0))
                return False

        size = next(file.size for file in snapshot.files if file.path == path)

        def ask() -> Path:
            nonlocal came
            came = 0
            most = _MOST.set(max(size, _LEAST_BOUND))
            try:
                place = hf_hub_download(
                    snapshot.repository,
                    path,
                    revision=snapshot.commit,
                    local_dir=directory,
                    # Not the user's own, of which nobody has seen the sums.
                    cache_dir=directory / ".cache",
                    endpoint=self._endpoint,
                    token=self._token,
                    library_name="tpuflex",
                    tqdm_class=Watched,
                )
            except BaseException:
                arrived(-came)
                raise
            finally:
                _MOST.reset(most)
            return Path(place)

        # All that passes but a limit huggingface_hub itself has asked past by then.
        where = f"{snapshot.source}, {path}"
        return self._patiently(ask, where, snapshot.repository, limited)

    def _read(self, repository: str, commit: str, path: str, start: int, length: int) -> bytes:
        """``length`` bytes (fewer at the end of the file) from ``start`` of a file of a model."""
        from huggingface_hub import get_session, hf_hub_url
        from huggingface_hub.utils import build_hf_headers, hf_raise_for_status

        url = hf_hub_url(repository, path, revision=commit, endpoint=self._endpoint)
        headers = build_hf_headers(token=self._token, library_name="tpuflex")
        headers["Range"] = f"bytes={start}-{start + length - 1}"
        most = _MOST.set(max(length, _LEAST_BOUND))
        try:
            response = get_session().get(url, headers=headers, timeout=_TIMEOUT)
        finally:
            _MOST.reset(most)
        hf_raise_for_status(response)
        return response.content[:length]

    def _pause(self, error: Exception, attempt: int) -> bool:
        """Wait before another attempt after ``error``; False if there is none to be made.

        Args:
            error: why the last attempt failed.
            attempt: how many attempts have brought nothing.
        """
        if attempt >= ATTEMPTS:
            return False
        response = getattr(error, "response", None)
        asked = None if response is None else retry_after(response)
        if asked is not None and asked > LONGEST_WAIT:
            return False
        backoff = min(2.0**attempt, 30.0) * (0.5 + self._timing.jitter() / 2)
        return not self._timing.pause(backoff if asked is None else asked + 1.0)

    def _patiently(
        self,
        ask: Callable[[], _Answer],
        where: str,
        repository: str,
        passes: Callable[[Exception], bool] = passing,
    ) -> _Answer:
        attempt = 0
        while True:
            try:
                return ask()
            except TpuflexError:
                raise
            except Exception as error:
                if isinstance(error, OSError) and error.errno is not None:
                    raise  # of this machine's disk
                cause, attempt = cause_of(error), attempt + 1
                if not (passes(cause) and self._pause(cause, attempt)):
                    with_token = bool(self._token)
                    raise translated(cause, where, repository, with_token=with_token) from error


def hub_model(
    client: HubClient,
    source: HubSource,
    needs: ServerNeeds,
    home: Path,
    fetched: FetchedFiles,
) -> RemoteModel:
    """The model ``source`` at the commit that its revision is now.

    Args:
        client: the Hub.
        source: the model.
        needs: what the server reads.
        home: where its files lie for a while.
        fetched: what came to this home before.

    Raises:
        NotFoundError, AccessError, WeightsError, ApiError: as :meth:`HubClient.snapshot`.
    """
    snapshot = client.snapshot(source, needs)

    def fetch(file: RemoteFile, directory: Path, arrived: Arrived) -> Path:
        return client.fetch(snapshot, file.path, directory, arrived)

    def wrong(file: RemoteFile) -> WeightsError:
        return WeightsError(
            f"{snapshot.source}, {file.path}: what came is not what the Hub lists"
            f" ({file.sha256 or file.git_id}, {file.size} bytes)",
            hint="Run it again: the file is fetched anew. If it happens again, something between"
            " here and the Hub alters files: look at HF_ENDPOINT and at proxies.",
        )

    files = [
        RemoteFile(
            each.path,
            each.size,
            each.sha256 or f"git:{each.git_id}",
            sha256=each.sha256,
            git_id="" if each.sha256 else each.git_id,
        )
        for each in snapshot.files
    ]
    return RemoteModel(
        snapshot.source, files, fetch, wrong, home, fetched, left_out=snapshot.left_out
    )
