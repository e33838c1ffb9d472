"""What keeps `library down` from deleting a library."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from tpuflex.cli.steps.library_contents import Contents
from tpuflex.cli.steps.library_down import _require_unread
from tpuflex.errors import ConflictError
from tpuflex.gcp.cloud_resource import CloudResource
from tpuflex.gcp.library import READER_TITLE, below, readers
from tpuflex.gcp.transport import JsonObject


@pytest.mark.parametrize(("title", "used"), [(READER_TITLE, True), ("x", False)])
def test_hosts_use_it(title: str, used: bool) -> None:
    """An endpoint's hosts; not any account that may read."""
    condition: JsonObject = {"title": title, "expression": below("b", "models/m/1")}
    binding: JsonObject = {
        "role": "roles/storage.objectViewer",
        "members": ["serviceAccount:a@p.iam.gserviceaccount.com"],
        "condition": condition,
    }
    bucket = cast(CloudResource, SimpleNamespace(name="b", location="us-east5"))
    found = Contents(bucket, (), 0, 0, readers({"bindings": [binding]}))
    _require_unread([found], with_readers=True)
    if not used:
        _require_unread([found], with_readers=False)
        return
    with pytest.raises(ConflictError, match="models/m/1"):
        _require_unread([found], with_readers=False)
