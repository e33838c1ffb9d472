"""HTTP calls on the billing of projects."""

from __future__ import annotations

from embedded_cloud.resourcemanager.state import named
from embedded_cloud.routing import Call, Context, Reply

#: The account of every project; Google's documentation uses this id in its examples.
ACCOUNT = "billingAccounts/012345-567890-ABCDEF"


class BillingHandlers:
    """Handlers of ``projects``."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def get_info(self, call: Call) -> Reply:
        """GET /v1/projects/{project}/billingInfo."""
        project = named(call.id, self._context.store, self._context.project_number)
        enabled = self._context.strictness().billing.enabled
        return Reply(
            body={
                "name": f"projects/{project}/billingInfo",
                "projectId": project,
                "billingAccountName": ACCOUNT if enabled else "",
                "billingEnabled": enabled,
            }
        )
