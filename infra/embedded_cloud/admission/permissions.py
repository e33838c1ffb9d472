"""A caller that lacks a permission is refused by the methods that ask for it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote

from embedded_cloud.access import HOST_METHODS_BY_BINDING, Caller, Principal
from embedded_cloud.admission import denials
from embedded_cloud.admission.asked import Asked, Questions
from embedded_cloud.admission.consumer import QUOTA_PROJECT_HEADER
from embedded_cloud.errors import CloudError
from embedded_cloud.iam.conditions import modified_roles
from embedded_cloud.iam.policies import Policies
from embedded_cloud.iam.rights import Rights
from embedded_cloud.inbound_request import InboundRequest
from embedded_cloud.json_types import JsonObject, child
from embedded_cloud.request_body import parse_object
from embedded_cloud.resourcemanager.state import initial_bindings, policy_resource
from embedded_cloud.routing import Match
from embedded_cloud.strictness import Strictness

#: What precedes the name of a resource in a path, and what may follow it.
_BEFORE = re.compile(
    r"^/(?:(?:download|upload|resumable/upload)/)?(?:(?:compute|storage|dns)/)?v\d\w*/"
)
_VERB = re.compile(r":\w+$")
_USE = "serviceusage.services.use"


@dataclass(frozen=True, slots=True)
class Permissions:
    """Refuses calls that ask for a permission that the caller does not have: one that no binding
    grants, where IAM is enforced, or one that the strictness takes away.

    Attributes:
        rights: what callers may do.
        questions: what calls ask for.
        policies: the policies that calls change.
        strictness: whether any of this is enforced.
    """

    rights: Rights
    questions: Questions
    policies: Policies
    strictness: Callable[[], Strictness]

    async def check(self, match: Match, inbound: InboundRequest) -> None:
        """Check a call.

        Raises:
            CloudError: 403, in the words of the service.
        """
        strictness = self.strictness()
        by_binding = match.route.method_id in HOST_METHODS_BY_BINDING
        if not strictness.iam.enforced and not strictness.permissions.missing and not by_binding:
            return
        caller = self.rights.caller(inbound.headers.get("Authorization", ""))
        host = caller.kind is Principal.HOST
        if not strictness.iam.enforced and host and not by_binding:
            return
        may = self.rights.granted if host and by_binding else self.rights.may
        self._check_quota_project(match, inbound, caller)
        reads = self.questions.needs_body(match.route.method_id)
        body = await _body(inbound) if reads else {}
        modified = self._modified(match, inbound, body)
        lacking = [
            asked
            for asked in self.questions.of(match, inbound, body)
            if not may(caller, asked.permission, asked.resource, modified, asked.name)
        ]
        if lacking:
            raise self._denied(match, inbound, caller, lacking)

    def _check_quota_project(self, match: Match, inbound: InboundRequest, caller: Caller) -> None:
        """Whoever names a project to take quota from may have to be allowed to."""
        project = inbound.headers.get(QUOTA_PROJECT_HEADER, "")
        if project and not self.rights.may(caller, _USE, policy_resource(project)):
            number = self.questions.consumers.number_of_project(project)
            raise denials.quota_project(match.service.name, project, number)

    def _modified(self, match: Match, inbound: InboundRequest, body: JsonObject) -> frozenset[str]:
        """The roles that a call on a project's policy grants or revokes."""
        if match.route.method_id != "cloudresourcemanager.projects.setIamPolicy":
            return frozenset()
        project = self.questions.consumers.resource_project(match, inbound)
        before = self.policies.get(policy_resource(project), initial_bindings())
        return modified_roles(before, child(body, "policy"))

    def _denied(
        self, match: Match, inbound: InboundRequest, caller: Caller, lacking: list[Asked]
    ) -> CloudError:
        """The refusal of a call that lacks these permissions."""
        denial = denials.Denial(
            match.service.name,
            match.route.method_id,
            _VERB.sub("", unquote(_BEFORE.sub("", inbound.path))),
            tuple(dict.fromkeys(asked.permission for asked in lacking)),
            self.rights.email(caller) or denials.OWNERS_EMAIL,
        )
        return denials.BY_SERVICE.get(match.service.name, denials.common)(denial)


async def _body(inbound: InboundRequest) -> JsonObject:
    """The body as far as it can be read: what is wrong with it, the contract says."""
    try:
        return parse_object(await inbound.read() or b"{}")
    except ValueError:
        return {}
