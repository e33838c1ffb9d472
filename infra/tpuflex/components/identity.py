"""The service account that the host runs as, with the fewest permissions possible."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_gcp import projects, serviceaccount

from tpuflex.components.inputs import inputs_of
from tpuflex.components.marks import description
from tpuflex.gcp.kinds import IMAGES_ROLE, PROJECT_ROLES
from tpuflex.naming import Names, account_email


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


class HostIdentity(pulumi.ComponentResource):
    """A service account that may write logs and metrics, and read the project's images if it must.

    Attributes:
        account: the service account.
        email: its address, known before it exists.
        member: its address as an IAM policy spells it.
        grants: its roles on the project.
    """

    account: serviceaccount.Account
    email: str
    member: pulumi.Output[str]
    grants: tuple[projects.IAMMember, ...]

    def __init__(
        self, name: str, args: HostIdentityArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuflex:index:HostIdentity", name, inputs_of(args), opts)
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
        roles = {**PROJECT_ROLES, **(IMAGES_ROLE if args.reads_images else {})}
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
        self.register_outputs({"email": self.email})
