"""A client of the Hub: huggingface_hub's, with retries within bounds and errors of our own.

No file of huggingface_hub's is read for a token, and none is written: the token is the caller's,
and goes into the header of a request and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies

from pulumi_plugin.printable import printable
from tpuflex.errors import AccessError, TpuflexError, WeightsError
from tpuflex.gcp.timing import Timing
from tpuflex.operate.hub.refusals import LONGEST_WAIT, passing, retry_after, translated
from tpuflex.operate.hub.snapshot import HubFile, HubSource, Snapshot, choose_files

#: How often a request is made that brings nothing.
ATTEMPTS = 5
_TIMEOUT = 30.0
_LOOPBACK = ("127.0.0.1", "localhost", "::1")

_Answer = TypeVar("_Answer")


def _around_proxies() -> None:
    """Have huggingface_hub reach this machine itself, and all else as its own client does.

    httpx asks the proxy of the environment for ``localhost``, too
    (https://www.python-httpx.org/environment_variables/): a token would cross the network in clear.
    """
    import httpx2
    from huggingface_hub import set_client_factory

    hosts = (f"[{name}]" if ":" in name else name for name in _LOOPBACK)
    direct = {f"all://{host}": httpx2.HTTPTransport() for host in hosts}
    set_client_factory(lambda: httpx2.Client(mounts=direct, follow_redirects=True, timeout=None))


class HubClient:
    """Reads models of the Hub.

    Args:
        endpoint: address of the Hub or of a mirror, without a slash at the end; empty for
            https://huggingface.co.
        token: gives the token to send, empty for none; called once, when it is needed.
        timing: clock and sleep for waits.
    """

    def __init__(self, endpoint: str, token: Callable[[], str], timing: Timing) -> None:
        self._endpoint = endpoint or None
        self._read_token = token
        self._timing = timing
        if getproxies() and urlsplit(endpoint).hostname in _LOOPBACK:
            _around_proxies()

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
                f"HF_ENDPOINT is {self._endpoint}: no token is sent there, it would cross the"
                " network in clear",
                hint="Name a mirror with https://, or unset HF_TOKEN.",
            )
        return token or False

    def snapshot(self, source: HubSource, extra_files: tuple[str, ...] = ()) -> Snapshot:
        """The files of ``source``, and the commit that its revision is now.

        Args:
            source: the model.
            extra_files: shell patterns of files to take beside the data formats.

        Raises:
            NotFoundError: there is no such model or revision.
            AccessError: it is gated or private, and the token is none or not enough.
            WeightsError: it holds nothing that could be served.
            ApiError: the Hub cannot be reached, or limits requests.
        """
        from huggingface_hub import HfApi

        api = HfApi(endpoint=self._endpoint, token=self._token)
        where = f"hf://{source.repository}@{source.revision or 'main'}"

        def ask() -> Snapshot:
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
            files = (
                HubFile(
                    path=one.rfilename,
                    size=-1 if one.size is None else one.size,
                    sha256=one.lfs.sha256 if one.lfs else "",
                    git_id=one.blob_id or "",
                )
                for one in info.siblings or ()
            )
            return choose_files(source.repository, str(info.sha), files, extra_files)

        return self._patiently(ask, where, source.repository)

    @contextmanager
    def blocks(self, snapshot: Snapshot, file: HubFile, start: int) -> Iterator[Iterator[bytes]]:
        """The content of ``file`` from byte ``start`` on, in blocks; one request.

        Raises:
            Exception: what huggingface_hub raises; :meth:`refusal` says what it means.
        """
        from huggingface_hub import hf_hub_url
        from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

        url = hf_hub_url(
            snapshot.repository, file.path, revision=snapshot.commit, endpoint=self._endpoint
        )
        headers = build_hf_headers(token=self._token, library_name="tpuflex")
        # Compressed on the way it would have another length.
        headers |= {"Range": f"bytes={start}-", "Accept-Encoding": "identity"}
        # A redirect to where large files are kept loses the token: httpx sends it to no other host.
        with get_session().stream("GET", url, headers=headers, timeout=_TIMEOUT) as response:
            hf_raise_for_status(response)
            content = response.iter_bytes()  # as it comes: what a broken line has brought is kept
            yield content if response.status_code == 206 else _after(content, start)

    def refusal(self, error: Exception, snapshot: Snapshot, file: HubFile) -> TpuflexError:
        """What ``error``, raised while ``file`` was fetched, means."""
        where = f"{snapshot.source}, {file.path}"
        return translated(error, where, snapshot.repository, with_token=bool(self._token))

    def pause(self, error: Exception, attempt: int) -> bool:
        """Wait before another attempt after ``error``; False if there is none to be made.

        Args:
            error: why the last attempt failed.
            attempt: how many attempts have brought nothing.
        """
        if not passing(error) or attempt >= ATTEMPTS:
            return False
        response = getattr(error, "response", None)
        asked = None if response is None else retry_after(response)
        if asked is not None and asked > LONGEST_WAIT:
            return False
        backoff = min(2.0**attempt, 30.0) * (0.5 + self._timing.jitter() / 2)
        return not self._timing.pause(backoff if asked is None else asked + 1.0)

    def _patiently(self, ask: Callable[[], _Answer], where: str, repository: str) -> _Answer:
        attempt = 0
        while True:
            try:
                return ask()
            except TpuflexError:
                raise
            except Exception as error:
                attempt += 1
                if not self.pause(error, attempt):
                    raise self._translated(error, where, repository) from error

    def _translated(self, error: Exception, where: str, repository: str) -> TpuflexError:
        return translated(error, where, repository, with_token=bool(self._token))


def _after(content: Iterator[bytes], start: int) -> Iterator[bytes]:
    """``content`` of a server that ignores ranges, without its first ``start`` bytes."""
    skip = start
    for block in content:
        if skip < len(block):
            yield block[skip:]
        skip = max(0, skip - len(block))
