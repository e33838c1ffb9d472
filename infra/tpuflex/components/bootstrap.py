"""What a project needs once, before a pull request can preview or deploy a stack in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi
import pulumi_gcp as gcp
from pulumi_gcp import iam, kms, projects, serviceaccount, storage

from tpuflex.components.bootstrap_names import (
    DEPLOY,
    KEY,
    KEY_RING,
    POOL,
    PREVIEW,
    PROVIDER,
    BootstrapNames,
    Repository,
)
from tpuflex.naming import STATES_LABEL
from tpuflex.roles.roles import roles

_ISSUER = "https://token.actions.githubusercontent.com"
#: 90 days (https://cloud.google.com/kms/docs/key-rotation).
_ROTATION = "7776000s"
#: Old versions of a state are kept so long, and at least so many.
_KEPT_DAYS, _KEPT_VERSIONS = 90, 20
#: What each identity may do with the states, and with the key of their secrets.
_BUCKET_ROLES = {PREVIEW: "roles/storage.objectViewer", DEPLOY: "roles/storage.objectUser"}
_KEY_ROLES = {
    PREVIEW: "roles/cloudkms.cryptoKeyDecrypter",
    DEPLOY: "roles/cloudkms.cryptoKeyEncrypterDecrypter",
}


@dataclass(frozen=True, kw_only=True)
class BootstrapArgs:
    """Inputs of :class:`Bootstrap`."""

    names: BootstrapNames
    """Project, region, and all names."""

    repository: Repository
    """The repository whose workflows get in."""

    adopted: Mapping[str, str] = field(default_factory=dict)
    """Ids of what is there already, by logical name: an earlier bootstrap has left it."""


class Bootstrap(pulumi.ComponentResource):
    """A bucket and a key for states, and two identities for the workflows of one repository.

    There is no service-account key: GitHub's own token is exchanged for one of Google's. Whoever
    may open a pull request in the repository itself can read with the preview identity; the deploy
    identity is for jobs of one GitHub environment alone, which reviewers protect. Forks get no
    token from GitHub.
    """

    def __init__(
        self, name: str, args: BootstrapArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuflex:index:Bootstrap", name, None, opts)
        self._args = args
        self._names = args.names
        accounts = {identity: self._account(identity) for identity in (PREVIEW, DEPLOY)}
        self._states(accounts)
        self._grants(accounts)
        self._federation(accounts)
        self.register_outputs({})

    def _options(self, name: str = "", *, retain: bool = False) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(
            parent=self, import_=self._args.adopted.get(name), retain_on_delete=retain
        )

    def _account(self, identity: str) -> serviceaccount.Account:
        return serviceaccount.Account(
            f"{identity}-account",
            project=self._names.project,
            account_id=self._names.account_id(identity),
            display_name=f"tpuflex {identity}",
            description=f"{identity} of tpuflex stacks in GitHub Actions of"
            f" {self._args.repository.name}",
            opts=self._options(),
        )

    def _states(self, accounts: Mapping[str, serviceaccount.Account]) -> None:
        """Bucket and key. Google deletes no key, and what it has encrypted is lost without it: it
        stays when the rest is removed."""
        names = self._names
        bucket = storage.Bucket(
            "states",
            name=names.bucket,
            project=names.project,
            location=names.region.upper(),
            uniform_bucket_level_access=True,
            public_access_prevention="enforced",
            versioning=storage.BucketVersioningArgs(enabled=True),
            lifecycle_rules=[
                storage.BucketLifecycleRuleArgs(
                    action=storage.BucketLifecycleRuleActionArgs(type="Delete"),
                    condition=storage.BucketLifecycleRuleConditionArgs(
                        days_since_noncurrent_time=_KEPT_DAYS, num_newer_versions=_KEPT_VERSIONS
                    ),
                )
            ],
            force_destroy=False,
            labels=dict(STATES_LABEL),
            opts=self._options(),
        )
        ring = kms.KeyRing(
            "key-ring",
            name=KEY_RING,
            project=names.project,
            location=names.region,
            opts=self._options("key-ring", retain=True),
        )
        key = kms.CryptoKey(
            "key",
            name=KEY,
            key_ring=ring.id,
            rotation_period=_ROTATION,
            opts=self._options("key", retain=True),
        )
        for identity, account in accounts.items():
            storage.BucketIAMMember(
                f"{identity}-states",
                bucket=bucket.name,
                role=_BUCKET_ROLES[identity],
                member=account.member,
                condition=storage.BucketIAMMemberConditionArgs(
                    title="tpuflex_states_only",
                    description="Not the state of the bootstrap itself",
                    expression=names.not_own_state,
                ),
                opts=self._options(),
            )
            kms.CryptoKeyIAMMember(
                f"{identity}-key",
                crypto_key_id=key.id,
                role=_KEY_ROLES[identity],
                member=account.member,
                opts=self._options(),
            )

    def _grants(self, accounts: Mapping[str, serviceaccount.Account]) -> None:
        """The custom roles, and who gets which of them on the project."""
        data, project = roles(), self._names.project
        made: dict[str, projects.IAMCustomRole] = {}
        for identity, account in accounts.items():
            for role_id in data.identities[identity]:
                role = data.roles[role_id]
                if role_id not in made:
                    made[role_id] = projects.IAMCustomRole(
                        role_id,
                        role_id=role_id,
                        project=project,
                        title=role.title,
                        description=role.description,
                        permissions=list(data.permissions_of(role_id)),
                        opts=self._options(),
                    )
                condition = role.condition
                projects.IAMMember(
                    f"{identity}-{role_id}",
                    project=project,
                    role=made[role_id].name,
                    member=account.member,
                    condition=projects.IAMMemberConditionArgs(**condition) if condition else None,
                    opts=self._options(),
                )

    def _federation(self, accounts: Mapping[str, serviceaccount.Account]) -> None:
        """The pool that takes GitHub's tokens, and who of them acts as whom."""
        project, repository = self._names.project, self._args.repository
        pool = iam.WorkloadIdentityPool(
            "pool",
            project=project,
            workload_identity_pool_id=POOL,
            display_name="tpuflex",
            description="Workflows that preview and deploy tpuflex stacks",
            opts=self._options("pool"),
        )
        iam.WorkloadIdentityPoolProvider(
            "provider",
            project=project,
            workload_identity_pool_id=pool.workload_identity_pool_id,
            workload_identity_pool_provider_id=PROVIDER,
            display_name="GitHub",
            description=f"Repository {repository.name}, by its numbers",
            attribute_mapping={
                # Audit logs show it. GitHub's own subject may be longer than the 127 bytes that
                # Google takes (https://cloud.google.com/iam/docs/workload-identity-federation).
                "google.subject": "assertion.repository_id + ':' + assertion.run_id",
                "attribute.repository_id": "assertion.repository_id",
                "attribute.deploys": repository.deploys,
            },
            attribute_condition=repository.condition,
            oidc=iam.WorkloadIdentityPoolProviderOidcArgs(issuer_uri=_ISSUER),
            opts=self._options("provider"),
        )
        workflows = {
            PREVIEW: f"attribute.repository_id/{repository.id}",
            DEPLOY: "attribute.deploys/yes",
        }
        for identity, whose in workflows.items():
            serviceaccount.IAMMember(
                f"{identity}-workflows",
                service_account_id=accounts[identity].name,
                role="roles/iam.workloadIdentityUser",
                member=pulumi.Output.concat(
                    "principalSet://iam.googleapis.com/", pool.name, "/", whose
                ),
                opts=self._options(),
            )


def deploy_bootstrap(args: BootstrapArgs) -> None:
    """Register what a bootstrap makes, with a provider of its own."""
    provider = gcp.Provider("gcp", project=args.names.project, region=args.names.region)
    Bootstrap("bootstrap", args, pulumi.ResourceOptions(providers=[provider]))
