"""The dev stack on an embedded cloud that enforces IAM, run as a service account."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Self

import requests

from reliability.command_rig import Json
from reliability.invariants import Command
from reliability.rig import StackRig
from tpuflex.cli.daemon import CREDENTIALS_VARIABLE
from tpuflex.roles.roles import roles

_PROJECT = "v1/projects/tpuflex-dev"
#: The account that the embedded cloud's credentials are for.
_MEMBER = "serviceAccount:deployer@tpuflex-dev.iam.gserviceaccount.com"
#: Bound with a condition, as ``tpuflexHostGrants`` is.
_LIMITED = "resourcemanager.projects.setIamPolicy"
_ROLES = {"some": "projects/tpuflex-dev/roles/some", "grants": "projects/tpuflex-dev/roles/grants"}


class RoleRig(StackRig):
    """Commands run as an account with a custom role; :meth:`as_owner` runs one as the owner."""

    def __enter__(self) -> Self:
        super().__enter__()
        self.enforce()
        return self

    def enforce(self) -> None:
        """Let bindings decide from now on."""
        self.control.call("POST", "strictness", {"iam": {"enforced": True}})

    def grant(self, permissions: Collection[str]) -> None:
        """Let the account have these permissions and no other."""
        self._role("some", [name for name in permissions if name != _LIMITED])
        self._role("grants", [_LIMITED])
        account = f"{_PROJECT}/serviceAccounts/{_MEMBER.partition(':')[2]}"
        if not self._call("GET", account).ok:
            self._make(f"{_PROJECT}/serviceAccounts", {"accountId": "deployer"})
        policy = self._make(f"{_PROJECT}:getIamPolicy", {})
        bindings = [each for each in policy["bindings"] if _MEMBER not in each["members"]]
        bindings.append({"role": _ROLES["some"], "members": [_MEMBER]})
        if _LIMITED in permissions:
            condition = roles().roles["tpuflexHostGrants"].condition
            limited = {"role": _ROLES["grants"], "members": [_MEMBER], "condition": condition}
            bindings.append(limited)
        changed = {**policy, "version": 3, "bindings": bindings}
        self._make(f"{_PROJECT}:setIamPolicy", {"policy": changed})

    def as_account(self, *words: str) -> Command:
        """Run a command as the account."""
        self.environment[CREDENTIALS_VARIABLE] = "service-account"
        try:
            return self.run(*words)
        finally:
            del self.environment[CREDENTIALS_VARIABLE]

    def left(self) -> list[str]:
        """What exists beside the account and its roles."""
        return [
            f"{kind} {resource['name']}"
            for kinds in self.control.inventory().values()
            for kind, resources in kinds.items()
            for resource in resources
            if kind != "roles" and not str(resource["name"]).endswith(_MEMBER.partition(":")[2])
        ]

    def _role(self, role_id: str, permissions: Iterable[str]) -> None:
        role = {"includedPermissions": sorted(permissions)}
        there = self._call("GET", f"{_PROJECT}/roles/{role_id}").ok
        if there:
            mask = "updateMask=includedPermissions"
            answer = self._call("PATCH", f"{_PROJECT}/roles/{role_id}?{mask}", role)
            assert answer.ok, answer.text
        else:
            self._make(f"{_PROJECT}/roles", {"roleId": role_id, "role": role})

    def _make(self, path: str, body: Json) -> Any:
        answer = self._call("POST", path, body)
        assert answer.ok, f"{path}: {answer.text}"
        return answer.json()

    def _call(self, method: str, path: str, body: Json | None = None) -> requests.Response:
        """A call as the cloud's owner."""
        headers = {"Authorization": f"Bearer {self.control.token}"}
        url = f"{self.control.url}/{path}"
        return requests.request(method, url, json=body, headers=headers, timeout=60)
