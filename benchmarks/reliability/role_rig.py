"""The dev stack on an embedded cloud that enforces IAM, run as a service account."""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Self

import requests
import yaml

from reliability.command_rig import Json
from reliability.invariants import Command, Violation
from reliability.processes import Ended
from reliability.rig import StackRig
from tpuflex.boot.places import weights_prefix
from tpuflex.cli.daemon import CREDENTIALS_VARIABLE
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.main import run
from tpuflex.gcp.kinds import of_type
from tpuflex.roles.roles import roles
from tpuflex.settings.load import load_stack_file

_PROJECT = "v1/projects/tpuflex-dev"
#: The account that the embedded cloud's credentials are for.
_MEMBER = "serviceAccount:deployer@tpuflex-dev.iam.gserviceaccount.com"
#: Bound with a condition, as ``tpuflexHostGrants`` is.
_LIMITED = "resourcemanager.projects.setIamPolicy"
_ROLES = {"some": "projects/tpuflex-dev/roles/some", "grants": "projects/tpuflex-dev/roles/grants"}
#: Enforced from now on; networks and rules are made by operations that take a moment, as on Google.
_STRICTNESS: Json = {"iam": {"enforced": True}, "compute": {"operation_s": 2}}

#: Sections of the stack file, and what to change in each.
Edits = Mapping[str, Mapping[str, Any]]


class RoleRig(StackRig):
    """Commands run as an account with a custom role; :meth:`run` runs one as the owner."""

    #: Three of the four hours of a run: most commands look at a stack that is up.
    stale_s = 10_800.0

    def __enter__(self) -> Self:
        super().__enter__()
        self._written = self._stack_file.read_text()
        self.enforce()
        return self

    def enforce(self) -> None:
        """Let bindings decide from now on."""
        self.control.call("POST", "strictness", _STRICTNESS)

    def edit(self, edits: Edits) -> None:
        """Let the stack file be as it was written, but for ``edits``."""
        document = yaml.safe_load(self._written)
        for section, values in edits.items():
            document["config"].setdefault(f"tpuflex:{section}", {}).update(values)
        self._stack_file.write_text(yaml.safe_dump(document))

    def program(self) -> str:
        """The stack file."""
        return self._stack_file.read_text()

    def fill_library(self) -> None:
        """Let the project have a library, and in it the weights of the stack."""
        for words in (("library", "up", "--yes"), ("weights", "push", str(self.home / "model"))):
            assert self.run(*words).exit_code == 0, self.said[-1].stderr

    def set_name(self) -> str:
        """The set of weights of the stack, as `weights ls` names it."""
        return weights_prefix(load_stack_file(self._stack_file, deploying=False).settings.model)

    def lose_state(self) -> None:
        """Leave nothing of the state, and all of the cloud."""
        self._clear_backend()

    def leave_pending(self) -> None:
        """Let the state say of everything that nothing else depends on that its creation was begun:
        a run that was killed when all was there, and the engine had not been told of the last."""
        file = self._backend() / ".pulumi" / "stacks" / self.project / f"{self.stack}.json"
        document = json.loads(file.read_text())
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
        file.write_text(json.dumps(document))

    def slice_name(self) -> str:
        """Name of the one queued resource."""
        (found,) = self.control.inventory()["tpu"]["queuedResources"]
        return str(found["name"]).rpartition("/")[2]

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
        """Run a command as the account, in a process of its own."""
        with self._being_the_account():
            return self.run(*words)

    def client(self, *words: str, given: str = "") -> Command:
        """Run a command as the account, in this process: its clients are the same, and one that
        asks no engine takes a tenth of the time.

        Args:
            words: the command line.
            given: what it reads on standard input.
        """
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
        self.said.append(Ended(code, stdout.getvalue(), stderr.getvalue(), seconds, ()))
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

    @property
    def _stack_file(self) -> Path:
        return self.home / "stacks" / f"Pulumi.{self.stack}.yaml"

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


def _exit_code(words: list[str], environ: Mapping[str, str]) -> int:
    try:
        return run(words, Invocation(environ=environ))
    except SystemExit as ended:  # `status` ends with the code of the slice's state
        return int(ended.code or 0)
