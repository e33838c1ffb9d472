"""Cloud Billing API v1."""

from __future__ import annotations

import re

from embedded_cloud.core.errors import invalid_argument
from embedded_cloud.core.json_types import JsonObject, text
from embedded_cloud.core.projects import named
from embedded_cloud.core.routing import Call, Context, Reply, Service

#: The account of every project; Google's documentation uses this id in its examples.
ACCOUNT = "billingAccounts/012345-567890-ABCDEF"
#: Every account of this form is an open one.
_ACCOUNT = re.compile(r"billingAccounts/[0-9A-Z]{6}-[0-9A-Z]{6}-[0-9A-Z]{6}")


class BillingHandlers:
    """Handlers of ``projects``. The strictness has the billing of all projects, so what is linked
    to one holds for all."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def get_info(self, call: Call) -> Reply:
        """GET /v1/projects/{project}/billingInfo."""
        project = named(call.id, self._context.store)
        return Reply(body=self._info(project))

    def update_info(self, call: Call) -> Reply:
        """PUT /v1/projects/{project}/billingInfo: link the project to an account, or to none."""
        project = named(call.id, self._context.store)
        account = text(call.body or {}, "billingAccountName")
        if account and not _ACCOUNT.fullmatch(account):
            raise invalid_argument(f"Invalid billing account name: {account}")
        self._context.change_strictness({"billing": {"enabled": bool(account)}})
        return Reply(body=self._info(project))

    def _info(self, project: str) -> JsonObject:
        enabled = self._context.strictness().billing.enabled
        return {
            "name": f"projects/{project}/billingInfo",
            "projectId": project,
            "billingAccountName": ACCOUNT if enabled else "",
            "billingEnabled": enabled,
        }


def service(context: Context) -> Service:
    """Cloud Billing: whether a project has an open billing account."""
    billing = BillingHandlers(context)
    return Service(
        name="cloudbilling",
        version="v1",
        handlers={
            "cloudbilling.projects.getBillingInfo": billing.get_info,
            "cloudbilling.projects.updateBillingInfo": billing.update_info,
        },
    )
