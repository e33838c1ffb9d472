"""The component that users deploy: a private vLLM endpoint on a Flex-start slice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

import pulumi
import pulumi_gcp as gcp
from pulumi import UNKNOWN
from pulumi.runtime.config import CONFIG, get_config_env

from tpuflex.boot.config import boot_config
from tpuflex.boot.metadata import host_metadata
from tpuflex.catalog.zones import region_of
from tpuflex.components.cloud import require_matching_cloud, runs_embedded
from tpuflex.components.endpoint_args import Preparation, StateSeen, VllmEndpointArgs
from tpuflex.components.given import Given, when_known
from tpuflex.components.ownership import labels
from tpuflex.components.prerequisites import Prerequisites
from tpuflex.duration import google_duration
from tpuflex.host.report import CONFIG_KEY
from tpuflex.naming import API_KEY, VLLM_ENDPOINT, Names
from tpuflex.planning.cost import RunCost, run_cost
from tpuflex.queued_resource.states import Lifecycle
from tpuflex.settings.model import StackSettings
from tpuflex.settings.slice import REQUEST_INPUTS, TIMEOUT_INPUTS
from tpuflex.settings.stack_document import COVERED, GCP_NAMESPACE
from tpuflex.tpu import BootDiskArgs, Provider, QueuedResource, StateId


def own_gcp_provider(name: str, settings: StackSettings, parent: pulumi.Resource) -> gcp.Provider:
    """A provider for the project and the place of ``settings``.

    An explicit provider takes nothing from the `gcp:` configuration of the surrounding program,
    whose project and place may be another one's. What else is written there (labels, credentials)
    would be ignored."""
    keys = {*get_config_env(), *CONFIG.get()}
    ignored = sorted(
        key
        for key in keys
        if key.startswith(GCP_NAMESPACE) and key.removeprefix(GCP_NAMESPACE) not in COVERED
    )
    if ignored:
        raise pulumi.RunError(
            f"{', '.join(ignored)} would have no effect on what {name} makes: its gcp provider is"
            " one of its own.\nPass one that has these settings: "
            "opts=pulumi.ResourceOptions(providers=[gcp.Provider(…)])."
        )
    return gcp.Provider(
        f"{name}-gcp",
        project=settings.project,
        region=settings.region,
        zone=next(each for each in settings.slice.zones if region_of(each) == settings.region),
        opts=pulumi.ResourceOptions(parent=parent),
    )


#: What is wrong with an endpoint that nobody prepares and that pins no weights.
_NO_HASH = (
    "tpuflex:model.weights.manifest_sha256 is missing, so nothing says which weights the host may"
    " serve.\nRun `tpuflex weights hash` (or `tpuflex weights hash DIRECTORY`) and write what it"
    " prints there; or bring the stack up with `tpuflex up`, which finds it out."
)


class VllmEndpoint(pulumi.ComponentResource):
    """An OpenAI-compatible vLLM server on a TPU slice, with everything that it needs.

    Attributes:
        url: base URL of the API, inside the network. While the slice is not active, a preview does
            not know it, and after an update it is None: there is nothing to reach.
        model: the served model.
        zone: zone of the slice.
        queued_resource: the slice's request.
        state: the request's state in the API's words.
        lifecycle: the request's state in tpuflex's words.
        network: id of the slice's network.
        subnetwork: id of its subnetwork; in the stack's home, if its zones are in several regions.
        service_account: email of the account that the hosts run as.
        expires: when Google deletes the slice (RFC 3339), or None before it is granted.
        bucket: name of the bucket that holds the weights: its own, or the library's.
        api_key_secret: resource name of the API key's version in Secret Manager.
        cost: the price, and the maximum cost of a run.
        state_id: marks everything that this state makes.
    """

    url: pulumi.Output[str | None]
    zone: pulumi.Output[str]
    queued_resource: QueuedResource
    state: pulumi.Output[str]
    lifecycle: pulumi.Output[str]
    subnetwork: pulumi.Output[str]
    service_account: pulumi.Output[str]
    expires: pulumi.Output[str | None]
    bucket: str
    api_key_secret: str
    cost: RunCost
    state_id: pulumi.Output[str]

    def __init__(
        self, name: str, args: VllmEndpointArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        given, settings = args.given, args.settings
        require_matching_cloud(settings.cloud, args.environ)
        if args.prepare is None and settings.model.weights.manifest_sha256 is None:
            raise pulumi.RunError(_NO_HASH)
        suffix = settings.model.weights.bucket_suffix or ""
        usual = Names(pulumi.get_project(), pulumi.get_stack(), name, suffix)
        names = args.names or usual
        names = replace(names, bucket_suffix=names.bucket_suffix or suffix)
        # The command line reads them in the state (tpuflex.stack.recorded).
        shown = given.inputs() | ({} if names == usual else {"names": asdict(names)})
        super().__init__(VLLM_ENDPOINT, name, shown, opts)
        # Typed here, like the network: by a type of the class, the SDK would read the input of the
        # same name.
        self.model: str = settings.model.name
        self.cost = run_cost(settings)

        tpu = pulumi.ResourceOptions(parent=self, provider=self._tpu_provider(name, args))
        made_as = {"project": names.project, "stack": names.stack, "name": names.name}
        state = StateId(f"{name}-state", names=made_as, opts=tpu)
        self.state_id = _announced(state.value, args.state_seen)
        prerequisites = Prerequisites(
            name,
            given,
            names,
            self.state_id,
            self._with_gcp(name, settings),
            key_unread=args.key_unread,
        )
        self.network: pulumi.Output[str] = prerequisites.network.network_id
        self.subnetwork = prerequisites.network.subnetwork_id
        self.service_account = prerequisites.identity.account.email
        self.bucket = prerequisites.bucket
        self.api_key_secret = settings.secret_version(names, API_KEY)
        self.queued_resource = self._slice(
            name,
            given,
            names,
            prerequisites,
            {**host_metadata(), CONFIG_KEY: _config(given, names, prerequisites, args.prepare)},
            tpu,
        )
        self._publish(settings)

    def _slice(
        self,
        name: str,
        given: Given,
        names: Names,
        prerequisites: Prerequisites,
        metadata: Mapping[str, pulumi.Input[str]],
        tpu: pulumi.ResourceOptions,
    ) -> QueuedResource:
        settings, slice_ = given.settings, given.settings.slice
        own_tag = prerequisites.network.tag
        row = settings.catalog.accelerator(slice_.accelerator_type)
        return QueuedResource(
            name,
            # Not an id: a replacement takes the next one, so it can be created first.
            queued_resource_id_prefix=names.prefix,
            project=settings.project,
            runtime_version=slice_.runtime_version or (row and row.runtime_version) or "",
            **_capacity(given),
            network=prerequisites.network.network_id,
            subnetwork=prerequisites.network.subnetwork,
            service_account=prerequisites.identity.email,
            tags=when_known(
                given.known("network.tags"), lambda found: [own_tag, *found.network.tags]
            ),
            labels=labels(
                names, self.state_id, when_known(given.known("labels"), lambda found: found.labels)
            ),
            metadata=metadata,
            boot_disk=_boot_disk(prerequisites.kms_key),
            description=f"{settings.model.name}, stack {names.stack} of {names.project}",
            opts=pulumi.ResourceOptions.merge(
                tpu, pulumi.ResourceOptions(depends_on=prerequisites.all())
            ),
        )

    def _publish(self, settings: StackSettings) -> None:
        self.zone = self.queued_resource.zone
        self.state = self.queued_resource.state
        self.lifecycle = self.queued_resource.lifecycle
        self.expires = self.queued_resource.expire_time
        self.url = pulumi.Output.all(self.lifecycle, self.queued_resource.ip_addresses).apply(
            lambda found: _url(settings, *found)
        )
        self.register_outputs(without_unknown(self.state_outputs()))

    def state_outputs(self) -> dict[str, pulumi.Input[Any]]:
        """Its attributes by the names that the state, and programs in other languages, have for
        them."""
        return {
            "url": self.url,
            "model": self.model,
            "zone": self.zone,
            "queuedResource": self.queued_resource.id,
            "state": self.state,
            "lifecycle": self.lifecycle,
            "expires": self.expires,
            "network": self.network,
            "subnetwork": self.subnetwork,
            "serviceAccount": self.service_account,
            "bucket": self.bucket,
            "apiKeySecret": self.api_key_secret,
        }

    def _with_gcp(self, name: str, settings: StackSettings) -> pulumi.ResourceOptions:
        """Options of the gcp children: the caller's provider, else one of our own."""
        given = self.get_provider("gcp:index:Provider")
        provider = given or own_gcp_provider(name, settings, self)
        return pulumi.ResourceOptions(parent=self, providers={"gcp": provider})

    def _tpu_provider(self, name: str, args: VllmEndpointArgs) -> pulumi.ProviderResource:
        """The caller's provider, else one of our own.

        The default provider of the package `tpuflex` would be configured with every key of
        the stack file, and would change with each of them.
        """
        return self.get_provider("tpuflex:index:Provider") or Provider(
            f"{name}-tpu",
            project=args.settings.project,
            embedded=runs_embedded(args.settings.cloud, args.environ),
            opts=pulumi.ResourceOptions(parent=self),
        )


def _config(
    given: Given,
    names: Names,
    prerequisites: Prerequisites,
    prepare: Preparation | None,
) -> pulumi.Input[str]:
    """The configuration that the hosts boot with, which names the weights that they may serve."""
    known = given.known("serving.env", "model.weights.manifest_sha256")

    def pinned(settings: StackSettings) -> str:
        return boot_config(settings, names, str(settings.model.weights.manifest_sha256)).to_json()

    pin = given.settings.model.weights.manifest_sha256
    if prepare is None or (pin is not None and pulumi.runtime.is_dry_run()):
        # Whatever lies in the bucket, an update goes on with these weights or not at all.
        return when_known(known, pinned)
    return pulumi.Output.all(known, prerequisites.prepared(prepare)).apply(
        lambda found: boot_config(found[0], names, found[1]).to_json()
    )


def _url(settings: StackSettings, lifecycle: str, addresses: Sequence[str]) -> Any:
    """The URL of a slice at ``addresses``; of one that is not active none, and in a preview an
    unknown one: the update may get it capacity."""
    if lifecycle == Lifecycle.ACTIVE and addresses:
        return settings.url(addresses[0])
    return UNKNOWN if pulumi.runtime.is_dry_run() else None


def _announced(state_id: pulumi.Output[str], seen: StateSeen | None) -> pulumi.Output[str]:
    """``state_id``, which ``seen`` is told before anybody else."""
    if seen is None:
        return state_id

    def tell(id_: str) -> str:
        seen(id_)
        return id_

    return state_id.apply(tell)


def without_unknown(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """``outputs`` for the state, which is to have none that is still unknown after an update: one
    of a part of the stack makes no slice, and the engine would write down its marker for what is
    unknown."""
    if pulumi.runtime.is_dry_run():
        return dict(outputs)

    async def known(value: pulumi.Output[Any]) -> Any:
        return value if await value.is_known() else None

    return {
        name: pulumi.Output.from_input(known(value)) if isinstance(value, pulumi.Output) else value
        for name, value in outputs.items()
    }


def _boot_disk(key: pulumi.Output[str] | None) -> BootDiskArgs | None:
    """The hosts' boot disk, if a key of the user's encrypts it; Google chooses all else of it."""
    return None if key is None else BootDiskArgs(kms_key_name=key)


def _capacity(given: Given) -> dict[str, Any]:
    """The inputs of the queued resource that are keys of `tpuflex:slice`, each as soon as it is
    known."""

    def reader(key: str) -> Callable[[StackSettings], Any]:
        return lambda found: _google(getattr(found.slice, key))

    keys = {
        name: when_known(given.known(f"slice.{key}"), reader(key))
        for key, name in REQUEST_INPUTS.items()
    }
    timeouts = given.settings.slice.timeouts
    return keys | {name: _google(getattr(timeouts, key)) for key, name in TIMEOUT_INPUTS.items()}


def _google(value: object) -> object:
    """``value`` of the settings as the queued resource takes it."""
    if isinstance(value, timedelta):
        return google_duration(value)
    return list(value) if isinstance(value, tuple) else value
