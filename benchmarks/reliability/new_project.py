"""A project of the strict cloud that was made a moment ago, as a slice's first request finds it.

``tpuflex up`` enables the APIs and makes the service account; the rigs with a single queued
resource have no program that does, so this does it for them. The first request then meets an API
that does not answer yet (:class:`embedded_cloud.strictness.Apis`) and a service account that nodes
do not know yet (:class:`embedded_cloud.strictness.ServiceAccounts`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from embedded_cloud.strictness import STRICT

Json = dict[str, Any]

#: Makes one call of an API; raises if it is refused.
Call = Callable[[str, str, Json], object]

#: How long ago the TPU API was enabled when the first command runs: it answers halfway through.
_ENABLED_S = STRICT.apis.answers_after_s / 2


def make_ready(call: Call, advance: Callable[[float], object], service_account: str) -> None:
    """Enable what a slice needs in an empty project, and make its service account.

    Args:
        call: makes a call as the owner of the cloud.
        advance: moves the cloud's clock.
        service_account: e-mail address of the account of the slice's nodes.
    """
    account, _, rest = service_account.partition("@")
    project = rest.partition(".")[0]
    services = f"/v1/projects/{project}/services"
    call("POST", f"{services}:batchEnable", {"serviceIds": ["iam.googleapis.com"]})
    advance(STRICT.apis.answers_after_s - _ENABLED_S)
    call("POST", f"{services}:batchEnable", {"serviceIds": ["tpu.googleapis.com"]})
    advance(_ENABLED_S)
    call("POST", f"/v1/projects/{project}/serviceAccounts", {"accountId": account})
