"""The IAM v1 methods that are emulated."""

from __future__ import annotations

from embedded_cloud.core.contract_schema import snake
from embedded_cloud.core.errors import invalid_argument
from embedded_cloud.core.json_types import JsonObject, child, text
from embedded_cloud.core.paging import Paging
from embedded_cloud.core.routing import Call, Context, Reply, Rights, Service
from embedded_cloud.services.iam.policies import Policies, tested
from embedded_cloud.services.iam.pools import PoolHandlers, Pools
from embedded_cloud.services.iam.roles import CustomRoles, RoleHandlers
from embedded_cloud.services.iam.state import ServiceAccount, ServiceAccounts

_PAGING = Paging(default=20, maximum=100)
_PATCHABLE = frozenset({"display_name", "description"})


class AccountHandlers:
    """Handlers of ``projects.serviceAccounts``."""

    def __init__(self, accounts: ServiceAccounts, policies: Policies, rights: Rights) -> None:
        self._accounts = accounts
        self._policies = policies
        self._rights = rights

    def create(self, call: Call) -> Reply:
        """POST /v1/projects/{project}/serviceAccounts."""
        body = call.body or {}
        sent = child(body, "serviceAccount")
        account = self._accounts.create(
            call.params["project"],
            text(body, "accountId"),
            display_name=text(sent, "displayName"),
            description=text(sent, "description"),
        )
        return Reply(body=_resource(account))

    def get(self, call: Call) -> Reply:
        """GET …/serviceAccounts/{account}."""
        return Reply(body=_resource(self._accounts.settled(call.params["project"], call.id)))

    def list(self, call: Call) -> Reply:
        """GET /v1/projects/{project}/serviceAccounts."""
        accounts = self._accounts.all(call.params["project"])
        return _PAGING.reply(call, "accounts", accounts, lambda account: account.name, _resource)

    def patch(self, call: Call) -> Reply:
        """PATCH …/serviceAccounts/{account}: only what updateMask names changes."""
        body = call.body or {}
        sent = child(body, "serviceAccount")
        mask = {snake(path.strip()) for path in text(body, "updateMask").split(",") if path}
        if not mask or not mask <= _PATCHABLE:
            raise invalid_argument(
                "updateMask must name display_name, description or both: "
                f"{text(body, 'updateMask')!r}"
            )
        account = self._account(call)
        self._accounts.check_etag(account, text(sent, "etag"))
        changed = self._accounts.amend(
            account,
            display_name=text(sent, "displayName") if "display_name" in mask else None,
            description=text(sent, "description") if "description" in mask else None,
        )
        return Reply(body=_resource(changed))

    def update(self, call: Call) -> Reply:
        """PUT …/serviceAccounts/{account}: the whole resource, its etag must be current."""
        body = call.body or {}
        account = self._account(call)
        self._accounts.check_etag(account, text(body, "etag"))
        changed = self._accounts.amend(
            account,
            display_name=text(body, "displayName"),
            description=text(body, "description"),
        )
        return Reply(body=_resource(changed))

    def enable(self, call: Call) -> Reply:
        """POST …:enable."""
        self._accounts.amend(self._account(call), disabled=False)
        return Reply(body={})

    def disable(self, call: Call) -> Reply:
        """POST …:disable."""
        self._accounts.amend(self._account(call), disabled=True)
        return Reply(body={})

    def delete(self, call: Call) -> Reply:
        """DELETE …/serviceAccounts/{account}."""
        account = self._account(call)
        self._accounts.delete(account)
        self._policies.forget(account.name)
        self._policies.mark_deleted(account.email, account.unique_id)
        return Reply(body={})

    def get_policy(self, call: Call) -> Reply:
        """POST …:getIamPolicy."""
        return Reply(body=self._policies.get(self._account(call).name))

    def set_policy(self, call: Call) -> Reply:
        """POST …:setIamPolicy."""
        name = self._account(call).name
        policy = child(call.body or {}, "policy")
        return Reply(body=self._policies.set(name, policy, public=False))

    def test_permissions(self, call: Call) -> Reply:
        """POST …:testIamPermissions."""
        return Reply(body=tested(self._rights, call, self._account(call).name))

    def _account(self, call: Call) -> ServiceAccount:
        return self._accounts.require(call.params["project"], call.id)


def _resource(account: ServiceAccount) -> JsonObject:
    resource: JsonObject = {
        "name": account.name,
        "projectId": account.project,
        "uniqueId": account.unique_id,
        "email": account.email,
        "etag": account.etag,
        "oauth2ClientId": account.unique_id,
    }
    if account.display_name:
        resource["displayName"] = account.display_name
    if account.description:
        resource["description"] = account.description
    if account.disabled:
        resource["disabled"] = True
    return resource


def service(context: Context) -> Service:
    """Identity and Access Management: service accounts, their policies, roles, identity
    pools."""
    accounts = AccountHandlers(
        ServiceAccounts(context.store, context.clock, context.strictness),
        Policies(context.store, context.clock, context.strictness),
        context.rights,
    )
    pools = PoolHandlers(Pools(context.store, context.clock))
    roles = RoleHandlers(CustomRoles(context.store, context.clock))
    return Service(
        name="iam",
        version="v1",
        handlers={
            "iam.projects.serviceAccounts.create": accounts.create,
            "iam.projects.serviceAccounts.list": accounts.list,
            "iam.projects.serviceAccounts.get": accounts.get,
            "iam.projects.serviceAccounts.patch": accounts.patch,
            "iam.projects.serviceAccounts.update": accounts.update,
            "iam.projects.serviceAccounts.delete": accounts.delete,
            "iam.projects.serviceAccounts.enable": accounts.enable,
            "iam.projects.serviceAccounts.disable": accounts.disable,
            "iam.projects.serviceAccounts.getIamPolicy": accounts.get_policy,
            "iam.projects.serviceAccounts.setIamPolicy": accounts.set_policy,
            "iam.projects.serviceAccounts.testIamPermissions": accounts.test_permissions,
            "iam.projects.roles.create": roles.create,
            "iam.projects.roles.list": roles.list,
            "iam.projects.roles.get": roles.get,
            "iam.projects.roles.patch": roles.patch,
            "iam.projects.roles.delete": roles.delete,
            "iam.projects.roles.undelete": roles.undelete,
            "iam.roles.get": roles.get_predefined,
            **pools.handlers(),
        },
    )
