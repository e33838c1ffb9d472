"""Secrets that were there before the endpoint, and how its hosts get to read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
from pulumi_gcp import secretmanager

from tpuflex.components.inputs import inputs_of
from tpuflex.components.ownership import read_only_options
from tpuflex.google.existing_secret import VERSION_TITLE, made_by_tpuflex, version_condition
from tpuflex.naming import SECRET_ROLES, Names, SecretRole
from tpuflex.settings.model import StackSettings
from tpuflex.settings.secrets import ExistingSecret, existing_secret_setting, version_setting


@dataclass(frozen=True, kw_only=True)
class ExistingSecretsArgs:
    """Inputs of :class:`ExistingSecrets`."""

    secrets: Mapping[SecretRole, ExistingSecret]
    """The versions, by role."""

    host_roles: tuple[SecretRole, ...]
    """The roles that the reader may read."""

    manage_grants: bool
    """Whether the reader gets the right to."""

    reader: pulumi.Input[str]
    """IAM member that reads them."""

    title: str = VERSION_TITLE
    """Title of the condition: endpoints with one account have a binding each by it."""


class ExistingSecrets(pulumi.ComponentResource):
    """The right to read one version each of secrets that tpuflex does not manage.

    The engine reads each secret, at every plan, never a value of it, and never changes or deletes
    it.

    Attributes:
        grants: the reader's roles, if they are made here.
        seen: the secrets, once each is seen to be nothing that tpuflex deletes.
    """

    grants: tuple[secretmanager.SecretIamMember, ...]
    seen: tuple[pulumi.Output[pulumi.Resource], ...]

    def __init__(
        self, name: str, args: ExistingSecretsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        said = inputs_of(args) | {
            "secrets": {role: each.version for role, each in args.secrets.items()}
        }
        super().__init__("tpuflex:index:ExistingSecrets", name, said, opts)
        child = pulumi.ResourceOptions(parent=self)
        reading = read_only_options(self, opts)
        found = {
            role: secretmanager.Secret.get(f"{name}-{role}", each.secret, opts=reading)
            for role, each in args.secrets.items()
        }
        usable = {role: _usable(secret, args.secrets[role]) for role, secret in found.items()}
        self.seen = tuple(usable.values())
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
                    expression=_condition(secret, usable[role], args.secrets[role]),
                ),
                opts=child,
            )
            for role, secret in found.items()
            if args.manage_grants and role in args.host_roles
        )
        self.register_outputs({})


def require_not_own(
    secrets: Mapping[SecretRole, ExistingSecret], settings: StackSettings, names: Names
) -> None:
    """Nothing if none of ``secrets`` has a name that an endpoint with ``names`` gives its own.

    Raises:
        RunError: one has: the next update would delete it, because the endpoint makes it no more.
    """
    own = {names.secret(role) for role in SECRET_ROLES}
    for role, each in secrets.items():
        if each.project == settings.project and each.secret_id in own:
            key = f"tpuflex:secrets.{existing_secret_setting(role)}"
            raise pulumi.RunError(
                f"{key}: {each.secret} is the endpoint's own, which `up` would delete then.\n"
                f"Write {version_setting(role)} for that; or a secret that others have made."
            )


def _usable(
    secret: secretmanager.Secret, existing: ExistingSecret
) -> pulumi.Output[pulumi.Resource]:
    """``secret``, unless tpuflex has made it: the endpoint that has it deletes it."""

    def checked(labels: Mapping[str, str] | None) -> pulumi.Resource:
        if refusal := made_by_tpuflex(existing, labels or {}):
            raise pulumi.RunError(refusal)
        return secret

    return secret.effective_labels.apply(checked)


def _condition(
    secret: secretmanager.Secret, usable: pulumi.Output[pulumi.Resource], existing: ExistingSecret
) -> pulumi.Output[str]:
    """That the version ``existing`` of ``secret`` is read, which has its project's number; once it
    is seen to be ``usable``."""
    return pulumi.Output.all(secret.name, usable).apply(
        lambda known: version_condition(known[0], existing.number)
    )
