"""Catalog rows agree with each other and say where they come from."""

from __future__ import annotations

import json
import math
import pkgutil

import pytest
import yaml

from embedded_cloud.services.tpu.zones import ACCELERATORS, RUNTIME_VERSIONS
from embedded_cloud.services.tpu.zones import Accelerator as EmbeddedAccelerator
from tpuflex.catalog.catalog import FILES, builtin
from tpuflex.catalog.rows import Accelerator, CatalogRows, Model, Sourced
from tpuflex.catalog.zones import REGIONS, is_misspelt, region_of

CATALOG = builtin()


def document(name: str) -> dict[str, list[dict[str, object]]]:
    content = pkgutil.get_data("tpuflex.catalog", f"data/{name}.yaml")
    assert content is not None
    loaded: dict[str, list[dict[str, object]]] = yaml.safe_load(content)
    return loaded


@pytest.mark.parametrize("name", FILES)
def test_each_file_holds_rows_of_its_kind(name: str) -> None:
    """A file is in the format of a user's catalog.yaml, so that its rows can be copied there."""
    rows = document(name)

    assert set(rows) == {name}
    assert CatalogRows.model_validate_json(json.dumps(rows), strict=True)


@pytest.mark.parametrize("name", FILES)
def test_no_row_replaces_another(name: str) -> None:
    """Every row that is written down is in the catalog: no key occurs twice."""
    assert len(getattr(CATALOG, name)) == len(document(name)[name])


def test_every_row_has_a_source_and_a_date() -> None:
    """A fact without provenance cannot be checked again."""
    rows: list[Sourced] = [
        *CATALOG.accelerators.values(),
        *CATALOG.zones.values(),
        *CATALOG.prices.values(),
        *CATALOG.models.values(),
        *CATALOG.images.values(),
    ]
    seen = [each.source for model in CATALOG.models.values() for each in model.seen]

    assert all(len(source.where) > 8 for source in [*(row.source for row in rows), *seen])
    assert all(row.source.date.year >= 2025 for row in rows)


@pytest.mark.parametrize("row", CATALOG.accelerators.values(), ids=lambda row: row.name)
def test_chips_match_name_topology_and_hosts(row: Accelerator) -> None:
    """The name counts chips, or cores from v5p on, which has two a chip; the topology holds all."""
    counted = int(row.name.rpartition("-")[2])

    assert math.prod(map(int, row.topology.split("x"))) == row.chips
    assert counted == row.chips * (2 if row.generation in ("v5p", "tpu7x") else 1)
    assert row.chips // row.hosts == (row.chips if row.hosts == 1 else 4)
    assert row.chips <= 8 or row.hosts > 1


@pytest.mark.parametrize("row", CATALOG.accelerators.values(), ids=lambda row: row.name)
def test_what_the_api_can_ask_for_has_a_runtime(row: Accelerator) -> None:
    """A request names a runtime version; what only Compute Engine sells has none."""
    assert row.flex_start_api == (row.runtime_version is not None)


@pytest.mark.parametrize("theirs", ACCELERATORS.values(), ids=lambda row: row.name)
def test_the_embedded_cloud_has_read_the_same(theirs: EmbeddedAccelerator) -> None:
    """Two independent readings of Google's pages agree."""
    ours = CATALOG.accelerators[theirs.name]

    assert (ours.chips, ours.hosts, ours.topology) == (
        theirs.chips,
        theirs.workers,
        theirs.topology,
    )
    assert ours.runtime_version in RUNTIME_VERSIONS


def test_chips_of_one_generation_are_alike() -> None:
    """Whatever the slice, a v6e chip is a v6e chip."""
    per_chip = {
        (
            row.generation,
            row.hbm_gb_per_chip,
            row.hbm_bytes_per_chip,
            row.bf16_tflops,
            row.int8_tops,
            row.fp8_tflops,
            row.hbm_gbps,
        )
        for row in CATALOG.accelerators.values()
    }

    assert len(per_chip) == len({row.generation for row in CATALOG.accelerators.values()})


def test_the_usable_memory_is_near_the_nominal() -> None:
    """What the runtime reports leaves out a part of each chip's memory; of v5p Google's page gives
    whole GiB, rounded down."""
    for row in CATALOG.accelerators.values():
        nominal = row.hbm_gb_per_chip * 2**30
        most = nominal + (2**30 if row.generation == "v5p" else 0)
        assert row.hbm_bytes_per_chip is None or 0.9 * nominal < row.hbm_bytes_per_chip < most


@pytest.mark.parametrize("row", CATALOG.models.values(), ids=lambda row: row.name)
def test_a_models_shape_is_whole(row: Model) -> None:
    """What differs by layer or by expert is given completely or not at all."""
    assert (row.wide_intermediate_size is None) == (row.wide_layers == 0)
    assert len({row.experts > 0, row.expert_size > 0, row.experts_per_token > 0}) == 1
    assert (row.active_params is None) == (row.experts == 0)
    assert (row.window is None) == (row.full_attention_every is None)
    assert row.kv_shared_layers < row.layers
    assert row.attention_heads % row.kv_heads == 0
    assert row.vision_params is None or "image" in row.modalities
    assert not row.audio_tower or "audio" in row.modalities


@pytest.mark.parametrize("row", CATALOG.models.values(), ids=lambda row: row.name)
def test_what_was_seen_was_seen_on_known_chips(row: Model) -> None:
    """A report names an accelerator of the catalog, or at least a generation."""
    generations = {accelerator.generation for accelerator in CATALOG.accelerators.values()}

    assert {each.accelerator for each in row.seen} <= {*CATALOG.accelerators, *generations}


def test_unknown_names_give_none_and_neighbours() -> None:
    """A lookup never guesses; suggestions are there for messages, always the number asked."""
    assert CATALOG.accelerator("v7x-4") is None
    assert CATALOG.nearest_accelerators("v6-4")[0] == "v6e-4"
    assert len(CATALOG.nearest_accelerators("something else")) == 3
    assert CATALOG.model("nobody/nothing") is None
    assert CATALOG.price("v6e", "mars-north1") is None
    assert CATALOG.zone("us-east5-a", "v2") is None
    assert CATALOG.image("sha256:0") is None


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("google/gemma-4-31b-it", "google/gemma-4-31B-it"),
        ("GOOGLE/GEMMA-4-31B-IT", "google/gemma-4-31B-it"),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("unsloth/gemma-4-31B-it", "google/gemma-4-31B-it"),
        ("NousResearch/Meta-Llama-3.1-8B", "meta-llama/Llama-3.1-8B"),
        ("unsloth/gemma-4-31B-it-bnb-4bit", None),
        ("google/gemma-4-31B", None),
    ],
)
def test_a_model_is_found_by_names_that_are_its_own(asked: str, found: str | None) -> None:
    """In any case, by a former name and as a copy under another owner; a name with more or less in
    it is another model, which has neighbours."""
    row = CATALOG.model(asked)

    assert (row and row.name) == found
    assert CATALOG.nearest_models(asked)


@pytest.mark.parametrize("asked", ["openai/gpt-oss-20b", "mistralai/Mistral-7B-it", "b-it"])
def test_no_model_of_another_family_is_suggested(asked: str) -> None:
    """A few letters in common are no misspelling."""
    assert CATALOG.nearest_models(asked) == ()


def test_every_zone_lies_in_a_known_region() -> None:
    """Zones and regions are spelt alike, and prices are for regions."""
    assert {region_of(zone) for zone, _ in CATALOG.zones} <= set(REGIONS)
    assert {region for _, region, _ in CATALOG.prices} <= set(REGIONS)


def test_no_price_is_invented() -> None:
    """Where a price was not read, there is a row without one."""
    unread = CATALOG.price("v6e", "us-central1")

    assert unread is not None
    assert unread.usd_per_chip_hour is None


def test_documented_zones_are_named_first() -> None:
    """Suggestions begin with what Google documents, and are of the generation."""
    accepting = CATALOG.accepting_zones("v6e")

    assert accepting[0] == "us-east5-a"
    assert "southamerica-west1-a" in accepting
    assert "us-central1-b" not in accepting
    assert "us-west4-a" in CATALOG.accepting_zones("v5e")


def test_spelling_is_told_from_novelty() -> None:
    """Wrong letters are a mistake; a new number may be a new region."""
    assert is_misspelt("us-esat5-a")
    assert is_misspelt("europe-wset4-a")
    assert not is_misspelt("us-east9-a")
    assert not is_misspelt("us-east5-d")
    assert not is_misspelt("mars-north1-a")
    assert CATALOG.nearest_zones("us_east5_a")[0] == "us-east5-a"


def test_a_users_row_replaces_the_one_of_the_same_key() -> None:
    """Only rows of the same key are replaced, others come on top, and the user's are remembered."""
    chip = CATALOG.accelerators["v6e-1"]
    mine = chip.model_copy(update={"ram_gb_per_host": 1})
    new = chip.model_copy(update={"name": "v6e-3"})
    once = CATALOG.extended(CatalogRows(accelerators=(mine, new)))
    twice = once.extended(CatalogRows(accelerators=(chip,)))

    assert once.accelerators["v6e-1"].ram_gb_per_host == 1
    assert twice.accelerators["v6e-1"].ram_gb_per_host == 176
    assert list(once.accelerators) == [*CATALOG.accelerators, "v6e-3"]
    assert {row.name for row in twice.own.accelerators} == {"v6e-1", "v6e-3"}
    assert once.models == CATALOG.models
