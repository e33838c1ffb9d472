"""A bad row, and a catalog.yaml that cannot be read, are refused by file, row and key."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.catalog_files import CATALOG_FILE, CHIPS, PRICE, project, refused
from tpuflex.settings.catalog_rows import KINDS, read_rows


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
            'catalog.yaml:accelerators[0].source: is missing in the row of "v6e-2" (line 2). '
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
            "catalog.yaml:prices[1]: a row for v6e us-east5 flex_start stands above (line 8). "
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
            "catalog.yaml:zones: is written twice, first in line 1 (line 2). Remove one of them.",
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
