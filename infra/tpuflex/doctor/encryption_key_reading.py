"""What `tpuflex doctor` reads of a key of the user's, and of who may use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.doctor.encryption_key import KEY, agent_checks, key_check
from tpuflex.google.existing_key import agents
from tpuflex.google.project_policy import POLICY
from tpuflex.google.reading import Unread, attempt, attempt_if_there

if TYPE_CHECKING:
    from tpuflex.doctor.check import Check
    from tpuflex.google.apis import Apis
    from tpuflex.stack.connection import Connection

_VERSION = {"options.requestedPolicyVersion": "3"}


def key_checks(cloud: Connection, apis: Apis) -> list[Check]:
    """How the key stands, and whether those may use it who have to, where there is one.

    Args:
        cloud: the stack's cloud.
        apis: clients that keep nobody waiting.
    """
    settings = cloud.stack.settings
    key = settings.encryption.kms_key
    if key is None:
        return []
    kms, manager = apis.cloudkms, apis.resourcemanager
    ring = key.partition("/cryptoKeys/")[0]
    home = key.split("/")[1]
    found = attempt_if_there(lambda: kms.call("GET", f"/v1/{key}"))
    number = attempt(lambda: cloud.project_number)
    checks = [key_check(key, found)]
    if isinstance(number, Unread):
        return [*checks, KEY.unknown(number)]
    policies = [
        attempt_if_there(lambda: kms.call("GET", f"/v1/{key}:getIamPolicy", query=_VERSION)),
        attempt_if_there(lambda: kms.call("GET", f"/v1/{ring}:getIamPolicy", query=_VERSION)),
        attempt_if_there(
            lambda: manager.call("POST", f"/v1/projects/{home}:getIamPolicy", body=POLICY)
        ),
    ]
    return [*checks, *agent_checks(key, agents(settings, number), policies)]
