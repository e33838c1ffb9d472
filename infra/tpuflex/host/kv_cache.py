"""The KV cache that a host's server has allocated, as the host reports it."""

from __future__ import annotations

from dataclasses import dataclass

from pulumi_plugin.printable import printable
from tpuflex.host.reported import reported_count, reported_object

_LONGEST_DTYPE = 32


@dataclass(frozen=True, slots=True)
class KvCacheReport:
    """What the server says of its KV cache once it serves: vLLM's metric
    ``vllm:cache_config_info`` (https://docs.vllm.ai/en/stable/design/metrics/).

    Attributes:
        block_size: tokens in a block.
        num_blocks: blocks that were allocated, vLLM's null block included.
        cache_dtype: vLLM's name of the type, such as ``auto`` (the model's own) or ``fp8``.
        tokens: tokens that the blocks hold.
    """

    block_size: int
    num_blocks: int
    cache_dtype: str
    tokens: int

    def to_json(self) -> dict[str, object]:
        """The document under ``kv_cache`` that ``tpuflex status --json`` prints."""
        return {
            "block_size": self.block_size,
            "num_blocks": self.num_blocks,
            "cache_dtype": self.cache_dtype,
            "tokens": self.tokens,
        }


def kv_cache_report(text: str) -> KvCacheReport | None:
    """The report in the guest attribute ``kv_cache``; None where it is absent or cannot be read."""
    document = reported_object(text)
    if document is None:
        return None
    block_size = reported_count(document.get("block_size"))
    num_blocks = reported_count(document.get("num_blocks"))
    if not block_size or not num_blocks:
        return None
    dtype = document.get("cache_dtype")
    return KvCacheReport(
        block_size,
        num_blocks,
        printable(dtype)[:_LONGEST_DTYPE] if isinstance(dtype, str) else "",
        reported_count(document.get("tokens")) or block_size * num_blocks,
    )
