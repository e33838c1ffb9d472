"""The service account that the host runs as, with the fewest permissions possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_gcp import projects, serviceaccount

from tpuflex.components.given import when_known
from tpuflex.components.inputs import inputs_of
from tpuflex.components.ownership import description, read_only_options
from tpuflex.gcloud_commands import enable_account
from tpuflex.inventory.kinds import IMAGES_ROLE, METRICS_ROLE, PROJECT_ROLES
from tpuflex.naming import Names, account_email, owner_in
from tpuflex.settings.identity import ExistingAccount

_KEY = "tpuflex:identity.service_account"


@dataclass(frozen=True, kw_only=True)
class HostIdentityArgs:
    """Inputs of :class:`HostIdentity`."""

    names: Names
    """Physical names."""

    state_id: pulumi.Input[str]
    """Id of the state that makes it."""

    project: str
    """Google Cloud project id."""

    reads_images: bool
    """Whether the serving image is in a registry of the project."""

    writes_metrics: bool
    """Whether the hosts write to Cloud Monitoring."""

    existing: pulumi.Input[ExistingAccount] | None = None
    """A service account that is there already; one of its own by default."""


class HostIdentity(pulumi.ComponentResource):
    """A service account that may write logs, and, if it must, write metrics and read the project's
    images.

    Or one that is there already, of which nothing is changed. It is granted nothing on the project:
    such a grant would be one of all endpoints with this account, and the first teardown would take
    it from the others.

    Attributes:
        account: the service account.
        email: its address; of one of its own known before it exists.
        member: its address as an IAM policy spells it.
        grants: its roles on the project.
    """

    account: serviceaccount.Account
    email: pulumi.Input[str]
    member: pulumi.Output[str]
    grants: tuple[projects.IAMMember, ...]

    def __init__(
        self, name: str, args: HostIdentityArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuflex:index:HostIdentity", name, inputs_of(args), opts)
        if args.existing is None:
            self._own(name, args)
        else:
            existing = when_known(
                args.existing, lambda it: require_not_own(it, args.names, args.project)
            )
            self._existing(name, existing, read_only_options(self, opts))
        self.register_outputs({"email": self.email})

    def _own(self, name: str, args: HostIdentityArgs) -> None:
        account_id = args.names.service_account_id()
        self.account = serviceaccount.Account(
            name,
            account_id=account_id,
            project=args.project,
            display_name=f"tpuflex host of {args.names.stack}",
            description=description(args.names, args.state_id),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.email = account_email(account_id, args.project)
        # Taken from the account, so that the account exists before any grant.
        self.member = self.account.member
        roles = {
            **PROJECT_ROLES,
            **(METRICS_ROLE if args.writes_metrics else {}),
            **(IMAGES_ROLE if args.reads_images else {}),
        }
        self.grants = tuple(
            projects.IAMMember(
                f"{name}-{what}",
                project=args.project,
                role=role,
                member=self.member,
                opts=pulumi.ResourceOptions(parent=self),
            )
            for what, role in roles.items()
        )

    def _existing(
        self,
        name: str,
        existing: pulumi.Input[ExistingAccount],
        reading: pulumi.ResourceOptions,
    ) -> None:
        """The engine reads the account, at every plan, and never changes or deletes it."""
        self.account = serviceaccount.Account.get(
            # Not the name of one of its own: an endpoint may move from that to this.
            f"{name}-brought",
            when_known(existing, lambda it: it.path),
            opts=reading,
        )
        found = pulumi.Output.all(self.account.disabled, self.account.description)
        changing = isinstance(existing, pulumi.Output) and pulumi.runtime.is_dry_run()
        require = _warned_if_not if changing else require_usable
        # Also where a preview knows one of them not, because the cloud leaves out what is not set:
        # an account that is not known would replace the slice.
        known: pulumi.Output[ExistingAccount] = pulumi.Output.from_input(existing)
        usable: pulumi.Output[ExistingAccount] = known.apply(
            lambda it: found.apply(lambda seen: require(it, seen), run_with_unknowns=True)
        )
        self.email = usable.apply(lambda account: account.email)
        self.member = usable.apply(lambda account: account.member)
        self.grants = ()


def require_not_own(existing: ExistingAccount, names: Names, project: str) -> ExistingAccount:
    """``existing`` if it has no name that an endpoint of ``names`` gives in ``project``."""
    if existing.email == account_email(names.service_account_id(), project):
        raise pulumi.RunError(
            f"{_KEY}: {existing.email} has the name of the endpoint's own, which `down` and `sweep`"
            " delete.\nWrite one that others have made."
        )
    return existing


def require_usable(existing: ExistingAccount, seen: object) -> ExistingAccount:
    """``existing`` if hosts can run as it for as long as its owner wants."""
    disabled, text = seen if isinstance(seen, Sequence) else (None, None)
    if disabled is True:
        raise pulumi.RunError(
            f"{_KEY}: {existing.email} is disabled, so hosts get no token of it.\n"
            f"Run: {enable_account(existing.project, existing.email)}"
        )
    if isinstance(text, str) and owner_in(text):
        raise pulumi.RunError(
            f"{_KEY}: {existing.email} is an endpoint's own, which that endpoint's `down`"
            " deletes.\nWrite one that others have made."
        )
    return existing


def _warned_if_not(existing: ExistingAccount, seen: object) -> ExistingAccount:
    """``existing``, with a warning if it cannot be used as it is: the program may be about to
    change that, and its update looks again."""
    try:
        return require_usable(existing, seen)
    except pulumi.RunError as error:
        pulumi.log.warn(str(error))
        return existing
