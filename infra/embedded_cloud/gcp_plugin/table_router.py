"""Cloud Router and Cloud NAT. Properties as in pulumi-gcp 10.2.0, places as in compute v1.

Replacements and defaults: terraform-provider-google,
google/services/compute/resource_compute_{router,router_nat}.go.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from embedded_cloud.core.json_types import JsonObject, JsonValue, children, text
from embedded_cloud.gcp_plugin.call import CloudCall, compute_operation, failing_with, unless_gone
from embedded_cloud.gcp_plugin.collection import Collection
from embedded_cloud.gcp_plugin.fields import (
    CREATION_TIMESTAMP,
    DELETION_POLICY,
    NAME,
    NETWORK_LINK,
    PROJECT,
    REGION,
    SELF_LINK,
    SUBNETWORK_LINK,
    Group,
    Groups,
    Property,
    Use,
    chosen,
    write,
)
from embedded_cloud.gcp_plugin.resource_type import (
    Identity,
    Made,
    ResourceType,
    creation_of,
    require_created,
    scope_of,
)
from embedded_cloud.gcp_plugin.states import (
    NO_DEFAULTS,
    identified,
    known_after,
    located,
    sent_changes,
    state_of,
)
from embedded_cloud.gcp_plugin.types import Flag, Number, Segment, Texts
from pulumi_plugin.values import Properties
from tpuflex.errors import AlreadyExistsError, ApiError

#: The API has no lock on routers (no fingerprint to send): writers in this process take turns.
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True, slots=True)
class RouterNats:
    """The NATs of routers."""

    def create(self, row: ResourceType, inputs: Properties, call: CloudCall) -> Made:
        """Add the NAT to its router."""
        values = located(row, inputs, call.settings)
        values = values | {"router": text(values, "router").rsplit("/", 1)[-1]}
        made = identified(row, values, call.settings)
        nat = write(row.properties, values, scope_of(values))

        def add(nats: list[JsonObject]) -> list[JsonObject]:
            if any(one.get("name") == nat["name"] for one in nats):
                raise AlreadyExistsError(f"Error creating {row.title}: {made.id} already exists")
            return [*nats, nat]

        self._patch(row, made, add, call, f"Creating {row.title}", creation_of(made))
        return require_created(row.title, made, self.read(row, made, call))

    def read(self, row: ResourceType, made: Made, call: CloudCall) -> Made | None:
        """The present state, or ``None`` when the router or the NAT is gone."""
        parts = row.identity.parse(made.id, NO_DEFAULTS)
        router = unless_gone(
            f"Error when reading or editing {row.title} {made.id!r}",
            lambda: call.request("GET", _router_path(parts)),
        )
        nat = next(
            (n for n in children(router or {}, "nats") if n.get("name") == parts["name"]), None
        )
        return None if nat is None else Made(made.id, state_of(row, made.id, made.state, nat))

    def update(
        self, row: ResourceType, made: Made, inputs: Properties, call: CloudCall
    ) -> Properties:
        """Change the NAT within its router."""
        name = row.identity.parse(made.id, NO_DEFAULTS)["name"]
        changes = sent_changes(row, made.state, inputs, (), ())
        carried = [item for item in row.properties if item.name in changes]
        sent = write(carried, changes, scope_of(made.state))

        def edit(nats: list[JsonObject]) -> list[JsonObject]:
            if not any(nat.get("name") == name for nat in nats):
                raise ApiError(f"{row.title} {made.id!r} does not exist", status=404)
            return [nat | sent if nat.get("name") == name else nat for nat in nats]

        if sent:
            self._patch(row, made, edit, call, f"Updating {row.title}")
        known = known_after(row, made.state, inputs, call.settings)
        present = self.read(row, Made(made.id, known), call)
        if present is None:
            raise ApiError(f"{row.title} {made.id!r} does not exist", status=404)
        return present.state

    def delete(self, row: ResourceType, made: Made, call: CloudCall) -> None:
        """Remove the NAT from its router, unless either is gone already."""
        name = row.identity.parse(made.id, NO_DEFAULTS)["name"]
        if self.read(row, made, call) is None:
            return
        self._patch(
            row,
            made,
            lambda nats: [nat for nat in nats if nat.get("name") != name],
            call,
            f"Deleting {row.title}",
        )

    def _patch(
        self,
        row: ResourceType,
        made: Made,
        edit: Callable[[list[JsonObject]], list[JsonObject]],
        call: CloudCall,
        doing: str,
        waiting: AbstractContextManager[None] | None = None,
    ) -> None:
        path = _router_path(row.identity.parse(made.id, NO_DEFAULTS))
        with _ONE_AT_A_TIME:
            with failing_with(f"Error {doing}"):
                router = call.request("GET", path)
                nats: list[JsonValue] = [*edit(children(router, "nats"))]
                answer = call.request("PATCH", path, body={"nats": nats})
            with waiting or nullcontext():
                compute_operation(call, answer, doing)


def _router_path(parts: dict[str, str]) -> str:
    return "/compute/v1/projects/{project}/regions/{region}/routers/{router}".format_map(parts)


ROUTER = ResourceType(
    token="gcp:compute/router:Router",  # noqa: S106
    title="Router",
    properties=(
        NAME,
        PROJECT,
        REGION,
        DELETION_POLICY,
        Property("network", NETWORK_LINK, immutable=True),
        Property("description"),
        Property("encryptedInterconnectRouter", Flag(), immutable=True),
        Property(
            "bgp",
            Group(
                (
                    Property("asn", Number(), Use.REQUIRED),
                    Property("advertiseMode", default="DEFAULT"),
                    Property("advertisedGroups", Texts()),
                    Property(
                        "advertisedIpRanges",
                        Groups((Property("range", use=Use.REQUIRED), Property("description"))),
                    ),
                    Property("identifierRange", use=Use.CHOSEN),
                    Property("keepaliveInterval", Number(), default=20),
                )
            ),
        ),
        CREATION_TIMESTAMP,
        SELF_LINK,
    ),
    identity=Identity(
        "projects/{project}/regions/{region}/routers/{name}",
        ("{project}/{region}/{name}", "{region}/{name}", "{name}"),
    ),
    behaviour=Collection(
        path="/compute/v1/projects/{project}/regions/{region}/routers",
        item="/compute/v1/projects/{project}/regions/{region}/routers/{name}",
        wait=compute_operation,
    ),
    autonamed="name",
    unserved=("md5AuthenticationKeys", "nccGateway", "params"),
)

ROUTER_NAT = ResourceType(
    token="gcp:compute/routerNat:RouterNat",  # noqa: S106
    title="RouterNat",
    properties=(
        NAME,
        PROJECT,
        REGION,
        DELETION_POLICY,
        Property("router", Segment(), Use.REQUIRED, immutable=True, wire=""),
        Property("sourceSubnetworkIpRangesToNat", use=Use.REQUIRED),
        chosen("autoNetworkTier"),
        Property("drainNatIps", Texts()),
        chosen("enableDynamicPortAllocation", Flag()),
        chosen("enableEndpointIndependentMapping", Flag()),
        Property("endpointTypes", Texts(ordered=True), use=Use.CHOSEN, immutable=True),
        Property("icmpIdleTimeoutSec", Number(), default=30),
        Property(
            "logConfig",
            Group(
                (
                    Property("enable", Flag(), Use.REQUIRED),
                    Property("filter", use=Use.REQUIRED),
                )
            ),
        ),
        Property("maxPortsPerVm", Number()),
        chosen("minPortsPerVm", Number()),
        Property("natIpAllocateOption"),
        Property("natIps", Texts()),
        Property(
            "subnetworks",
            Groups(
                (
                    Property("name", SUBNETWORK_LINK, Use.REQUIRED),
                    Property(
                        "sourceIpRangesToNats",
                        Texts(),
                        Use.REQUIRED,
                        wire="sourceIpRangesToNat",
                    ),
                    Property("secondaryIpRangeNames", Texts()),
                )
            ),
        ),
        Property("tcpEstablishedIdleTimeoutSec", Number(), default=1200),
        Property("tcpTimeWaitTimeoutSec", Number(), default=120),
        Property("tcpTransitoryIdleTimeoutSec", Number(), default=30),
        Property("type", immutable=True, default="PUBLIC"),
        Property("udpIdleTimeoutSec", Number(), default=30),
    ),
    identity=Identity(
        # Not the form of other compute resources (resource_compute_router_nat.go, SetId); the
        # other one is accepted, and was the stand-in's id before.
        "{project}/{region}/{router}/{name}",
        (
            "projects/{project}/regions/{region}/routers/{router}/{name}",
            "{region}/{router}/{name}",
            "{router}/{name}",
        ),
    ),
    behaviour=RouterNats(),
    autonamed="name",
    unserved=("initialNatIps", "nat64Subnetworks", "rules", "sourceSubnetworkIpRangesToNat64"),
)

TYPES = (ROUTER, ROUTER_NAT)
