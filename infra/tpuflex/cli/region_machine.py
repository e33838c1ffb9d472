"""The machine of a stack that copies weights within its region, as commands see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from tpuflex.boot.places import weights_prefix
from tpuflex.cli.shared_weights import is_shared
from tpuflex.errors import (
    AccessError,
    AlreadyExistsError,
    ApiError,
    IncompleteTeardownError,
    NotFoundError,
    TpuflexError,
)
from tpuflex.gcp.kinds import INSTANCE
from tpuflex.gcp.ownership import Maker
from tpuflex.gcp.removal import remove
from tpuflex.naming import HF_TOKEN
from tpuflex.operate.checkpoint_source import GsUrl
from tpuflex.operate.region_copy.bodies import Place
from tpuflex.operate.region_copy.grants import (
    Grant,
    IamResource,
    bucket_grant,
    has_roles,
    named_in,
)
from tpuflex.operate.region_copy.machine import CopyMachine
from tpuflex.operate.region_copy.removal import remove_all
from tpuflex.operate.region_copy.run import STOP_COMMAND

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.invocation import Invocation
    from tpuflex.gcp.inventory import Item


class RegionMachine:
    """The machine and all that is made with it. At the end of a block it is removed, unless nothing
    was made, or it is to be kept.

    Args:
        cloud: the stack's cloud.
        say: takes a line of progress.
        states: ids of the states that are ours.
        state_id: id of the stack's state, which what is made carries.

    Attributes:
        place: whose it is, and where.
        machine: the machine.
        problems: what could not be removed, a line each.
    """

    def __init__(
        self,
        cloud: Cloud,
        say: Callable[[str], None],
        states: frozenset[str],
        state_id: str = "",
    ) -> None:
        stack = cloud.stack
        project = stack.settings.project
        self._cloud = cloud
        self._say = say
        self._maker = Maker(stack.names, project, "", states)
        self._kept = True
        self._named: tuple[IamResource, ...] = ()
        self.apis = cloud.apis()
        settings = stack.settings
        region = settings.region
        key = settings.encryption.kms_key or ""
        self.place = Place(stack.names, project, region, state_id, settings.labels, key)
        self.machine = CopyMachine(self.place, self._maker, self.apis, cloud.timing)
        self.problems: tuple[str, ...] = ()

    def grant(self) -> Grant:
        """What its account is to be granted on the bucket that it copies into."""
        cloud = self._cloud
        prefix = weights_prefix(cloud.stack.settings.model)
        return bucket_grant(cloud.bucket, prefix, create_only=is_shared(cloud.stack))

    def _iam_resources(self) -> tuple[IamResource, ...]:
        """Where its account may have roles, as far as the stack file says."""
        found = [IamResource("bucket", self._cloud.bucket)]
        if (source := self._source()) is not None:
            found.append(source)
        secrets = self._cloud.stack.settings.secrets
        if HF_TOKEN in secrets.roles:
            brought = secrets.brought.get(HF_TOKEN)
            secret = self._cloud.secret(HF_TOKEN) if brought is None else brought.secret
            found.append(IamResource("secret", secret))
        return tuple(dict.fromkeys(found))

    def _source(self) -> IamResource | None:
        """The bucket that the stack file takes the weights from, if it is one."""
        source = self._cloud.stack.settings.model.weights.source or ""
        if not source.startswith("gs://"):
            return None
        return IamResource("bucket", GsUrl.parse(source).bucket)

    def where_granted(self) -> str:
        """Where roles of its account were looked for, as far as the stack file says, in words, and
        where they could not be."""
        places: dict[bool, list[str]] = {True: [], False: []}
        for each in self._iam_resources():
            places[self._is_readable(each)].append(str(each))
        looked, unread = (" and ".join(found) for found in (places[True], places[False]))
        text = f"were looked for on {looked}, as the stack file says" if looked else "may be left"
        if unread:
            text += f"; not on {unread}, whose policy cannot be read: ask somebody who may"
        return text

    def _is_readable(self, resource: IamResource) -> bool:
        """Whether the policy of ``resource`` can be read; where it is gone there is none."""
        try:
            has_roles(resource, self.place.account, self.apis)
        except NotFoundError:
            return True
        except (AccessError, ApiError):
            return False
        return True

    def made(self, item: Item) -> bool:
        """Whether ``item`` of an inventory is the machine, or was made with it."""
        return item.name in (self.place.name, self.place.account)

    def granted(self) -> bool:
        """Whether its account has a role on what outlives the stack, as far as that can be told: a
        killed command, or `sweep`, may have left that alone."""
        return any(self._has_roles(each) for each in self._iam_resources() if self._outlives(each))

    def _outlives(self, resource: IamResource) -> bool:
        """Whether ``resource`` is there after the stack is gone."""
        if resource.kind == "secret":
            return HF_TOKEN in self._cloud.stack.settings.secrets.brought
        return is_shared(self._cloud.stack) or resource.name != self._cloud.bucket

    def _has_roles(self, resource: IamResource) -> bool:
        try:
            return has_roles(resource, self.place.account, self.apis)
        except NotFoundError:
            return False
        except (AccessError, ApiError) as error:
            # Who may read a model in a bucket often may not read its policy, and then has let
            # nobody in: no reason to tell them at each `down`.
            beside = resource == self._source() and resource.name != self._cloud.bucket
            if not (beside and isinstance(error, AccessError)):
                whose = f"whether {self.place.account} has a role on {resource}"
                self._say(f"Could not be looked at: {whose}: {error.message}")
            return False

    def ask(self) -> None:
        """Ask for the machine's deletion, and do not wait for it; :meth:`remove` asks once more."""
        self._read_job()
        try:
            found, _ = self.machine.resources()
            for resource in found:
                if resource.kind == INSTANCE:
                    remove(resource, self._maker, self.apis, lambda _now: "")
        except (AccessError, ApiError, NotFoundError) as error:
            self._say(f"Could not be deleted yet: {self.place.name}: {error.message}")

    def begin(self) -> None:
        """From now on there is something to remove."""
        self._kept = False

    def keep(self) -> None:
        """Leave it: it works on."""
        self._kept = True

    def remove(self) -> None:
        """Remove everything; what cannot be is said, and in :attr:`problems`."""
        # Ctrl-C may end this anywhere, and what is left then is billed.
        self.problems = (
            f"{self.place.name}: its removal was broken off; the machine, its network, its service"
            " account and what that was granted may be there",
        )
        self.problems = self._removed()
        for problem in self.problems:
            self._say(f"Could not be removed: {problem}")

    def _removed(self) -> tuple[str, ...]:
        """Remove everything; what cannot be, a line each."""
        try:
            resources, problems = self.machine.resources()
        except (AccessError, ApiError) as error:
            return (f"{INSTANCE.plural}: {error.message}",)
        self._read_job()
        granted_on = self._named
        try:
            foreign = self.machine.is_foreign()
        except (AccessError, ApiError, NotFoundError) as error:
            problems += (f"roles of {self.place.account}: {error.message}",)
        else:
            granted_on = () if foreign else self._granted_on(made=bool(resources or problems))
        return problems + remove_all(
            resources,
            granted_on,
            self.place.account,
            self._maker,
            self.apis,
            self._cloud.timing,
            self._say,
        )

    def _granted_on(self, *, made: bool) -> tuple[IamResource, ...]:
        """Where its account may have roles.

        Args:
            made: whether anything is there that was made for a copy, or may be. If not, only where
                the account is seen to have roles: a policy that cannot be read is no leftover then.
        """
        found = self._iam_resources() if made else filter(self._has_roles, self._iam_resources())
        return tuple(dict.fromkeys((*self._named, *found)))

    def _read_job(self) -> None:
        """Note where the account of a machine that is there may have roles and the stack file does
        not lead any more: it may have been changed since."""
        with suppress(AccessError, AlreadyExistsError, ApiError):
            if (running := self.machine.find()) is not None:
                self._named = tuple(named_in(running.job))

    @contextmanager
    def told_if_left(self) -> Iterator[None]:
        """Whatever becomes of the block, what a removal has left is told, and is the exit code: it
        may be billed.

        Raises:
            IncompleteTeardownError: something is left.
        """
        try:
            yield
        except IncompleteTeardownError:
            raise
        except (TpuflexError, KeyboardInterrupt) as error:
            self.require_removed(error)
            raise
        self.require_removed()

    def require_removed(self, error: BaseException | None = None) -> None:
        """Check that nothing was left by :meth:`remove`, or may be.

        Args:
            error: what has failed before; it is told, too.

        Raises:
            IncompleteTeardownError: something was.
        """
        if not self.problems:
            return
        told, hints = [], []
        if isinstance(error, TpuflexError):
            told, hints = [error.message], [error.hint] if error.hint else []
        told += ["Not all that was made for the copy could be removed:"]
        told += [f"  {problem}" for problem in self.problems]
        hints += [
            f"To remove it: {STOP_COMMAND}",
            "Google deletes the machine at the end of its time. A role on what others look after,"
            " they take away.",
        ]
        raise IncompleteTeardownError("\n".join(told), hint="\n".join(hints)) from error

    def __enter__(self) -> RegionMachine:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._kept:
            self.remove()


def region_machine(invocation: Invocation, cloud: Cloud) -> RegionMachine:
    """The machine of the stack of ``cloud``, with the marks of the stack's state.

    Raises:
        EngineError: the state cannot be read.
    """
    from tpuflex.cli.stack_run import StackRun
    from tpuflex.cli.steps.ours import what_is_ours
    from tpuflex.engine.state import state_ids

    engine = StackRun(invocation, cloud).engine
    deployment = engine.deployment() if engine.exists() else {}
    own = state_ids(deployment)
    states = what_is_ours(cloud, deployment).states
    return RegionMachine(cloud, invocation.output.progress, states, next(iter(sorted(own)), ""))
