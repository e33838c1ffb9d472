"""Users add rows to the catalog and replace its rows; a bad row is refused by file, row and key."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pulumi
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pulumi.runtime.config import set_all_config
from pulumi.runtime.settings import SETTINGS

from tests.unit.stack_sections import sections
from tpuflex.catalog.catalog import builtin
from tpuflex.errors import SettingsError
from tpuflex.planning.cost import run_cost
from tpuflex.settings.catalog_rows import KINDS, read_rows
from tpuflex.settings.load import load_pulumi_config, load_stack_file, parse
from tpuflex.settings.rules import warnings

SOURCE = {"where": "our contract of November", "date": "2026-11-02"}
PRICE = {
    "generation": "v6e",
    "region": "us-east5",
    "kind": "flex_start",
    "usd_per_chip_hour": 1.00,
    "source": SOURCE,
}
CHIPS = {
    "name": "v6e-2",
    "generation": "v6e",
    "chips": 2,
    "hosts": 1,
    "topology": "1x2",
    "runtime_version": "v2-alpha-tpuv6e",
    "flex_start_api": True,
    "hbm_gb_per_chip": 32,
    "source": SOURCE,
}

CATALOG_FILE = """\
# What we pay.
prices:
  - generation: v6e
    region: us-east5
    kind: flex_start
    usd_per_chip_hour: 1.10
    source: {where: our contract of November, date: "2026-11-02"}
"""


def project(
    directory: Path, catalog: str | bytes = "", changes: dict[str, Any] | None = None
) -> Path:
    """A project with ``catalog`` as its catalog.yaml; the stack file with ``changes``."""
    (directory / "Pulumi.yaml").write_text("name: chat\nruntime: python\nstackConfigDir: stacks\n")
    text = catalog.encode() if isinstance(catalog, str) else catalog
    (directory / "catalog.yaml").write_bytes(text)
    (directory / "stacks").mkdir()
    stack = directory / "stacks" / "Pulumi.prod.yaml"
    config = {f"tpuflex:{name}": value for name, value in sections(changes).items()}
    stack.write_text(json.dumps({"config": config}))  # JSON is YAML
    return stack


def refused(stack: Path) -> list[str]:
    """The lines of the error that ``stack`` gives, without the indent."""
    with pytest.raises(SettingsError) as caught:
        load_stack_file(stack)
    return [line.strip() for line in str(caught.value).splitlines()]


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


@pytest.mark.parametrize(
    ("row", "key"),
    [
        ({**CHIPS, "chips": 2**40}, "accelerators[0].chips"),
        ({**CHIPS, "hbm_gbps": 1e300}, "accelerators[0].hbm_gbps"),
        ({**CHIPS, "name": "v6e-2; reboot"}, "accelerators[0].name"),
        ({**CHIPS, "topology": "2x٤"}, "accelerators[0].topology"),
        ({**PRICE, "usd_per_chip_hour": 1e-30}, "prices[0].usd_per_chip_hour"),
        ({**PRICE, "usd_per_chip_hour": 1e30}, "prices[0].usd_per_chip_hour"),
        ({**PRICE, "usd_per_chip_hour": "NaN"}, "prices[0].usd_per_chip_hour"),
    ],
)
def test_figures_that_arithmetic_could_not_hold_are_refused(row: dict[str, Any], key: str) -> None:
    """A row is checked once, so that nothing computed from it can fail."""
    _, findings = read_rows({key.partition("[")[0]: [row]}, "catalog.yaml:")

    assert [finding.key for finding in findings] == [f"catalog.yaml:{key}"]


def test_an_empty_file_is_no_rows(tmp_path: Path) -> None:
    """A file of comments changes nothing."""
    settings = load_stack_file(project(tmp_path, "# nothing yet\n")).settings

    assert settings.catalog == builtin()


ROW = "accelerators:\n- {name: v6e-2, generation: v6e, chips: 2, hosts: 1, topology: 1x2,"
REST = 'flex_start_api: true, source: {where: seen, date: "2026-11-02"}}\n'


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        (
            f"{ROW}\n  hbm_gb_per_chip: many, {REST}",
            "catalog.yaml:accelerators[0].hbm_gb_per_chip: "
            '"many" is not a whole number in the row of "v6e-2" (line 3). Write a whole number.',
        ),
        (
            f"{ROW}\n  hbm_gb_per_chip: 0, {REST}",
            "catalog.yaml:accelerators[0].hbm_gb_per_chip: "
            '0 is out of range in the row of "v6e-2" (line 3). Write 1 or more.',
        ),
        (
            f"{ROW}\n  hbm_gb_per_chips: 32, {REST}",
            "catalog.yaml:accelerators[0].hbm_gb_per_chips: "
            'unknown key in the row of "v6e-2" (line 3). Did you mean hbm_gb_per_chip?',
        ),
        (
            f"{ROW} hbm_gb_per_chip: 32, flex_start_api: true}}\n",
            'catalog.yaml:accelerators[0].source: is missing in the row of "v6e-2". '
            "Write source here. Where the row comes from.",
        ),
        (
            CATALOG_FILE.replace('"2026-11-02"', '"soon"'),
            'catalog.yaml:prices[0].source.date: "soon" is not a date such as "2026-11-22" '
            'in the row of "v6e us-east5 flex_start" (line 7). Write a date such as "2026-11-22".',
        ),
        (
            CATALOG_FILE.replace('"2026-11-02"', "2026-11-02"),
            "catalog.yaml:prices[0].source.date: '2026-11-02' was read as a date (line 7). "
            "Write it in quotes.",
        ),
        (
            CATALOG_FILE.replace("flex_start", "flexible"),
            'catalog.yaml:prices[0].kind: "flexible" is not one of the choices in the row of '
            '"v6e us-east5 flexible" (line 5). Write flex_start, on_demand or spot.',
        ),
        (
            CATALOG_FILE + CATALOG_FILE.partition("prices:\n")[2],
            "catalog.yaml:prices[1]: a row for v6e us-east5 flex_start stands above (line 2). "
            "Remove one of them.",
        ),
        (
            "accelerator: []\n",
            "catalog.yaml:accelerator: unknown key (line 1). Did you mean accelerators?",
        ),
        (
            "models: {}\n",
            "catalog.yaml:models: {} is not a list of rows (line 1). "
            "Write a list of rows, or remove it.",
        ),
        (
            "models: [gemma]\n",
            'catalog.yaml:models[0]: "gemma" is not a section of keys and values (line 1). '
            "Write a section of keys and values.",
        ),
        (
            "[1]",
            "catalog.yaml: [1] is not a section of lists. Write a section of lists, or remove it.",
        ),
        (
            "zones: []\nzones: []\n",
            "catalog.yaml:zones: is written twice (lines 1 and 2). Remove one of them.",
        ),
        (
            "models:\n - [\n",
            "catalog.yaml: is not YAML: expected the node content, but found '<stream end>' "
            "(line 3). Fix that line.",
        ),
        (b"\xff", "catalog.yaml: cannot be read (UnicodeDecodeError). Write UTF-8 text."),
    ],
)
def test_a_bad_row_is_refused_by_file_row_and_key(
    tmp_path: Path, text: str | bytes, finding: str
) -> None:
    """The message says where to look, what is wrong there, and what to write."""
    assert refused(project(tmp_path, text))[1:] == [finding]


def test_a_link_out_of_the_project_is_not_read(tmp_path: Path) -> None:
    """A checkout cannot have another file of this machine read, and shown in an error."""
    root = tmp_path / "project"
    root.mkdir()
    stack = project(root)
    (tmp_path / "other").write_text("a-secret: b\n")
    (root / "catalog.yaml").unlink()
    (root / "catalog.yaml").symlink_to(tmp_path / "other")

    (finding,) = refused(stack)[1:]
    assert finding.startswith("catalog.yaml: is a link out of the project")
    assert "a-secret" not in finding


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """Neither catalog.yaml nor a stack file that is no regular file is read."""
    stack = project(tmp_path)
    (tmp_path / "catalog.yaml").unlink()
    os.mkfifo(tmp_path / "catalog.yaml")
    assert refused(stack)[1:] == ["catalog.yaml: is not a regular file. Put a file of text there."]
    stack.unlink()
    os.mkfifo(stack)
    assert refused(stack)[1].endswith("is not a regular file. Put a file of text there.")


def test_a_bad_row_of_the_stack_file_has_the_stack_files_key(tmp_path: Path) -> None:
    """The section is reported like every other section."""
    stack = project(tmp_path, "", {"catalog": {"prices": [{**PRICE, "usd_per_chip_hour": -1}]}})

    assert refused(stack)[1:] == [
        "tpuflex:catalog.prices[0].usd_per_chip_hour: -1 is out of range in the row of "
        '"v6e us-east5 flex_start" (line 1). Write more than 0.'
    ]


def test_bad_rows_hide_neither_each_other_nor_the_rest(tmp_path: Path) -> None:
    """Everything wrong, in both files, is one error."""
    text = CATALOG_FILE.replace("us-east5", "us_east5").replace("1.10", "free")
    stack = project(tmp_path, text, {"slice.accelerator_type": "v6e-3"})

    assert [line.partition(": ")[0] for line in refused(stack)[1:]] == [
        "tpuflex:slice.accelerator_type",
        "catalog.yaml:prices[0].region",
        "catalog.yaml:prices[0].usd_per_chip_hour",
    ]


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


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)
_ROWS = st.dictionaries(
    st.sampled_from(["name", "source", "chips", "zone", "seen", "modalities", "where"]), _JSON
)


@given(document=_JSON | st.dictionaries(st.sampled_from([*KINDS]), st.lists(_ROWS) | _JSON))
def test_whatever_a_file_holds_findings_name_their_place(document: Any) -> None:
    """No document is a traceback, and every finding begins with the file."""
    rows, findings = read_rows(document, "catalog.yaml:")

    assert all(finding.key.startswith("catalog.yaml") for finding in findings)
    assert findings or document is None or rows.model_dump(exclude_defaults=True) == {}
