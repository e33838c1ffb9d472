"""What Google checks of a call before its service sees it: API enabled, billing, permissions."""

from __future__ import annotations

from embedded_cloud.core.pipeline import Admission
from embedded_cloud.core.routing import Context
from embedded_cloud.services.iam.policies import Policies
from embedded_cloud.services.iam.rights import Rights
from embedded_cloud.services.serviceusage.state import ProjectServices
from embedded_cloud.strict.consumer import Consumers, EnabledApis, OpenBilling
from embedded_cloud.strict.permissions import Permissions
from embedded_cloud.strict.required_permissions import Questions


def admission_of(context: Context, rights: Rights) -> tuple[Admission, ...]:
    """The checks of the cloud of ``context``, in Google's order."""
    consumers = Consumers(context.store, context.project_number)
    services = ProjectServices(context.store, context.clock, context.strictness)
    return (
        EnabledApis(services, consumers, context.strictness),
        OpenBilling(consumers, context.strictness),
        Permissions(
            rights,
            Questions(context.store, consumers, context.project_number),
            Policies(context.store, context.clock, context.strictness),
            context.strictness,
        ),
    )
