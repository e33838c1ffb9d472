"""HTTP calls on dashboards turned into calls on the state."""

from __future__ import annotations

from embedded_cloud.monitoring.dashboards.state import Dashboards
from embedded_cloud.paging import Paging
from embedded_cloud.resourcemanager.state import require
from embedded_cloud.routing import Call, Reply

_PAGING = Paging(default=1000, maximum=1000)


class DashboardHandlers:
    """Handlers of ``dashboards``."""

    def __init__(self, dashboards: Dashboards) -> None:
        self._dashboards = dashboards

    def create(self, call: Call) -> Reply:
        """POST …/dashboards."""
        body = call.body or {}
        return Reply(body=self._dashboards.create(_project(call), body, dry=_dry(call)))

    def get(self, call: Call) -> Reply:
        """GET …/dashboards/{dashboard}."""
        return Reply(body=self._dashboards.get(_name(call)))

    def list(self, call: Call) -> Reply:
        """GET …/dashboards."""
        return _PAGING.resources(call, "dashboards", self._dashboards.of(_project(call)))

    def patch(self, call: Call) -> Reply:
        """PATCH …/dashboards/{dashboard}: the whole definition is replaced."""
        return Reply(body=self._dashboards.replace(_name(call), call.body or {}, dry=_dry(call)))

    def delete(self, call: Call) -> Reply:
        """DELETE …/dashboards/{dashboard}."""
        self._dashboards.delete(_name(call))
        return Reply(body={})


def _project(call: Call) -> str:
    return require(call.params["project"])


def _name(call: Call) -> str:
    return f"projects/{_project(call)}/dashboards/{call.id}"


def _dry(call: Call) -> bool:
    return call.query.get("validateOnly", "").lower() == "true"
