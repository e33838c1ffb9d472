"""A run that outlives its access tokens, with a user's Application Default Credentials."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from embedded_cloud.json_types import JsonObject
from tests.engine.embedded import Embedded
from tests.engine.test_run import stack_run

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180)]

#: Seconds on the cloud's clock in one of ours.
_SPEED = 300


def test_up_outlives_its_access_tokens(embedded: Embedded) -> None:
    """A user's tokens of five minutes, and a wait of fifteen: `up` succeeds."""
    strictness: JsonObject = {"tokens": {"lifetime_s": 300, "quota_project_required": True}}
    cloud = embedded.cloud.cloud
    cloud.strictness.change(strictness)
    embedded.set_capacity({"admission_s": 0, "grant_after_s": 900, "provisioning_s": 1})
    cloud.run_at(_SPEED)
    now = time.time()
    environ = {
        **{k: v for k, v in embedded.environ.items() if k != "GOOGLE_OAUTH_ACCESS_TOKEN"},
        **cloud.credentials.issue("user", "tpuflex-dev"),
        "TPUFLEX_TIME_SPEED": str(_SPEED),
        "TPUFLEX_TIME_ORIGIN": f"{now}:{cloud.clock.now()}",
    }

    run = stack_run(replace(embedded, environ=environ))
    run.up()
    assert run.outputs()["lifecycle"] == "active"

    calls = cloud.history.entries(0)
    granted = [call for call in calls if call["method_id"] == "oauth2.token"]
    expired = [call for call in calls if call["status"] == 401]
    assert len(granted) > len(expired) >= 2
