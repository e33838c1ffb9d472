"""The program deploys to the cloud that the environment points to, or not at all."""

from __future__ import annotations

import pytest
from pulumi import RunError

from tests.loopback import overrides
from tpuflex.components.cloud import PLUGIN_ENDPOINTS, require_matching_cloud, runs_embedded
from tpuflex.gcp.endpoints import OVERRIDES, REHEARSAL_VARIABLE

LOCAL = overrides("http://127.0.0.1:1")
#: Every API and the published plugin on this machine: nobody listens, and nobody is a stranger.
EMBEDDED = LOCAL | dict.fromkeys(PLUGIN_ENDPOINTS, "http://127.0.0.1:1/v1/")
REHEARSAL = EMBEDDED | {REHEARSAL_VARIABLE: "1"}


def test_a_stack_for_google_is_deployed_to_the_embedded_cloud_in_a_rehearsal_only() -> None:
    """Without the variable, the same environment is refused."""
    require_matching_cloud("google", REHEARSAL)

    assert runs_embedded("google", REHEARSAL)
    assert not runs_embedded("google", EMBEDDED)
    with pytest.raises(RunError, match="points to the embedded cloud"):
        require_matching_cloud("google", EMBEDDED)


@pytest.mark.parametrize("cloud", ["google", "embedded"])
@pytest.mark.parametrize("missing", [*OVERRIDES.values(), *PLUGIN_ENDPOINTS])
def test_no_half_of_a_rehearsal_goes_to_google(cloud: str, missing: str) -> None:
    """Each endpoint of ours and of the published plugin has to be on this machine."""
    environ = {name: value for name, value in REHEARSAL.items() if name != missing}

    with pytest.raises(RunError, match=f"{missing}|in part"):
        require_matching_cloud(cloud, environ)  # type: ignore[arg-type]
