"""What is to be copied: one JSON document in the machine's metadata. It holds no secret."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from hashlib import _Hash


def git_object_id(size: int) -> _Hash:
    """What computes Git's object id of a file of ``size`` bytes, as these go by
    (https://git-scm.com/book/en/v2/Git-Internals-Git-Objects)."""
    return hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)


@dataclass(frozen=True, slots=True)
class HubOrigin:
    """A model of the Hub.

    Attributes:
        hub: address of the Hub, without a slash at the end.
        repository: OWNER/NAME.
        commit: the commit, 40 hex digits.
        token_version: resource name of the version of the secret with the Hub's token; empty for
            none.
        kind: tells it from other origins.
    """

    hub: str
    repository: str
    commit: str
    token_version: str = ""
    kind: Literal["hub"] = "hub"


@dataclass(frozen=True, slots=True)
class BucketOrigin:
    """A model in another bucket, or elsewhere in the same one.

    Attributes:
        bucket: name of the bucket.
        prefix: where in it, without a slash at the end; empty for the whole bucket.
        kind: tells it from other origins.
    """

    bucket: str
    prefix: str
    kind: Literal["bucket"] = "bucket"

    def name(self, path: str) -> str:
        """The name of the object with the file ``path``."""
        return f"{self.prefix}/{path}" if self.prefix else path

    def __str__(self) -> str:
        return f"gs://{self.bucket}/{self.prefix}".rstrip("/")


_ORIGINS = {"hub": HubOrigin, "bucket": BucketOrigin}


@dataclass(frozen=True, slots=True)
class JobFile:
    """One file of the model.

    Attributes:
        path: path below the origin, and below the prefix.
        size: in bytes.
        sha256: SHA-256 of a file in LFS, in hex; empty for any other.
        git_id: Git's object id (SHA-1) of a file in Git itself; empty for any other.
        crc32c: CRC32C of a file in a bucket, as Cloud Storage writes it; empty for any other.
        generation: of the object of a file in a bucket; 0 for any other.
    """

    path: str
    size: int
    sha256: str = ""
    git_id: str = ""
    crc32c: str = ""
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """One copy.

    Attributes:
        origin: where the files come from.
        files: every file, sorted by path.
        bucket: name of the bucket.
        prefix: where in it, without a slash at the end.
        model: name under which the model is served.
        revision: names this set of weights.
        source: what the manifest's object says that it came from.
        pinned: SHA-256 that the manifest must have; empty for any.
        known: SHA-256 of manifests by which these weights may be known already.
        again: whether every file is sent, whatever the bucket holds.
        storage: address of Cloud Storage, without a slash at the end.
        secretmanager: address of Secret Manager, without a slash at the end.
        create_only: whether nothing that is there may be replaced or deleted.
        settling_seconds: for so long a refusal may be a role that has no effect yet.
        mark: metadata of every object that is written, without which none is taken for the set's.
    """

    origin: HubOrigin | BucketOrigin
    files: tuple[JobFile, ...]
    bucket: str
    prefix: str
    model: str
    revision: str
    source: str
    pinned: str
    known: tuple[str, ...]
    again: bool
    storage: str
    secretmanager: str
    create_only: bool = False
    settling_seconds: int = 0
    mark: Mapping[str, str] = field(default_factory=dict)

    @property
    def total_bytes(self) -> int:
        """Sum of all sizes."""
        return sum(file.size for file in self.files)

    @property
    def id(self) -> str:
        """Tells this job from every other: 32 hex digits."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:32]

    def to_json(self) -> str:
        """The document."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Job:
        """The job that ``text`` is, which :meth:`to_json` wrote.

        Raises:
            ValueError, KeyError, TypeError: it is none.
        """
        try:
            document: Mapping[str, Any] = json.loads(text)
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error
        values = {each.name: document[each.name] for each in fields(cls)}
        values["origin"] = _ORIGINS[document["origin"]["kind"]](**document["origin"])
        values["files"] = tuple(JobFile(**file) for file in document["files"])
        values["known"] = tuple(document["known"])
        return cls(**values)
