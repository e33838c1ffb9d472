"""A caller that lacks a permission is refused by the methods that ask for it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote

from embedded_cloud.access import Access, Principal
from embedded_cloud.admission import denials
from embedded_cloud.admission.permission_table import needs_of
from embedded_cloud.errors import CloudError
from embedded_cloud.inbound_request import InboundRequest
from embedded_cloud.routing import Match
from embedded_cloud.strictness import Strictness

#: What precedes the name of a resource in a path, and what may follow it.
_BEFORE = re.compile(
    r"^/(?:(?:download|upload|resumable/upload)/)?(?:(?:compute|storage|dns)/)?v\d\w*/"
)
_VERB = re.compile(r":\w+$")


@dataclass(frozen=True, slots=True)
class Permissions:
    """Refuses the owner's calls that need a permission that the strictness takes away.

    Attributes:
        access: tells the tokens of hosts, which have rights of their own.
        strictness: which permissions are missing.
    """

    access: Access
    strictness: Callable[[], Strictness]

    def check(self, match: Match, inbound: InboundRequest) -> None:
        """Check a call.

        Raises:
            CloudError: 403, in the words of the service.
        """
        missing = self.strictness().permissions.missing
        needs = needs_of(match.route.method_id) if missing else None
        if needs is None or self._of_host(inbound):
            return
        lacking = tuple(name for name in needs if name in missing)
        if lacking:
            raise denied(match, inbound, lacking)

    def _of_host(self, inbound: InboundRequest) -> bool:
        authorization = inbound.headers.get("Authorization", "")
        return bool(authorization) and self.access.caller(authorization).kind is Principal.HOST


def denied(match: Match, inbound: InboundRequest, lacking: tuple[str, ...]) -> CloudError:
    """The refusal of a call that lacks these permissions."""
    refuse = denials.BY_SERVICE.get(match.service.name, denials.common)
    resource = _VERB.sub("", unquote(_BEFORE.sub("", inbound.path)))
    return refuse(denials.Denial(match.service.name, match.route.method_id, resource, lacking))
