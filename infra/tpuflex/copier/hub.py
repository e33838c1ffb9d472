"""Files of the Hub, by range. The token goes to the Hub's own address, and to nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from urllib.parse import quote

from tpuflex.copier.errors import Code, CopyError
from tpuflex.copier.http import Patience, RefusedError, UnreachableError, is_loopback, request
from tpuflex.copier.job import HubOrigin, JobFile
from tpuflex.copier.ranges import BLOCK, Read, resumed


class Hub:
    """The files of a model of the Hub.

    Args:
        origin: names model and commit.
        token: the token to send; empty for none.
        patience: waits between attempts.

    Raises:
        CopyError: the token would cross the network in clear.
    """

    def __init__(self, origin: HubOrigin, token: str, patience: Patience) -> None:
        hub = origin.hub
        if token and not hub.startswith("https://") and not is_loopback(hub):
            raise CopyError("token", "the Hub's address is not https://: no token is sent there")
        self._origin = origin
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._patience = patience

    def blocks(self, file: JobFile) -> Iterator[bytes]:
        """The content of ``file``, in blocks; asked for again from where it broke off.

        Raises:
            CopyError: the Hub refuses, cannot be reached, or sends more than it lists.
        """
        try:
            yield from resumed(file.size, partial(self._from, file), self._patience)
        except (UnreachableError, RefusedError, ValueError) as error:
            raise _refusal(file, error) from error

    def wrong(self, file: JobFile) -> CopyError:
        """What is raised of a content of ``file`` that is another one."""
        return CopyError("hub-content", f"{file.path}: what came is not what the Hub lists")

    @contextmanager
    def _from(self, file: JobFile, start: int) -> Iterator[Read]:
        at = self._origin
        url = f"{at.hub}/{at.repository}/resolve/{at.commit}/{quote(file.path, safe='/')}"
        # Compressed on the way it would have another length.
        asked = {"Range": f"bytes={start}-", "Accept-Encoding": "identity"}
        with request("GET", url, {**self._headers, **asked}, follow=True) as answer:
            if answer.status not in (200, 206):
                raise RefusedError(answer)
            if answer.status == 200:
                skip = start
                while skip and (block := answer.read(min(skip, BLOCK))):
                    skip -= len(block)
            yield answer.read


def _refusal(file: JobFile, error: Exception) -> CopyError:
    if isinstance(error, RefusedError):
        code: Code = "hub-unreachable" if error.passing else "hub-refused"
        return CopyError(code, f"{file.path}: the Hub answered with {error.status}")
    if isinstance(error, ValueError):
        return CopyError("hub-content", f"{file.path}: {error}")
    return CopyError("hub-unreachable", f"{file.path}: no answer ({error})")
