"""Secrets that were there before the endpoint, and how its hosts get to read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
from pulumi_gcp import secretmanager

from tpuflex.components.inputs import inputs_of
from tpuflex.components.reading import only_read
from tpuflex.gcp.brought_secret import VERSION_TITLE, this_version
from tpuflex.naming import SecretRole
from tpuflex.settings.secrets import BroughtSecret


@dataclass(frozen=True, kw_only=True)
class BroughtSecretsArgs:
    """Inputs of :class:`BroughtSecrets`."""

    secrets: Mapping[SecretRole, BroughtSecret]
    """The versions, by role."""

    host_roles: tuple[SecretRole, ...]
    """The roles that the reader may read."""

    manage_grants: bool
    """Whether the reader gets the right to."""

    reader: pulumi.Input[str]
    """IAM member that reads them."""

    title: str = VERSION_TITLE
    """Title of the condition: endpoints with one account have a binding each by it."""


class BroughtSecrets(pulumi.ComponentResource):
    """The right to read one version each of secrets that are somebody else's.

    The engine reads each secret, at every plan, never a value of it, and never changes or deletes
    it.

    Attributes:
        grants: the reader's roles, if they are made here.
        seen: the secrets.
    """

    grants: tuple[secretmanager.SecretIamMember, ...]
    seen: tuple[secretmanager.Secret, ...]

    def __init__(
        self, name: str, args: BroughtSecretsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        said = inputs_of(args) | {
            "secrets": {role: each.version for role, each in args.secrets.items()}
        }
        super().__init__("tpuflex:index:BroughtSecrets", name, said, opts)
        child = pulumi.ResourceOptions(parent=self)
        reading = only_read(self, opts)
        found = {
            role: secretmanager.Secret.get(f"{name}-{role}", each.secret, opts=reading)
            for role, each in args.secrets.items()
        }
        self.seen = tuple(found.values())
        self.grants = tuple(
            secretmanager.SecretIamMember(
                f"{name}-{role}-reader",
                project=args.secrets[role].project,
                secret_id=args.secrets[role].secret_id,
                role="roles/secretmanager.secretAccessor",
                member=args.reader,
                condition=secretmanager.SecretIamMemberConditionArgs(
                    title=args.title,
                    description="One version for the hosts of one endpoint, and no other",
                    expression=_condition(secret, args.secrets[role]),
                ),
                opts=child,
            )
            for role, secret in found.items()
            if args.manage_grants and role in args.host_roles
        )
        self.register_outputs({})


def _condition(secret: secretmanager.Secret, brought: BroughtSecret) -> pulumi.Output[str]:
    """That the version ``brought`` of ``secret`` is read, which has its project's number."""
    return secret.name.apply(lambda name: this_version(name, brought.number))
