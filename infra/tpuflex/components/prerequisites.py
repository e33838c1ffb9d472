"""Everything that is created before the slice, and deleted only after it."""

from __future__ import annotations

import pulumi

from tpuflex.components.endpoint_args import Prepare
from tpuflex.components.identity import HostIdentity, HostIdentityArgs
from tpuflex.components.network import Network, NetworkArgs
from tpuflex.components.secrets import ServingSecrets, ServingSecretsArgs
from tpuflex.components.services import ApiServices, ApiServicesArgs
from tpuflex.components.weights import WeightsBucket, WeightsBucketArgs
from tpuflex.errors import TpuflexError
from tpuflex.naming import Names
from tpuflex.settings.image import registry_project
from tpuflex.settings.model import StackSettings


class Prerequisites:
    """Network, identity, weights bucket and secrets of one endpoint.

    Attributes:
        network: the slice's network.
        identity: the service account of its hosts.
        weights: the bucket that they read.
        secrets: the secrets that they read.
    """

    def __init__(
        self,
        name: str,
        settings: StackSettings,
        names: Names,
        state_id: pulumi.Input[str],
        opts: pulumi.ResourceOptions,
    ) -> None:
        project, region = settings.project, settings.slice.region
        self._services = ApiServices(f"{name}-apis", ApiServicesArgs(project=project), opts)
        after_services = pulumi.ResourceOptions.merge(
            opts, pulumi.ResourceOptions(depends_on=[self._services])
        )
        self.network = Network(
            f"{name}-network",
            NetworkArgs(
                names=names,
                state_id=state_id,
                project=project,
                region=region,
                subnetwork_cidr=settings.network.subnetwork_cidr,
                serving_port=settings.serving.port,
                allowed_cidrs=settings.network.allowed_cidrs,
                egress=settings.network.egress,
            ),
            after_services,
        )
        self.identity = HostIdentity(
            f"{name}-host",
            HostIdentityArgs(
                names=names,
                state_id=state_id,
                project=project,
                reads_images=registry_project(settings.serving.image) == project,
            ),
            after_services,
        )
        self.weights = WeightsBucket(
            f"{name}-weights",
            WeightsBucketArgs(
                names=names,
                state_id=state_id,
                project=project,
                region=region,
                reader=self.identity.member,
            ),
            after_services,
        )
        self.secrets = ServingSecrets(
            f"{name}-secrets",
            ServingSecretsArgs(
                names=names,
                state_id=state_id,
                project=project,
                region=region,
                roles=tuple(settings.secrets.versions),
                reader=self.identity.member,
            ),
            after_services,
        )

    def all(self) -> list[pulumi.Resource]:
        """What must be created before the slice, and deleted only after it."""
        return [
            self._services,
            *self.network.barriers,
            *self.identity.grants,
            self.weights.grant,
            *self.secrets.grants,
        ]

    def prepared(self, prepare: Prepare | None) -> pulumi.Output[None] | None:
        """Resolves when ``prepare`` has finished; None if there is nothing to prepare."""
        if prepare is None or pulumi.runtime.is_dry_run():
            return None
        existing = [item.id for item in (self.weights.grant, *self.secrets.grants)]

        async def run(_: object) -> None:
            try:
                await prepare(self.weights.bucket_name, self.secrets.secret_ids)
            except TpuflexError as error:
                raise pulumi.RunError(str(error)) from error

        return pulumi.Output.all(*existing).apply(run)
