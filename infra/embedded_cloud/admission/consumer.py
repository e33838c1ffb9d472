"""Which project a call is about, and which project it is charged to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from embedded_cloud.iam.state import project_of
from embedded_cloud.inbound_request import InboundRequest
from embedded_cloud.json_types import text
from embedded_cloud.routing import Match
from embedded_cloud.store import Store

QUOTA_PROJECT_HEADER = "X-Goog-User-Project"

#: Path parameters that name a project by id or number, per service; ``project`` everywhere else.
_PARAMETERS = {
    "cloudresourcemanager": ("projectId", "project", "resource"),
    "serviceusage": ("v1Id1", "v1beta1Id1"),
    "storage": ("projectId",),
}
_BUCKETS = ("bucket", "destinationBucket")

#: Calls of these APIs are charged to the project of the credential, which the embedded cloud does
#: not know, unless they name another (https://cloud.google.com/docs/quotas/quota-project). Enabling
#: the first API of a project would be impossible otherwise.
_CHARGED_TO_CREDENTIAL = frozenset({"serviceusage"})


@dataclass(frozen=True, slots=True)
class Consumers:
    """Finds the projects of calls.

    Attributes:
        store: where buckets are, whose names do not say their project.
        number_of: project id -> project number.
    """

    store: Store
    number_of: Callable[[str], str]

    def resource_project(self, match: Match, inbound: InboundRequest) -> str:
        """Id or number of the project that the call is about; empty if it is about none."""
        params = match.params
        for name in _PARAMETERS.get(match.service.name, ("project",)):
            if (project := params.get(name, "")) and project != "-":
                return project
        for name in _BUCKETS:
            if name in params:
                bucket = self.store.get("storage/buckets", params[name])
                return text(bucket or {}, "project")
        if match.service.name == "iam":
            return project_of(params.get("serviceAccount", ""))
        return inbound.query.get("project", "")

    def number(self, match: Match, inbound: InboundRequest) -> str:
        """Number of the project that the call is charged to; empty if that is not known."""
        project = inbound.headers.get(QUOTA_PROJECT_HEADER, "")
        if not project and match.service.name not in _CHARGED_TO_CREDENTIAL:
            project = self.resource_project(match, inbound)
        return self.number_of_project(project)

    def number_of_project(self, project: str) -> str:
        """The number of a project that is named by id or number; empty stays empty."""
        return project if not project or project.isdecimal() else self.number_of(project)
