"""The Google APIs that an endpoint needs, enabled in its project."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_gcp import projects

from tpuflex.components.inputs import inputs_of
from tpuflex.gcp.required_apis import endpoint_apis


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
