"""Rows of the catalog: what is known of accelerators, zones, prices, models and images.

The same classes read the data that comes with tpuflex and the rows that a user adds. What is not
known is absent: no row holds a guess. Whatever limits a figure, or contradicts it, is in ``note``.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

Text = Annotated[str, Field(min_length=1, max_length=600)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_./-]{0,95}$")]
# Far above anything that exists, and far below what arithmetic on them could not hold.
Count = Annotated[int, Field(ge=1, le=10**15)]
Number = Annotated[int, Field(ge=0, le=10**15)]
Machines = Annotated[int, Field(ge=1, le=2**20)]
Positive = Annotated[float, Field(gt=0, le=1e9)]
Dollars = Annotated[Decimal, Field(gt=0, lt=100_000, decimal_places=6)]
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
Version = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)*([A-Za-z0-9.+-]*)$", max_length=60)]
Release = Annotated[str, Field(pattern=r"^[0-9]{1,6}(\.[0-9]{1,6}){0,3}$")]

#: ``documented``: a Google page says so. ``observed``: requests were accepted. ``refused``: a
#: request was refused with INVALID_ARGUMENT. ``hardware``: the zone has such chips, Flex-start was
#: not tried.
FlexStart: TypeAlias = Literal["documented", "observed", "refused", "hardware"]
PriceKind: TypeAlias = Literal["flex_start", "on_demand", "spot"]
Family: TypeAlias = Literal["gemma4", "gemma3", "llama", "qwen2", "qwen3", "qwen3_moe"]
Implementation: TypeAlias = Literal["flax_nnx", "torchax"]
Modality: TypeAlias = Literal["text", "image", "audio", "video"]


class Row(BaseModel):
    """Base of all rows: unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(Row):
    """Where a row comes from."""

    where: Text
    """A URL, or what was observed."""
    date: dt.date
    """When it was read or observed, as text such as "2026-11-22": the facts change without
    notice."""

    @property
    def own(self) -> bool:
        """Whether it is the word of a user, whose row it is."""
        return False

    @property
    def text(self) -> str:
        """The source in words."""
        return f"{self.where} ({self.date})"


class OwnSource(Source):
    """Where a row that a user added comes from."""

    @property
    def own(self) -> bool:
        """As of :class:`Source`."""
        return True

    @property
    def text(self) -> str:
        """The source in words."""
        return f"{super().text}: a row of yours"


class Sourced(Row):
    """A row with its source."""

    source: Source
    """Where the row comes from."""
    note: Text | None = None
    """What limits or contradicts the row's figures."""


class Accelerator(Sourced):
    """One accelerator type as the Cloud TPU API spells it."""

    name: Name
    """Accelerator type, such as v6e-8. v6e and v5e count chips, v5p and tpu7x cores (two a
    chip)."""
    generation: Name
    """TPU generation, such as v6e; prices and zones are per generation."""
    chips: Machines
    """Chips in the slice."""
    devices_per_chip: Machines = 1
    """Devices that JAX sees in a chip, among which its memory is divided and which tensor
    parallelism counts: two in TPU7x, whose cores are devices of their own."""
    hosts: Machines
    """Virtual machines of the slice; more than one needs multi-host serving."""
    topology: str = Field(pattern=r"^[0-9]+x[0-9]+(x[0-9]+)?$")
    """Shape of the slice, such as 2x4."""
    runtime_version: Name | None = None
    """TPU software version that Google's documentation gives for it."""
    flex_start_api: bool
    """Whether the Cloud TPU API can ask for it with the Flex-start provisioning model."""
    hbm_gb_per_chip: Count
    """High-bandwidth memory per chip in GB, nominal."""
    hbm_bytes_per_chip: Count | None = None
    """``bytes_limit`` per chip that the runtime reports, which is what a server can use."""
    vcpus_per_host: Count | None = None
    """Virtual CPUs of a host."""
    ram_gb_per_host: Count | None = None
    """Memory of a host in GB."""
    bf16_tflops: Positive | None = None
    """Peak of a chip in bfloat16, TFLOP/s."""
    int8_tops: Positive | None = None
    """Peak of a chip in int8, TOP/s."""
    fp8_tflops: Positive | None = None
    """Peak of a chip in fp8, TFLOP/s; absent where it is not native."""
    hbm_gbps: Positive | None = None
    """Bandwidth of a chip's high-bandwidth memory, GB/s."""

    @property
    def devices(self) -> int:
        """Devices of the slice, which is the largest tensor parallel size."""
        return self.chips * self.devices_per_chip

    @property
    def device(self) -> str:
        """What one of them is called."""
        return "chip" if self.devices_per_chip == 1 else "core"


class Zone(Sourced):
    """What is known of one generation on Flex-start in one zone."""

    zone: str = Field(pattern=r"^[a-z]+-[a-z]+[0-9]+-[a-z0-9]+$")
    """Zone name."""
    generation: Name
    """TPU generation."""
    flex_start: FlexStart
    """What is known of its support for Flex-start."""


class Price(Sourced):
    """The price of one chip per hour."""

    generation: Name
    """TPU generation."""
    region: str = Field(pattern=r"^[a-z]+-[a-z]+[0-9]+$")
    """Region in which the price holds."""
    kind: PriceKind
    """How the chip is bought."""
    usd_per_chip_hour: Dollars | None = None
    """US dollars; absent where the price was not read."""


class ReportedRun(Row):
    """A report of a model that was started on chips."""

    accelerator: Name
    """Accelerator type it ran on; the generation where the report does not say more."""
    result: Literal["served", "failed"]
    """What came of it."""
    what: Text
    """Data type, flags and outcome, in words."""
    source: Source
    """Who reported it, and when."""


class StoredBytes(Row):
    """Bytes of quantised weights, as the files hold them and a server keeps them."""

    sharded: Count
    """Those that tensor parallelism spreads over the chips."""
    replicated: Number
    """Those that each chip holds whole."""
    into_experts: Number = 0
    """Those of ``sharded`` that are the experts' two matrices that go in, which the TPU back-end
    pads."""


class Model(Sourced):
    """One model: its shape as vLLM's TPU back-end allocates it, and what was seen of it."""

    name: Name
    """Hugging Face id."""
    former_names: tuple[Name, ...] = ()
    """Ids under which the publisher had it before, which the Hub leads here."""
    family: Family
    """Architecture."""
    implementation: Implementation
    """Implementation that the TPU image chooses by itself: JAX (flax_nnx) or PyTorch (torchax)."""
    layers: Count
    """Decoder layers."""
    hidden_size: Count
    """Width of the residual stream."""
    intermediate_size: Count | None = None
    """Width of the dense feed-forward block; absent where every block is a mixture of experts."""
    wide_intermediate_size: Count | None = None
    """Width of that block in the last ``wide_layers`` layers, where they differ."""
    wide_layers: Number = 0
    """Layers at the end with the wide block."""
    attention_heads: Count
    """Query heads."""
    kv_heads: Count
    """Key-value heads; of the sliding-window layers where the two kinds differ."""
    head_dim: Count
    """Width of a head; of the sliding-window layers where the two kinds differ."""
    global_kv_heads: Count | None = None
    """Key-value heads of full-attention layers, where they differ."""
    global_head_dim: Count | None = None
    """Width of a head of full-attention layers, where it differs."""
    full_attention_every: Count | None = None
    """Every n-th layer attends to the whole context; absent where all do."""
    window: Count | None = None
    """Sliding window in tokens."""
    kv_shared_layers: Number = 0
    """Layers at the end that read another layer's cache and own none."""
    vocab_size: Count
    """Rows of the embedding table."""
    tied_embeddings: bool
    """Whether the output head is the embedding table."""
    experts: Number = 0
    """Routed experts of a layer."""
    expert_size: Number = 0
    """Width of one expert."""
    experts_per_token: Number = 0
    """Experts that a token passes through."""
    per_layer_embedding: Number = 0
    """Width of the per-layer embeddings (PLE) of one layer."""
    vision_params: Count | None = None
    """Parameters of the vision tower that is loaded; absent where there is none, or not known."""
    vision_replicated_params: Count | None = None
    """Those of them that every chip holds whole: position table and norms; absent if not known."""
    audio_tower: bool | None = None
    """Whether the checkpoint has an audio tower; the TPU back-end loads none."""
    modalities: Annotated[tuple[Modality, ...], Field(min_length=1)]
    """What the model takes."""
    max_context: Count | None = None
    """Longest context in tokens that the publisher names."""
    text_params: Count
    """Parameters of the text model as they are allocated on a TPU; 2 bytes each in bfloat16."""
    quantization: Name | None = None
    """How the weights in the files are quantised, by vLLM's name of the method; absent where they
    are not."""
    stored: StoredBytes | None = None
    """Bytes of quantised weights; absent where they are not quantised, or not known."""
    active_params: Count | None = None
    """Parameters that one token uses, where the model is a mixture of experts."""
    gated: bool | None = None
    """Whether the Hub asks for an accepted licence before a download."""
    license: Text | None = None
    """Licence by which it is published."""
    seen: tuple[ReportedRun, ...] = ()
    """Reports of it on chips."""


class Image(Sourced):
    """One image of the server."""

    repository: Text
    """Repository without registry mirror, tag or digest, such as vllm/vllm-tpu."""
    digest: Digest
    """Digest of the image."""
    tag: Text | None = None
    """Tag that pointed to it when the row was written."""
    vllm_version: Version | None = None
    """vLLM's version in it, as its API reports."""
    date: dt.date | None = None
    """When it was built or published."""
    security_floor: Release | None = None
    """Lowest vLLM version without a known hole that concerns tpuflex's use of it. Rows of your own
    can only raise it."""
    seen: tuple[Text, ...] = ()
    """What it was seen to do."""


class CatalogRows(Row):
    """Rows of all kinds, as a catalog.yaml or the section tpuflex:catalog holds them."""

    accelerators: tuple[Accelerator, ...] = ()
    """Accelerator types; a row replaces the one of the same name."""
    zones: tuple[Zone, ...] = ()
    """Zones; a row replaces the one of the same zone and generation."""
    prices: tuple[Price, ...] = ()
    """Prices; a row replaces the one of the same generation, region and kind."""
    models: tuple[Model, ...] = ()
    """Models; a row replaces the one of the same name."""
    images: tuple[Image, ...] = ()
    """Images; a row replaces the one of the same digest."""
