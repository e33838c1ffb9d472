"""The gcp plugin takes quota from the same project as our own requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.test_credentials import KEY, QUOTA, USER, environment
from tpuflex.engine.plugin_credentials import plugins_own, with_quota_project


@pytest.mark.parametrize(
    ("info", "more", "project"),
    [
        (USER, {}, "stack-project"),
        (USER | QUOTA, {}, "quota-project"),
        (USER | QUOTA, {"GOOGLE_CLOUD_QUOTA_PROJECT": "named"}, "named"),
        (KEY, {}, ""),
        (KEY, {"GOOGLE_CLOUD_QUOTA_PROJECT": "named"}, "named"),
        (USER, {"GOOGLE_OAUTH_ACCESS_TOKEN": "ya29.x"}, ""),
        (USER, {"USER_PROJECT_OVERRIDE": "false"}, ""),
        (USER, {"GOOGLE_BILLING_PROJECT": "own"}, ""),
    ],
)
def test_the_plugin_is_told_the_quota_project(
    tmp_path: Path, info: Any, more: dict[str, str], project: str
) -> None:
    """M4: its own variables name it, unless the user has set them or there is nothing to name."""
    environ = environment(tmp_path, info, **more)
    told = {"USER_PROJECT_OVERRIDE": "true", "GOOGLE_BILLING_PROJECT": project} if project else {}

    assert with_quota_project(environ, "stack-project") == {**environ, **told}


def test_credentials_that_only_the_plugin_reads() -> None:
    """They are named, so that nobody wonders who acted."""
    environ = {"GOOGLE_CREDENTIALS": "{}", "GCLOUD_KEYFILE_JSON": "", "GOOGLE_PROJECT": "p"}

    assert plugins_own(environ) == ("GOOGLE_CREDENTIALS",)
