"""The dev stack on an embedded cloud that enforces IAM, run as a service account."""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, Self

from reliability.evidence import Command, Violation
from reliability.processes import Ended
from reliability.rig import StackRig
from tpuflex.boot.places import weights_prefix
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.main import run
from tpuflex.inventory.kinds import of_type
from tpuflex.roles.roles import roles
from tpuflex.settings.load import load_stack_file
from tpuflex.stack.emulator import CREDENTIALS_VARIABLE

Json = dict[str, Any]

_PROJECT = "v1/projects/tpuflex-dev"
#: The account that the embedded cloud's credentials are for.
_MEMBER = "serviceAccount:deployer@tpuflex-dev.iam.gserviceaccount.com"
#: Bound with a condition, as ``tpuflexHostGrants`` is.
_LIMITED = "resourcemanager.projects.setIamPolicy"
_ROLES = {"some": "projects/tpuflex-dev/roles/some", "grants": "projects/tpuflex-dev/roles/grants"}
#: Enforced from now on; networks and rules are made by operations that take a moment, as on Google.
_STRICTNESS: Json = {"iam": {"enforced": True}, "compute": {"operation_s": 2}}


class RoleRig(StackRig):
    """Commands run as an account with a custom role; :meth:`run` runs one as the owner."""

    #: Three of the four hours of a run: most commands look at a stack that is up.
    stale_s = 10_800.0

    def __enter__(self) -> Self:
        super().__enter__()
        self.enforce()
        return self

    def enforce(self) -> None:
        """Let bindings decide from now on."""
        self.control.call("POST", "strictness", _STRICTNESS)

    def fill_library(self) -> None:
        """Let the project have a library, and in it the weights of the stack."""
        for words in (("library", "up", "--yes"), ("weights", "push", str(self.home / "model"))):
            self.run_well(*words)

    def set_name(self) -> str:
        """The set of weights of the stack, as `weights ls` names it."""
        return weights_prefix(load_stack_file(self.stack_file, deploying=False).settings.model)

    def lose_state(self) -> None:
        """Leave nothing of the state, and all of the cloud."""
        self._clear_backend()

    def leave_pending(self) -> None:
        """Let the state say of everything that nothing else depends on that its creation was begun:
        a run that was killed when all was there, and the engine had not been told of the last."""
        document = json.loads(self.state_file.read_text())
        latest = document["checkpoint"]["latest"]
        needed = {urn for each in latest["resources"] for urn in each.get("dependencies") or ()}
        begun = [
            each
            for each in latest["resources"]
            if of_type(str(each["type"])) is not None and each["urn"] not in needed
        ]
        latest["resources"] = [each for each in latest["resources"] if each not in begun]
        latest["pending_operations"] = [
            {"resource": {k: v for k, v in each.items() if k != "outputs"}, "type": "creating"}
            for each in begun
        ]
        self.state_file.write_text(json.dumps(document))

    def slice_name(self) -> str:
        """Name of the one queued resource."""
        (found,) = self.control.inventory()["tpu"]["queuedResources"]
        return str(found["name"]).rpartition("/")[2]

    def grant(self, permissions: Collection[str]) -> None:
        """Let the account have these permissions and no other."""
        self._role("some", [name for name in permissions if name != _LIMITED])
        self._role("grants", [_LIMITED])
        account = f"{_PROJECT}/serviceAccounts/{_MEMBER.partition(':')[2]}"
        if not self.call("GET", account).ok:
            self.make("POST", f"{_PROJECT}/serviceAccounts", {"accountId": "deployer"})
        policy = self.make("POST", f"{_PROJECT}:getIamPolicy", {})
        bindings = [each for each in policy["bindings"] if _MEMBER not in each["members"]]
        bindings.append({"role": _ROLES["some"], "members": [_MEMBER]})
        if _LIMITED in permissions:
            condition = roles().roles["tpuflexHostGrants"].condition
            limited = {"role": _ROLES["grants"], "members": [_MEMBER], "condition": condition}
            bindings.append(limited)
        changed = {**policy, "version": 3, "bindings": bindings}
        self.make("POST", f"{_PROJECT}:setIamPolicy", {"policy": changed})

    def as_account(self, *words: str) -> Command:
        """Run a command as the account, in a process of its own."""
        with self._being_the_account():
            return self.run(*words)

    def client(self, *words: str, given: str = "") -> Command:
        """Run a command as the account, in this process: its clients are the same, and one that
        asks no engine takes a tenth of the time."""
        first, began = self.control.seq(), time.monotonic()
        stdin, stdout, stderr = sys.stdin, io.StringIO(), io.StringIO()
        with self._being_the_account():
            environ = {**self.environ(), **self.environment, **self._pace()}
            sys.stdin = io.StringIO(given)
            try:
                with redirect_stdout(stdout), redirect_stderr(stderr):
                    code = _exit_code(["-C", str(self.home), *words], environ)
            finally:
                sys.stdin = stdin
        seconds = time.monotonic() - began
        done = Command(words[0], code, first, self.control.seq(), seconds)
        self.commands.append(done)
        self.said.append(Ended(code, stdout.getvalue(), stderr.getvalue(), seconds))
        return done

    def called(self, *, refused: bool) -> frozenset[str]:
        """Ids of the methods that the last command called, and was refused or was not."""
        calls = self.control.history(self.commands[-1].first_seq)
        return frozenset(
            str(call["method_id"]) for call in calls if (call["status"] == 403) is refused
        )

    def unrecorded(self) -> list[Violation]:
        """What is in the cloud, and not in the state."""
        return [each for each in self.check() if each.invariant in ("I1", "I5")]

    def left(self) -> list[str]:
        """What exists beside the account and its roles."""
        return [
            f"{kind} {resource['name']}"
            for kinds in self.control.inventory().values()
            for kind, resources in kinds.items()
            for resource in resources
            if kind != "roles" and not str(resource["name"]).endswith(_MEMBER.partition(":")[2])
        ]

    @contextmanager
    def _being_the_account(self) -> Iterator[None]:
        self.environment[CREDENTIALS_VARIABLE] = "service-account"
        try:
            yield
        finally:
            del self.environment[CREDENTIALS_VARIABLE]

    def _role(self, role_id: str, permissions: Iterable[str]) -> None:
        role = {"includedPermissions": sorted(permissions)}
        there = self.call("GET", f"{_PROJECT}/roles/{role_id}").ok
        if there:
            mask = "updateMask=includedPermissions"
            self.make("PATCH", f"{_PROJECT}/roles/{role_id}?{mask}", role)
        else:
            self.make("POST", f"{_PROJECT}/roles", {"roleId": role_id, "role": role})


def _exit_code(words: list[str], environ: Mapping[str, str]) -> int:
    try:
        return run(words, Invocation(environ=environ))
    except SystemExit as ended:  # `status` ends with the code of the slice's state
        return int(ended.code or 0)
