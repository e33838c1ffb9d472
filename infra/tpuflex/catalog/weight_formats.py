"""Which files a set of weights may consist of: data that a server reads, and nothing that it runs.

What a checkpoint may hold beside data is code (`*.py`, run with `trust_remote_code`) and pickles
(`*.bin`, `*.pt`), which run code while they are read. Both are left out of a push, and refused on
verify and on the host, unless the stack file names them. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase

from tpuflex.catalog.rows import Source

#: Names what a set of weights consists of; no file of a model.
MANIFEST_NAME = "MANIFEST.json"


def _read(where: str) -> Source:
    return Source(where=where, date=date(2026, 11, 22))


_SAFETENSORS = _read("https://huggingface.co/docs/safetensors/index")
_TRANSFORMERS = _read("https://huggingface.co/docs/transformers/fast_tokenizers")
_CHAT = _read("https://huggingface.co/docs/transformers/chat_templating")
_MISTRAL = _read("https://docs.vllm.ai/en/latest/models/supported_models/")
_TIKTOKEN = _read("https://github.com/openai/tiktoken")
_CARD = _read("https://huggingface.co/docs/hub/model-cards")
_PICKLE = _read("https://docs.python.org/3/library/pickle.html")
_REMOTE = _read("https://docs.vllm.ai/en/latest/usage/security/")
_GGUF = _read("https://docs.vllm.ai/en/latest/features/quantization/gguf/")


@dataclass(frozen=True, slots=True)
class Format:
    """Files of one kind.

    Attributes:
        pattern: a shell pattern for the file's name, or for its path if it holds a slash.
        holds: what such files hold.
        source: where that is said.
    """

    pattern: str
    holds: str
    source: Source


#: What may be pushed and served. README, licence and pictures are data that no server reads.
#: Exact names, or endings: a name may not go on behind what says that it is data.
DATA_FORMATS: tuple[Format, ...] = (
    Format("*.safetensors", "tensors", _SAFETENSORS),
    Format("*.json", "configuration, tokenizer, index of the shards", _TRANSFORMERS),
    Format("*.jinja", "chat template, rendered in a sandbox", _CHAT),
    Format("*.txt", "vocabulary, merges, texts", _TRANSFORMERS),
    Format("tokenizer.model", "SentencePiece tokenizer", _TRANSFORMERS),
    *(
        Format(f"tokenizer.model.{version}", "a tokenizer of Mistral's", _MISTRAL)
        for version in ("v[0-9]", "v[0-9][0-9]", "v[0-9]m[0-9]", "v[0-9][0-9]m[0-9]")
    ),
    Format("spiece.model", "SentencePiece tokenizer", _TRANSFORMERS),
    Format("sentencepiece*.model", "SentencePiece tokenizer", _TRANSFORMERS),
    Format("*.tiktoken", "byte pair ranks", _TIKTOKEN),
    *(
        Format(pattern, "documents", _CARD)
        for pattern in ("*.md", "LICENSE", "LICENCE", "NOTICE", "USE_POLICY", "*.pdf")
    ),
    *(
        Format(pattern, "pictures of a model card", _CARD)
        for pattern in ("*.png", "*.jpg", "*.jpeg", "*.gif", "*.svg", "*.webp")
    ),
)

#: Why some of the others are refused, for people.
REFUSED_FORMATS: tuple[Format, ...] = (
    Format("*.py", "code, which runs with trust_remote_code", _REMOTE),
    *(
        Format(pattern, "a pickle, which runs code while it is read", _PICKLE)
        for pattern in ("*.bin", "*.pt", "*.pth", "*.pkl", "*.pickle", "*.ckpt")
    ),
    Format("*.gguf", "GGUF, which is not read from a directory: convert it", _GGUF),
)


def allowed_patterns(extra: Iterable[str] = ()) -> tuple[str, ...]:
    """The patterns of the files that may be served, with those that the stack file adds."""
    return (*(format_.pattern for format_ in DATA_FORMATS), *extra)


def fits(path: str, patterns: Iterable[str]) -> bool:
    """Whether ``path`` (below the weights, with forward slashes) fits one of ``patterns``.

    A pattern without a slash is compared with the name alone. The host's script does the same.
    """
    name = path.rpartition("/")[2]
    return any(fnmatchcase(path if "/" in each else name, each) for each in patterns)
