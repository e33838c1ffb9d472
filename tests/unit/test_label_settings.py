"""The setting `labels`: what Google takes, and what is tpuflex's own."""

from __future__ import annotations

import pytest

from tests.unit.stack_sections import findings, sections
from tpuflex.settings.load import parse
from tpuflex.settings.rules import MOST


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"team": "search", "cost-centre": "4711", "a_1": "b-2_c", "empty": ""},
        {"k" * 63: "v" * 63},
        {f"k{number}": "v" for number in range(MOST)},
        {"tpuflex": "x", "google": "x"},
    ],
)
def test_labels_that_google_takes(labels: dict[str, str]) -> None:
    """They are kept as they are written."""
    assert parse(sections({"labels": labels}), "test").labels == labels


_TEXT = "Write lower-case letters, digits, - and _, at most 63; a key begins with a letter."


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({"Team": "x"}, f'tpuflex:labels.Team: "Team" cannot be used. {_TEXT}'),
        ({"1st": "x"}, f'tpuflex:labels.1st: "1st" cannot be used. {_TEXT}'),
        ({"team": "Search"}, f'tpuflex:labels.team: "Search" cannot be used. {_TEXT}'),
        ({"team": "a b"}, f'tpuflex:labels.team: "a b" cannot be used. {_TEXT}'),
        ({"team": 4711}, "tpuflex:labels.team: 4711 is not text. Write text (in quotes)."),
        (
            {"team": None},
            "tpuflex:labels.team: is empty. Write a value, or remove the line.",
        ),
        (
            ["team"],
            'tpuflex:labels: ["team"] is not a section of keys and values. Write a section of keys'
            " and values.",
        ),
        (
            {"tpuflex-owner": "0123456789abcdef"},
            "tpuflex:labels.tpuflex-owner: labels that begin with tpuflex- are tpuflex's own."
            " Write another key.",
        ),
        (
            {"goog-x": "1"},
            "tpuflex:labels.goog-x: labels that begin with goog- are Google's own."
            " Write another key.",
        ),
        (
            {f"k{number}": "v" for number in range(MOST + 1)},
            "tpuflex:labels: 60 labels are too many: Google takes 64 of a resource, and 5 are"
            " needed to find it again. Write at most 59.",
        ),
    ],
)
def test_others_are_refused_by_their_key(labels: object, said: str) -> None:
    """With what to write instead; a label that says whose a resource is cannot be taken over."""
    assert [str(each) for each in findings(sections({"labels": labels}))] == [said]
