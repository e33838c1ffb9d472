"""Service Account Credentials v1: tokens of one account for another that may act as it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from embedded_cloud.core.access import Access, Caller, Principal
from embedded_cloud.core.clock import Clock, parse_duration
from embedded_cloud.core.errors import failed_precondition, invalid_argument
from embedded_cloud.core.json_types import text
from embedded_cloud.core.routing import Call, Context, Reply, Service
from embedded_cloud.core.strictness import Strictness
from embedded_cloud.services.iam.state import ServiceAccounts, project_of
from embedded_cloud.services.tokens.identities import deployer

#: Seconds (https://cloud.google.com/iam/docs/reference/credentials/rest/v1/projects.serviceAccounts/generateAccessToken).
_LONGEST = 3600.0


class TokenHandlers:
    """Handlers of ``projects.serviceAccounts``."""

    def __init__(
        self,
        accounts: ServiceAccounts,
        access: Access,
        clock: Clock,
        strictness: Callable[[], Strictness],
    ) -> None:
        self._accounts = accounts
        self._access = access
        self._clock = clock
        self._strictness = strictness

    def generate(self, call: Call) -> Reply:
        """POST /v1/projects/-/serviceAccounts/{account}:generateAccessToken."""
        body = call.body or {}
        if not body.get("scope"):
            raise invalid_argument("Scope required.")
        try:
            asked = parse_duration(text(body, "lifetime") or "3600s")
        except ValueError as error:
            raise invalid_argument(f"Invalid lifetime: {error}") from None
        if not 0 < asked <= _LONGEST:
            raise invalid_argument("The access token lifetime cannot exceed 3600 seconds.")
        account = self._account(call.id)
        lifetime = min(asked, self._strictness().tokens.lifetime_s)
        token = self._access.session_token(Caller(Principal.SERVICE_ACCOUNT, account), lifetime)
        expires = datetime.fromtimestamp(int(self._clock.now() + lifetime), UTC)
        # Whole seconds: google-auth 2.62 reads no other form.
        return Reply(
            body={"accessToken": token, "expireTime": expires.strftime("%Y-%m-%dT%H:%M:%SZ")}
        )

    def _account(self, name: str) -> str:
        if name == deployer(project_of(name)):
            return name
        found = self._accounts.require("-", name)
        if found.disabled:
            raise failed_precondition("Service account is disabled.")
        return found.email


def service(context: Context, access: Access) -> Service:
    """Service Account Credentials: impersonation."""
    tokens = TokenHandlers(
        ServiceAccounts(context.store, context.clock, context.strictness),
        access,
        context.clock,
        context.strictness,
    )
    return Service(
        name="iamcredentials",
        version="v1",
        handlers={
            "iamcredentials.projects.serviceAccounts.generateAccessToken": tokens.generate,
        },
    )
