"""HTTP calls on alert policies and notification channels turned into calls on the state."""

from __future__ import annotations

from embedded_cloud.errors import unimplemented
from embedded_cloud.monitoring.alerting import Alerting
from embedded_cloud.paging import Paging
from embedded_cloud.resourcemanager.state import require
from embedded_cloud.routing import Call, Reply

_PAGING = Paging(default=1000, maximum=1000)


class PolicyHandlers:
    """Handlers of ``alertPolicies``."""

    def __init__(self, alerting: Alerting) -> None:
        self._alerting = alerting

    def create(self, call: Call) -> Reply:
        """POST …/alertPolicies."""
        return Reply(body=self._alerting.create_policy(_project(call), call.body or {}))

    def get(self, call: Call) -> Reply:
        """GET …/alertPolicies/{alertPolicy}."""
        return Reply(body=self._alerting.policy(_name(call, "alertPolicies")))

    def list(self, call: Call) -> Reply:
        """GET …/alertPolicies."""
        _check_list(call)
        found = self._alerting.policies(_project(call))
        return _PAGING.resources(call, "alertPolicies", found, head={"totalSize": len(found)})

    def patch(self, call: Call) -> Reply:
        """PATCH …/alertPolicies/{alertPolicy}."""
        name = _name(call, "alertPolicies")
        body = call.body or {}
        return Reply(body=self._alerting.patch_policy(_project(call), name, body, _mask(call)))

    def delete(self, call: Call) -> Reply:
        """DELETE …/alertPolicies/{alertPolicy}."""
        self._alerting.delete_policy(_name(call, "alertPolicies"))
        return Reply(body={})


class ChannelHandlers:
    """Handlers of ``notificationChannels``."""

    def __init__(self, alerting: Alerting) -> None:
        self._alerting = alerting

    def create(self, call: Call) -> Reply:
        """POST …/notificationChannels."""
        return Reply(body=self._alerting.create_channel(_project(call), call.body or {}))

    def get(self, call: Call) -> Reply:
        """GET …/notificationChannels/{notificationChannel}."""
        return Reply(body=self._alerting.channel(_name(call, "notificationChannels")))

    def list(self, call: Call) -> Reply:
        """GET …/notificationChannels."""
        _check_list(call)
        found = self._alerting.channels(_project(call))
        head = {"totalSize": len(found)}
        return _PAGING.resources(call, "notificationChannels", found, head={**head})

    def patch(self, call: Call) -> Reply:
        """PATCH …/notificationChannels/{notificationChannel}."""
        name = _name(call, "notificationChannels")
        return Reply(body=self._alerting.patch_channel(name, call.body or {}, _mask(call)))

    def delete(self, call: Call) -> Reply:
        """DELETE …/notificationChannels/{notificationChannel}."""
        force = call.query.get("force", "").lower() == "true"
        name = _name(call, "notificationChannels")
        self._alerting.delete_channel(_project(call), name, force=force)
        return Reply(body={})


def _project(call: Call) -> str:
    return require(call.params["project"])


def _name(call: Call, collection: str) -> str:
    return f"projects/{_project(call)}/{collection}/{call.id}"


def _mask(call: Call) -> list[str]:
    return [path for path in call.query.get("updateMask", "").split(",") if path]


def _check_list(call: Call) -> None:
    """Raises CloudError 501 for a list that is filtered or sorted."""
    for parameter in ("filter", "orderBy"):
        if call.query.get(parameter):
            raise unimplemented(f"the parameter {parameter} of {call.method_id}")
