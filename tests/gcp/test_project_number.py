"""The number of a project, as Resource Manager names it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.operate.marked_things import Api
from tpuflex.errors import ApiError
from tpuflex.gcp.project_number import project_number


def test_number() -> None:
    """The API spells the number as text (google.protobuf's form of int64)."""
    api = Api({"GET /v1/projects/p": {"projectId": "p", "projectNumber": "123456789012"}})

    assert project_number(api, "p") == "123456789012"


@pytest.mark.parametrize("answer", [{}, {"projectNumber": ""}, {"projectNumber": "p"}])
def test_an_answer_without_a_number(answer: dict[str, Any]) -> None:
    """What is no number is refused: it must not count as equal to a bucket that names none."""
    with pytest.raises(ApiError, match="no number"):
        project_number(Api({"GET /v1/projects/p": answer}), "p")
