"""Everything that is created before the slice, and deleted only after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi import UNKNOWN
from pulumi_gcp import projects

from tpuflex.alerts.rules import alert_rules
from tpuflex.boot.places import weights_bucket
from tpuflex.components.endpoint_args import Preparation
from tpuflex.components.existing_key import ExistingKey, ExistingKeyArgs
from tpuflex.components.existing_secrets import ExistingSecrets, ExistingSecretsArgs
from tpuflex.components.existing_secrets import require_not_own as require_not_own_secrets
from tpuflex.components.given import Given, labels_of, when_known
from tpuflex.components.identity import HostIdentity, HostIdentityArgs
from tpuflex.components.inputs import inputs_of
from tpuflex.components.monitoring import Monitoring, MonitoringArgs
from tpuflex.components.network import Network, NetworkArgs
from tpuflex.components.readable_weights import readable_weights
from tpuflex.components.secrets import ServingSecrets, ServingSecretsArgs
from tpuflex.errors import TpuflexError
from tpuflex.google.existing_secret import VERSION_TITLE, version_title
from tpuflex.google.required_apis import endpoint_apis
from tpuflex.naming import Names
from tpuflex.settings.identity import ExistingAccount
from tpuflex.settings.model import StackSettings
from tpuflex.settings.network import ExistingNetwork


@dataclass(frozen=True, kw_only=True)
class ApiServicesArgs:
    """Inputs of :class:`ApiServices`."""

    project: str
    """Google Cloud project id."""

    reads_keys: bool = False
    """Whether a key of Cloud KMS is read."""


class ApiServices(pulumi.ComponentResource):
    """Enables the APIs. They stay enabled on destroy, because others may use them.

    No order of resources waits until an enabled API answers, which takes minutes: `tpuflex up` does
    that before the engine starts, our provider retries, and of other providers it depends on them.

    Attributes:
        enabled: one resource per API, for other resources to depend on.
    """

    enabled: tuple[projects.Service, ...]

    def __init__(
        self, name: str, args: ApiServicesArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuflex:index:ApiServices", name, inputs_of(args), opts)
        self.enabled = tuple(
            projects.Service(
                f"{name}-{api.name}",
                project=args.project,
                service=api.service,
                disable_on_destroy=False,
                opts=pulumi.ResourceOptions(parent=self),
            )
            for api in endpoint_apis(reads_keys=args.reads_keys)
        )
        self.register_outputs({"services": [item.service for item in self.enabled]})


class Prerequisites:
    """Network, identity, weights and secrets of one endpoint.

    Args:
        key_unread: as :attr:`~tpuflex.components.endpoint_args.VllmEndpointArgs.key_unread`.

    Attributes:
        network: the slice's network.
        identity: the service account of its hosts.
        bucket: name of the bucket that holds their weights.
        secrets: the secrets that they read.
        kms_key: the key that encrypts what is made, once it is seen to be usable; None for Google's
            own.
    """

    def __init__(
        self,
        name: str,
        given: Given,
        names: Names,
        state_id: pulumi.Input[str],
        opts: pulumi.ResourceOptions,
        *,
        key_unread: bool = False,
    ) -> None:
        settings = given.settings
        project, region = settings.project, settings.region
        self._services = (
            [ApiServices(f"{name}-apis", _services(settings), opts)] if settings.manage_apis else []
        )
        after_services = pulumi.ResourceOptions.merge(
            opts, pulumi.ResourceOptions(depends_on=self._services)
        )
        self.kms_key = _key(name, settings, after_services, unread=key_unread)
        self.network = Network(
            f"{name}-network",
            NetworkArgs(
                names=names,
                state_id=state_id,
                project=project,
                region=region,
                existing=_existing(given),
                subnetwork_cidr=when_known(
                    given.known("network.subnetwork_cidr"),
                    lambda found: found.network.subnetwork_cidr,
                ),
                subnetwork_cidrs=settings.network.subnetwork_cidrs or None,
                serving_port=settings.serving.port,
                allowed_cidrs=when_known(
                    given.known("network.allowed_cidrs"),
                    lambda found: found.network.allowed_cidrs,
                ),
                egress=settings.network.egress,
                manage_firewall=settings.network.manage_firewall,
                ssh=settings.network.ssh,
                labels=labels_of(given),
            ),
            after_services,
        )
        self.identity = HostIdentity(
            f"{name}-host",
            HostIdentityArgs(
                names=names,
                state_id=state_id,
                project=project,
                reads_images=settings.pulls_own_image,
                writes_metrics=settings.monitoring.export_metrics,
                existing=_existing_account(given),
            ),
            after_services,
        )
        self._monitoring = _monitoring(name, given, names, state_id, after_services)
        self._reader = self.identity.member if settings.identity.manage_grants else None
        self.bucket = weights_bucket(settings, names)
        self._weights = readable_weights(
            name, given, names, state_id, self.identity, self.kms_key, after_services
        )
        existing = self._existing_secrets(name, settings, names, after_services)
        self._existing: tuple[pulumi.Input[pulumi.Resource], ...] = (
            () if existing is None else (*existing.seen, *existing.grants)
        )
        self.secrets = ServingSecrets(
            f"{name}-secrets",
            ServingSecretsArgs(
                names=names,
                state_id=state_id,
                project=project,
                region=region,
                roles=tuple(settings.secrets.versions),
                host_roles=settings.secrets.host_roles,
                reader=self._reader,
                labels=labels_of(given),
                kms_key=self.kms_key,
            ),
            after_services,
        )

    def _existing_secrets(
        self, name: str, settings: StackSettings, names: Names, opts: pulumi.ResourceOptions
    ) -> ExistingSecrets | None:
        """The hosts' right to read secrets that are there already; None if there are none."""
        if not settings.secrets.existing:
            return None
        require_not_own_secrets(settings.secrets.existing, settings, names)
        shared = settings.identity.existing is not None
        return ExistingSecrets(
            f"{name}-brought-secrets",
            ExistingSecretsArgs(
                secrets=settings.secrets.existing,
                host_roles=settings.secrets.host_roles,
                manage_grants=settings.secrets.manage_grants and self._reader is not None,
                reader=self.identity.member,
                title=version_title(names.owner) if shared else VERSION_TITLE,
            ),
            opts,
        )

    def all(self) -> list[pulumi.Input[pulumi.Resource]]:
        """What must be created before the slice, and deleted only after it."""
        return [
            *self._services,
            *self._monitoring,
            *self.network.barriers,
            *self.identity.grants,
            *self._weights.barriers,
            *self._secrets,
            *self._existing,
        ]

    @property
    def _secrets(self) -> Sequence[pulumi.CustomResource]:
        """The roles by which the hosts read their secrets; where others grant them, these."""
        return self.secrets.grants or tuple(self.secrets.secrets.values())

    def prepared(self, prepare: Preparation) -> pulumi.Output[str]:
        """The SHA-256 of the manifest of the weights to serve, once ``prepare`` has finished; in a
        preview as far as it is known, which it is not before the bucket exists."""
        # A preview that waited for the id of what is still to be made would never get to know the
        # hash, and could not say that another boot configuration replaces the slice.
        secrets = () if pulumi.runtime.is_dry_run() else self._secrets
        known = [] if self._weights.known is None else [self._weights.known]
        existing = [*known, *(item.id for item in secrets)]

        async def run(_: object) -> Any:
            bucket = self.bucket
            try:
                if pulumi.runtime.is_dry_run():
                    return await prepare.planned(bucket) or UNKNOWN
                return await prepare.ready(bucket, self.secrets.secret_ids)
            except TpuflexError as error:
                raise pulumi.RunError(str(error)) from error

        return pulumi.Output.all(*existing).apply(run)


def _monitoring(
    name: str,
    given: Given,
    names: Names,
    state_id: pulumi.Input[str],
    opts: pulumi.ResourceOptions,
) -> list[Monitoring]:
    """The endpoint's alert policies and dashboard, if it has them."""
    settings = given.settings
    if not settings.monitoring.alert_policies:
        return []
    args = MonitoringArgs(
        names=names,
        state_id=state_id,
        project=settings.project,
        model=settings.model.name,
        rules=alert_rules(settings),
        notification_channels=settings.monitoring.notification_channels,
        labels=labels_of(given),
    )
    return [Monitoring(f"{name}-monitoring", args, opts)]


def _services(settings: StackSettings) -> ApiServicesArgs:
    reads_keys = settings.encryption.kms_key is not None
    return ApiServicesArgs(project=settings.project, reads_keys=reads_keys)


def _key(
    name: str, settings: StackSettings, opts: pulumi.ResourceOptions, *, unread: bool
) -> pulumi.Output[str] | None:
    """The user's key, once it is seen to be usable; None if there is none."""
    if (key := settings.encryption.kms_key) is None:
        return None
    return ExistingKey(f"{name}-key", ExistingKeyArgs(kms_key=key), opts, unread=unread).key


def _existing(given: Given) -> pulumi.Input[ExistingNetwork] | None:
    """The network that is there already, or is by the time that its name is known."""
    if given.settings.network.makes_network:
        return None
    return when_known(given.known("network.name", "network.subnetwork"), _its_network)


def _existing_account(given: Given) -> pulumi.Input[ExistingAccount] | None:
    """The account that is there already, or is by the time that its email is known."""
    if given.settings.identity.existing is None:
        return None
    return when_known(given.known("identity.service_account"), _its_account)


def _its_network(settings: StackSettings) -> ExistingNetwork:
    existing = settings.existing_network
    assert existing is not None  # noqa: S101 - it is named
    return existing


def _its_account(settings: StackSettings) -> ExistingAccount:
    existing = settings.identity.existing
    assert existing is not None  # noqa: S101 - it is named
    return existing
