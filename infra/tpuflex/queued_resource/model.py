"""What the Cloud TPU API v2alpha1 answers.

A field is named here if something decides by it. All others are kept as they came, and an import
reads them by the place that the input's row has (:mod:`tpuflex.queued_resource.body`). Every field
may be missing: the API is alpha. Source of names: `tpu.v2alpha1.json`, revision 20261001.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, JsonValue
from pydantic.alias_generators import to_camel

from tpuflex import naming
from tpuflex.duration import google_seconds


class _Answer(BaseModel):
    model_config = ConfigDict(
        extra="allow", frozen=True, alias_generator=to_camel, populate_by_name=True
    )


class Status(_Answer):
    """A google.rpc.Status."""

    code: int = 0
    message: str = ""


class Operation(_Answer):
    """A long-running operation; ``error`` means something only once it is ``done``."""

    name: str = ""
    done: bool = False
    error: Status | None = None


class AccessConfig(_Answer):
    external_ip: str = ""


class NetworkEndpoint(_Answer):
    """Where one host of the slice is reached; the first is the recommended contact."""

    ip_address: str = ""
    port: int = 0
    access_config: AccessConfig = AccessConfig()


class NetworkConfig(_Answer):
    enable_external_ips: bool = False


class SchedulingConfig(_Answer):
    termination_timestamp: str = ""


def _without_version(key: str) -> str:
    """``key`` as it is asked for: an answer may name the version that has encrypted."""
    return key.partition("/cryptoKeyVersions/")[0]


class CustomerEncryptionKey(_Answer):
    kms_key_name: Annotated[str, AfterValidator(_without_version)] = ""


class BootDiskConfig(_Answer):
    customer_encryption_key: CustomerEncryptionKey = CustomerEncryptionKey()


class UpcomingMaintenance(_Answer):
    type: str = ""
    window_start_time: str = ""
    window_end_time: str = ""
    maintenance_status: str = ""


class Node(_Answer):
    """A node: the hosts of one slice."""

    name: str = ""
    state: str = "STATE_UNSPECIFIED"
    health: str = ""
    health_description: str = ""
    create_time: str = ""
    accelerator_type: str = ""
    accelerator_config: dict[str, JsonValue] | None = None
    runtime_version: str = ""
    description: str = ""
    labels: dict[str, str] = {}
    metadata: dict[str, str] = {}
    tags: tuple[str, ...] = ()
    network_config: NetworkConfig = NetworkConfig()
    network_configs: tuple[NetworkConfig, ...] = ()
    boot_disk_config: BootDiskConfig | None = None
    network_endpoints: tuple[NetworkEndpoint, ...] = ()
    scheduling_config: SchedulingConfig = SchedulingConfig()
    queued_resource: str = ""
    upcoming_maintenance: UpcomingMaintenance | None = None

    @property
    def id(self) -> str:
        """Id within its zone (what Google calls ``id`` is a number)."""
        return self.name.rpartition("/")[2]


class MultiNodeParams(_Answer):
    node_count: int = 0
    node_id_prefix: str = ""


class NodeSpec(_Answer):
    parent: str = ""
    node_id: str = ""
    multi_node_params: MultiNodeParams | None = None
    node: Node = Node()

    def node_ids(self, request: str) -> tuple[str, ...]:
        """Ids of the nodes that the queued resource with the id ``request`` has by this spec."""
        several = self.multi_node_params
        if several is None:
            return (self.node_id or request,)
        return naming.node_ids(several.node_id_prefix or request, several.node_count)


class Tpu(_Answer):
    node_spec: tuple[NodeSpec, ...] = ()


class RunDuration(_Answer):
    max_run_duration: str = ""
    termination_time: str = ""


class Interval(_Answer):
    end_time: str = ""


class QueueingPolicy(_Answer):
    valid_until_duration: str = ""
    valid_until_time: str = ""
    valid_interval: Interval | None = None


class FailedData(_Answer):
    error: Status = Status()


class QueuedResourceState(_Answer):
    state: str = "STATE_UNSPECIFIED"
    state_initiator: str = ""
    failed_data: FailedData | None = None


class QueuedResource(_Answer):
    """A request for slices, from the queue to its end."""

    name: str = ""
    create_time: str = ""
    provisioning_model: str = ""
    spot: dict[str, JsonValue] | None = None
    run_duration: RunDuration = RunDuration()
    queueing_policy: QueueingPolicy = QueueingPolicy()
    tpu: Tpu = Tpu()
    state: QueuedResourceState = QueuedResourceState()

    @property
    def spec(self) -> NodeSpec:
        """The first node spec (the only one in what this version creates)."""
        return self.tpu.node_spec[0] if self.tpu.node_spec else NodeSpec()

    def node_ids(self, request: str) -> tuple[str, ...]:
        """Ids of all nodes that it has, or will have; ``request`` is its own id."""
        specs = self.tpu.node_spec or (NodeSpec(),)
        return tuple(id_ for spec in specs for id_ in spec.node_ids(request))

    def cut_short(self, now: float) -> bool:
        """Whether its node was deleted before its run was over.

        Google says SUSPENDED for both. It is certain only while not even a run that began when
        it was asked for could be over.

        Args:
            now: seconds since the epoch.
        """
        return self.state.state_initiator == "USER" and self.too_early(now)

    def too_early(self, now: float) -> bool:
        """Whether it is certain that no run of it is over: not even one that began when it was
        asked for.

        Args:
            now: seconds since the epoch.
        """
        length = google_seconds(self.run_duration.max_run_duration)
        if length is None:
            return False
        try:
            asked = datetime.fromisoformat(self.create_time)
        except ValueError:
            return False
        return asked.tzinfo is not None and now < asked.timestamp() + length


class QueuedResourceList(_Answer):
    queued_resources: tuple[QueuedResource, ...] = ()
    next_page_token: str = ""
    unreachable: tuple[str, ...] = ()


class NodeList(_Answer):
    nodes: tuple[Node, ...] = ()
    next_page_token: str = ""
    unreachable: tuple[str, ...] = ()


class GuestAttribute(_Answer):
    namespace: str = ""
    key: str = ""
    value: str = ""


class QueryValue(_Answer):
    items: tuple[GuestAttribute, ...] = ()


class HostAttributes(_Answer):
    query_value: QueryValue = QueryValue()


class GuestAttributesAnswer(_Answer):
    guest_attributes: tuple[HostAttributes, ...] = ()
