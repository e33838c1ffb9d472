"""Secret Manager containers. The command line adds their versions, not Pulumi, so that no value
is ever in a stack's state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
from pulumi_gcp import secretmanager

from tpuflex.components.inputs import inputs_of
from tpuflex.components.ownership import labels
from tpuflex.naming import Names


@dataclass(frozen=True, kw_only=True)
class ServingSecretsArgs:
    """Inputs of :class:`ServingSecrets`."""

    names: Names
    """Physical names."""

    state_id: pulumi.Input[str]
    """Id of the state that makes it."""

    project: str
    """Google Cloud project id."""

    region: str
    """Region that stores the values."""

    roles: Sequence[str]
    """What the secrets are for, such as ``api-key``; one secret each."""

    host_roles: Sequence[str]
    """Those of them that the reader may read."""

    reader: pulumi.Input[str] | None
    """IAM member that may read the values of the host's; None where others grant that."""

    labels: pulumi.Input[Mapping[str, str]] | None = None
    """Labels of the user's."""

    kms_key: pulumi.Input[str] | None = None
    """Key of the user's that encrypts new versions."""


class ServingSecrets(pulumi.ComponentResource):
    """One secret per role, those of the host readable by it alone.

    Attributes:
        secrets: the containers, by role.
        secret_ids: their ids, by role; known before they exist.
        grants: the reader's roles.
    """

    secrets: dict[str, secretmanager.Secret]
    secret_ids: dict[str, str]
    grants: tuple[secretmanager.SecretIamMember, ...]

    def __init__(
        self, name: str, args: ServingSecretsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuflex:index:ServingSecrets", name, inputs_of(args), opts)
        child = pulumi.ResourceOptions(parent=self)
        self.secret_ids = {role: args.names.secret(role) for role in args.roles}
        self.secrets = {
            role: secretmanager.Secret(
                f"{name}-{role}",
                secret_id=secret_id,
                project=args.project,
                replication=replication_in(args.region, args.kms_key),
                labels=labels(args.names, args.state_id, args.labels),
                deletion_protection=False,
                opts=child,
            )
            for role, secret_id in self.secret_ids.items()
        }
        self.grants = tuple(
            secretmanager.SecretIamMember(
                f"{name}-{role}-reader",
                project=args.project,
                secret_id=secret.secret_id,
                role="roles/secretmanager.secretAccessor",
                member=args.reader,
                opts=child,
            )
            for role, secret in self.secrets.items()
            if role in args.host_roles and args.reader is not None
        )
        self.register_outputs({"secretIds": self.secret_ids})


def replication_in(
    region: str, kms_key: pulumi.Input[str] | None = None
) -> secretmanager.SecretReplicationArgs:
    """That a secret is stored in ``region`` alone, encrypted by ``kms_key`` if there is one."""
    replica = secretmanager.SecretReplicationUserManagedReplicaArgs(
        location=region, customer_managed_encryption=_by(kms_key)
    )
    managed = secretmanager.SecretReplicationUserManagedArgs(replicas=[replica])
    return secretmanager.SecretReplicationArgs(user_managed=managed)


def _by(
    key: pulumi.Input[str] | None,
) -> secretmanager.SecretReplicationUserManagedReplicaCustomerManagedEncryptionArgs | None:
    if key is None:
        return None
    return secretmanager.SecretReplicationUserManagedReplicaCustomerManagedEncryptionArgs(
        kms_key_name=key
    )
