"""What was asked of Google's APIs, and what they answered, in a file.

The variable ``TPUFLEX_RECORD`` names the file; command and provider, which share the environment,
append to it. It is evidence of a run (`make prove-on-google`), and what the embedded cloud is held
to. Credentials are headers, and no header is written; payloads of secrets are left out, and so is
what lets anyone who has a URL do what it is for: signatures, tokens, ids of uploads, and passwords.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import requests

from tpuflex.errors import AccessError

VARIABLE = "TPUFLEX_RECORD"
#: Longer bodies are not written: objects of Cloud Storage.
_LONGEST = 1 << 20
#: Methods whose request or answer holds a secret: Secret Manager's versions, and tokens.
_SECRET = re.compile(r":(access|addVersion|generateAccessToken|generateIdToken|signBlob|signJwt)\b")
#: Parameters of a URL that are as good as a credential: of signed URLs of Cloud Storage
#: (https://cloud.google.com/storage/docs/authentication/signatures), S3, CloudFront and Azure, of
#: an upload under way, and tokens and keys by their usual names.
_CREDENTIAL = re.compile(
    r"x-(?:goog|amz)-.*|.*signature|sig|.*credential|googleaccessid|awsaccesskeyid|key-pair-id"
    r"|policy|verify|upload_id|(?:access_|id_|refresh_|oauth_|xsrf_)?token|key|.*secret|password",
    re.IGNORECASE,
)

#: Where Artifact Registry sends who may read a blob: to a path of its own that ends in a token, and
#: that requests, which is still asking the same host, asks for with the caller's.
_DOWNLOAD = re.compile(r"^(/artifacts-(?:downloads|uploads)/)(.+)$", re.DOTALL)


class Recording:
    """A file of requests and answers, one JSON object on each line.

    Args:
        file: where it is; made for its owner alone where it does not exist.

    Raises:
        AccessError: it cannot be written, or belongs to another user.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            os.close(self._open())
        except OSError as error:
            raise AccessError(
                f"{VARIABLE}={file} cannot be written: {error.strerror}",
                hint=f"Name a file in a directory of yours, or unset {VARIABLE}.",
            ) from error

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Recording | None:
        """The recording that ``environ`` asks for.

        Raises:
            AccessError: as the constructor.
        """
        name = environ.get(VARIABLE, "")
        return cls(Path(name)) if name else None

    def add(
        self, request: requests.PreparedRequest, response: requests.Response, *, whole: bool
    ) -> None:
        """Write ``request`` and the answer to it.

        Args:
            request: what was sent.
            response: what came back.
            whole: whether the answer's body was read; that of a download is not.
        """
        url = request.url or ""
        withheld = bool(_SECRET.search(unquote(url)))
        entry = {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "seconds": round(response.elapsed.total_seconds(), 3),
            "method": request.method,
            "url": _without_credentials(url, signed="Authorization" not in request.headers),
            "body": _readable(request.body, withheld=withheld),
            "status": response.status_code,
            "answer": _readable(response.content if whole else None, withheld=withheld),
        }
        line = json.dumps(entry, ensure_ascii=False) + "\n"
        # The request was sent: whatever becomes of its record, its answer has to arrive. One write
        # to a file that is only appended to: lines of several processes do not mix.
        with contextlib.suppress(OSError), os.fdopen(self._open(), "ab", buffering=0) as file:
            file.write(line.encode())

    def _open(self) -> int:
        """Open the file, which has to be a regular one, ours and nobody else's.

        Raises:
            OSError: it is not, or cannot be opened.
        """
        # Without NONBLOCK, a pipe in its place would be waited for.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(self._file, flags, 0o600)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            os.close(descriptor)
            raise OSError(errno.EPERM, "it is no file of ours alone")
        return descriptor


def _without_credentials(url: str, *, signed: bool) -> str:
    """``url`` with the lengths of what is a credential in its place.

    Args:
        url: what was asked for.
        signed: whether nothing but the URL says who asks: then every part of it may say that, but
            for the host.
    """
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    path = f"/{_length(parts.path)}" if signed else _DOWNLOAD.sub(_without_token, parts.path)
    query = "&".join(_parameter(each, signed=signed) for each in parts.query.split("&"))
    return parts._replace(netloc=host, path=path, query=query, fragment="").geturl()


def _without_token(found: re.Match[str]) -> str:
    return f"{found[1]}{_length(found[2])}"


def _parameter(text: str, *, signed: bool) -> str:
    name, is_, value = text.partition("=")
    if value and (signed or _CREDENTIAL.fullmatch(unquote(name))):
        return f"{name}={_length(value)}"
    if signed:
        return text if is_ or not text else _length(text)
    first, more, rest = text.partition(";")  # which separates parameters, too
    return first + more + _parameter(rest, signed=signed) if more else text


def _length(text: str) -> str:
    return f"({len(text)} letters)"


def _readable(body: Any, *, withheld: bool) -> Any:
    """The JSON value of ``body``; how long it is where it is none, or must not be written."""
    if not isinstance(body, bytes | str) or not body:
        return None
    if not withheld and len(body) <= _LONGEST:
        try:
            return json.loads(body)
        except ValueError:
            pass
    return f"({len(body)} bytes)"
