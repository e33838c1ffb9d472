"""Users add rows to the catalog and replace its rows."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pulumi
import pytest
from pulumi.runtime.config import set_all_config
from pulumi.runtime.settings import SETTINGS

from tests.unit.catalog_files import CATALOG_FILE, CHIPS, PRICE, SOURCE, project
from tests.unit.stack_sections import sections
from tpuflex.catalog.catalog import builtin
from tpuflex.errors import SettingsError
from tpuflex.planning.cost import run_cost
from tpuflex.settings.load import load_pulumi_config, load_stack_file, parse
from tpuflex.settings.rules import warnings


def test_a_price_of_ones_own_is_the_price_of_the_run(tmp_path: Path) -> None:
    """A row of catalog.yaml replaces the one of the same generation, region and kind."""
    settings = load_stack_file(project(tmp_path, CATALOG_FILE)).settings

    cost = run_cost(settings)

    assert cost.per_hour == Decimal("4.40")
    assert cost.price is not None
    assert cost.price.source.where == "our contract of November"


def test_the_stack_file_wins_over_the_file_of_the_project(tmp_path: Path) -> None:
    """The section tpuflex:catalog replaces what catalog.yaml says of the same thing."""
    stack = project(tmp_path, CATALOG_FILE, {"catalog": {"prices": [PRICE]}})

    assert run_cost(load_stack_file(stack).settings).per_hour == Decimal("4.00")


def test_an_accelerator_of_ones_own_can_be_asked_for() -> None:
    """What a row describes is accepted, and everything follows from the row."""
    settings = parse(
        sections({"slice.accelerator_type": "v6e-2", "catalog": {"accelerators": [CHIPS]}}), "test"
    )

    assert run_cost(settings).chips == 2
    assert settings.catalog.accelerators["v6e-2"].topology == "1x2"
    assert settings.catalog.models == builtin().models


def test_a_zone_of_ones_own_needs_no_warning() -> None:
    """Somebody who has seen a zone accept requests says so once."""
    zone = {"zone": "us-east5-c", "generation": "v6e", "flex_start": "observed", "source": SOURCE}
    changes: dict[str, object] = {"slice.zones": ["us-east5-c"]}

    def warned(sections: dict[str, object]) -> list[str]:
        found = [finding.key for finding in warnings(parse(sections, "test"))]
        return [key for key in found if key.startswith("tpuflex:slice.zones")]

    assert warned(sections(changes))
    assert not warned(sections({**changes, "catalog": {"zones": [zone]}}))


def test_settings_with_rows_are_written_and_read_back() -> None:
    """The rows of the user go along with the settings; the rows of tpuflex do not."""
    settings = parse(sections({"catalog": {"prices": [PRICE]}}), "test")
    plain = parse(sections(), "test")

    assert parse(settings.model_dump(mode="json"), "again") == settings
    assert parse({**dict(settings)}, "objects") == settings
    assert settings.model_dump(mode="json")["catalog"]["prices"][0]["usd_per_chip_hour"] == "1"
    assert plain.model_dump(mode="json")["catalog"] == {}


@pytest.mark.parametrize("said", [True, False])
def test_plain_pulumi_reads_the_file_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: bool
) -> None:
    """`pulumi up` gives the program the stack's sections; catalog.yaml is beside Pulumi.yaml, which
    the language host names, or above the directory that it starts the program in."""
    project(tmp_path, CATALOG_FILE)
    set_all_config(
        {
            f"tpuflex:{name}": value if isinstance(value, str) else json.dumps(value)
            for name, value in sections().items()
        },
        [],
    )
    monkeypatch.setattr(SETTINGS, "root_directory", str(tmp_path) if said else None)
    if not said:
        monkeypatch.chdir(tmp_path / "stacks")

    assert run_cost(load_pulumi_config(pulumi.Config("tpuflex"))).per_hour == Decimal("4.40")


def test_the_example_of_the_documentation_is_right(tmp_path: Path) -> None:
    """What docs/catalog.md shows can be copied."""
    text = (Path(__file__).parents[2] / "docs" / "catalog.md").read_text()
    example = text.partition("```yaml\n")[2].partition("```")[0]

    catalog = load_stack_file(project(tmp_path, example)).settings.catalog

    assert (len(catalog.own.prices), len(catalog.own.zones)) == (1, 1)


def test_a_row_without_a_runtime_asks_for_one() -> None:
    """A request has to name a runtime version: from the row, or from the stack file."""
    chips = {name: value for name, value in CHIPS.items() if name != "runtime_version"}
    changes: dict[str, object] = {
        "slice.accelerator_type": "v6e-2",
        "catalog": {"accelerators": [chips]},
    }

    with pytest.raises(SettingsError, match=r"slice\.runtime_version: is missing"):
        parse(sections(changes), "test")
    assert parse(sections({**changes, "slice.runtime_version": "v2-alpha-tpuv6e"}), "test")


@pytest.mark.parametrize(
    ("accelerator", "message"),
    [
        ("v6e-16", "has 4 hosts, and serving across hosts is not built yet. Write v6e-8"),
        ("v5litepod-32", "has 8 hosts, .* Write v5litepod-8 or smaller"),
        ("v5p-64", "has 8 hosts, .* Write v5p-8 or smaller"),
        ("tpu7x-8", "the Cloud TPU API, .* does not have tpu7x-8. Write v6e-8 or smaller"),
    ],
)
def test_what_cannot_be_served_on_is_refused(accelerator: str, message: str) -> None:
    """The catalog knows more than can be deployed; the reason is given."""
    with pytest.raises(SettingsError, match=message):
        parse(sections({"slice.accelerator_type": accelerator}), "test")
