"""What a benchmark measures: a server, and what its figures are held against."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from pulumi_plugin.printable import printable
from tpuflex.boot.config import serving_args
from tpuflex.catalog.catalog import builtin
from tpuflex.catalog.zones import region_of
from tpuflex.errors import AccessError, ApiError, NotFoundError, UsageError
from tpuflex.measure.judgement import Chips
from tpuflex.measure.run import Load, Server
from tpuflex.measure.server import ServerClient, base_url
from tpuflex.operate.endpoint_connection import direct_session
from tpuflex.planning.kv_cache import CACHE_BYTES
from tpuflex.planning.request import CpuMemoryRequest, MemoryRequest
from tpuflex.planning.stack import memory_request
from tpuflex.planning.stack_cost import hourly
from tpuflex.terminal.markdown import shortened

if TYPE_CHECKING:
    from tpuflex.operate.slice import SliceStatus
    from tpuflex.settings.model import StackSettings
    from tpuflex.stack.connection import Connection

#: Models of a server that an error names, and letters of a name.
_MOST_NAMES, _LONGEST_NAME = 5, 100


@dataclass(frozen=True, slots=True)
class Subject:
    """What is measured.

    Attributes:
        server: the server, as a run records it.
        chips: what its figures are held against.
        stack: the stack; empty for a server by its URL.
        stack_hash: SHA-256 of the stack's settings.
    """

    server: Server
    chips: Chips
    stack: str = ""
    stack_hash: str = ""

    def least_seconds(self, loads: Iterable[Load]) -> float | None:
        """How long ``loads`` take at the chips' peak; None if that is not known."""
        seconds = 0.0
        for load in loads:
            ceilings = self.chips.ceilings(load)
            prompts, answers = ceilings.prompt_per_second, ceilings.output_per_second
            if not prompts or not answers:
                return None
            each = (load.context - load.shared) / prompts + load.output / answers
            seconds += load.requests * each
        return seconds


def subject_of(cloud: Connection, status: SliceStatus) -> Subject:
    """The server of a stack.

    Args:
        cloud: the stack's cloud.
        status: its slice.

    Raises:
        NotFoundError: it does not serve.
    """
    stack, settings = cloud.stack, cloud.stack.settings
    if not status.ready:
        raise NotFoundError(
            f"Stack {stack.name} serves nothing: {status.sentence}.", hint=status.advice.sentence()
        )
    row = None if stack.embedded else settings.catalog.accelerator(settings.slice.accelerator_type)
    asked = memory_request(settings)
    planned = asked if isinstance(asked, MemoryRequest | CpuMemoryRequest) else None
    usd, source = (None, "") if stack.embedded else _price(settings, status.zone)
    cache = status.host.kv_cache if status.host is not None else None
    served = settings.served
    flags = settings.serving.flags
    server = Server(
        model=settings.model.name,
        catalog_model="" if served is None else served.name,
        vllm=status.host.vllm_version if status.host is not None else "",
        image=settings.serving.image,
        accelerator="" if row is None else row.name,
        chips=0 if row is None else row.chips,
        zone=status.zone,
        kv_tokens=None if cache is None else cache.tokens,
        block_size=None if cache is None else cache.block_size,
        max_model_len=None if planned is None else planned.max_model_len,
        max_num_seqs=None if planned is None else planned.max_num_seqs,
        args=(*serving_args(flags, row.devices if row else 1), *settings.serving.extra_args),
        usd_per_hour=usd,
        price_source=source,
    )
    on_chips = planned if isinstance(planned, MemoryRequest) else None
    plain = on_chips is not None and not (
        on_chips.quantized_on_load or on_chips.weights_known or on_chips.speculative
    )
    chips = Chips(
        model=served,
        accelerator=row,
        usd_per_hour=usd,
        max_num_seqs=server.max_num_seqs,
        block_size=server.block_size,
        kv_itemsize=2 if on_chips is None else CACHE_BYTES[on_chips.kv_cache_dtype],
        decodes_plainly=plain,
    )
    digest = hashlib.sha256(settings.model_dump_json().encode()).hexdigest()
    return Subject(server, chips, stack.name, digest)


def _price(settings: StackSettings, zone: str) -> tuple[Decimal | None, str]:
    catalog, region = settings.catalog, region_of(zone)
    chips = catalog.accelerators[settings.slice.accelerator_type]
    figure = hourly(chips, catalog.price(chips.generation, region), region)
    if figure.value is None:
        return None, ""
    read = "; ".join(f"{source.where}, {source.date}" for source in figure.sources)
    return Decimal(str(figure.value)), f"{figure.basis} ({read})"


def subject_at(url: str, *, model: str, key: str, ca: Path | None) -> Subject:
    """The server at ``url``, of which only what it says is known.

    Args:
        url: base URL, with or without ``/v1``.
        model: name of the served model; empty for the only one.
        key: the API key; empty for none.
        ca: certificates that are trusted.

    Raises:
        AccessError, ApiError: it refuses the key, or does not answer.
        UsageError: it serves no such model, or several, and none is named; or that is no URL.
    """
    base = base_url(url)
    session = direct_session()
    if ca is not None:
        session.verify = str(ca)
    running = ServerClient(
        endpoint=f"{base}/v1",
        through="direct",
        model=model,
        key=key,
        session=session,
    )
    try:
        served = {each.id: each for each in running.models()}
    except AccessError as error:
        raise AccessError(f"{url} refused the API key.", hint="Set OPENAI_API_KEY.") from error
    if model not in served and (model or len(served) != 1):
        named = [shortened(printable(name), _LONGEST_NAME) for name in served][:_MOST_NAMES]
        more = f" and {len(served) - _MOST_NAMES} more" if len(served) > _MOST_NAMES else ""
        names = f"{', '.join(named) or 'none'}{more}"
        why = f"serves no {model}" if model else "serves more than one model"
        raise UsageError(f"{url} {why}: it has {names}.", option="--model")
    found = served[model or next(iter(served))]
    cache, version = None, ""
    with suppress(ApiError):  # of a server that is not vLLM
        cache, version = running.metrics().kv_cache, running.version()
    row = builtin().model(found.id)
    server = Server(
        model=found.id,
        catalog_model="" if row is None else row.name,
        vllm=version,
        kv_tokens=None if cache is None else cache.tokens,
        block_size=None if cache is None else cache.block_size,
        max_model_len=found.max_model_len,
    )
    return Subject(server, Chips(model=row, block_size=server.block_size))
