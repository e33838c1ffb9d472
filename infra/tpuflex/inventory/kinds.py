"""The kinds of cloud resources that tpuflex makes, one row each. Pure.

Inventory, sweep, recover and teardown all read this table: a new kind is a new row, and nothing
else. The rows are in the order of deletion: what costs most first, and what is in use after what
uses it.

The program gives nearly every name, so a resource can be found again by its name alone; what
Google names, by the display name that the program gives it and by its marker. Ids as
``pulumi import`` takes them: "Import" in the documentation of pulumi-gcp 10.2.0. Paths: the
discovery documents of the APIs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from tpuflex.naming import (
    DNS_ZONE_ROLES,
    EGRESS_RULE_ROLES,
    QUEUED_RESOURCE,
    SECRET_ROLES,
    Names,
    account_email,
    generation_of,
)

if TYPE_CHECKING:
    from tpuflex.google.apis import Apis
    from tpuflex.google.transport import Api

Inputs = Mapping[str, Any]
Service = Literal[
    "tpu", "storage", "secretmanager", "compute", "iam", "resourcemanager", "dns", "monitoring"
]
#: `tpuflex:model.weights.bucket_suffix`.
_SUFFIX = re.compile(r"[0-9a-f]{6,16}")
_NUMBERED = re.compile(r"(.+)-(?:0|[1-9]\d*)", re.ASCII)


#: What tpuflex grants the hosts' account on the whole project; all else is granted on one bucket or
#: secret.
PROJECT_ROLES = {"logs": "roles/logging.logWriter"}
#: Granted only if the hosts write to Cloud Monitoring.
METRICS_ROLE = {"metrics": "roles/monitoring.metricWriter"}
#: Granted only if the project's own registry has the image. It is granted on the project, because
#: an inventory finds it there; the repository is not ours.
IMAGES_ROLE = {"images": "roles/artifactregistry.reader"}


def _no_names(_names: Names, _project: str, _region: str) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of resource.

    Attributes:
        name: what people call it.
        id: the id that an import takes: a format string over the resource's inputs.
        type: Pulumi's type token; empty for what no program declares, because Google makes it.
        found_by: how it is found: with its ``api`` (listed, and read by its path), in the
            project's IAM ``policy``, or only by its ``plugin``. The last have names that belong
            to something else of ours (a role on our bucket, a NAT of our router): they go with
            that, and whose they are need not be asked.
        service: the API that has it.
        root: path of that API; the id comes after it.
        items: field of the list's answer that holds the resources.
        location: what it is listed by.
        aggregated: whether the list of all regions at once is asked, too, for those that nothing
            names any more.
        query: name of the list's query parameter that takes the project.
        last: the last part of the id (``{name}`` in it), over the resource's inputs.
        marker: where its owner marker is: in its labels, in those of the ``node`` that is asked
            for, or in its description.
        labels: field of the answer, and input, that holds its labels.
        document: input that holds the resource as JSON; empty if its fields are inputs.
        named_by_google: whether Google chooses its id. It is then known by its display name, which
            others may have, too.
        names: the names that the components give it in one region.
        by_generation: whether its name is that of a generation of the slice.
        numbered: whether a number may follow that name, as with several nodes of one request.
        shared_names: whether all projects share one space of names, so that the name alone does
            not say in which project it is; a stack file may then end it with a suffix.
        deletion: query of the deletion.
        conditions: queries of the deletion that hold it back if the resource is not any more what
            was read, each with the field of that answer.
        unique_id: field of the answer with an id that a new resource of the same name would not
            have, and by which the API deletes, too; empty if it has none.
        holds_objects: whether objects have to be deleted before it is.
        holds_record_sets: whether record sets have to be deleted before it is.
        optional_api: whether there are endpoints that were made without its API: in a project where
            that is not enabled there is none of it.
        made: whether tpuflex makes it; what it does not make it never deletes.
    """

    name: str
    id: str
    type: str = ""
    found_by: Literal["api", "policy", "plugin"] = "api"
    service: Service = "compute"
    root: str = ""
    items: str = "items"
    location: Literal["project", "region", "zone"] = "project"
    aggregated: bool = False
    query: str = ""
    last: str = "{name}"
    marker: Literal["labels", "node labels", "description"] = "labels"
    labels: str = "labels"
    document: str = ""
    named_by_google: bool = False
    names: Callable[[Names, str, str], tuple[str, ...]] = _no_names
    by_generation: bool = False
    numbered: bool = False
    shared_names: bool = False
    deletion: Mapping[str, str] = field(default_factory=dict)
    conditions: Mapping[str, str] = field(default_factory=dict)
    unique_id: str = ""
    holds_objects: bool = False
    holds_record_sets: bool = False
    optional_api: bool = False
    made: bool = True

    def client(self, apis: Apis) -> Api:
        """The client of the API that has resources of this kind."""
        api: Api = getattr(apis, self.service)
        return api

    @property
    def plural(self) -> str:
        """What people call several of it."""
        if self.name.endswith("cy"):
            return f"{self.name[:-1]}ies"
        return f"{self.name}{'es' if self.name.endswith('s') else 's'}"

    @property
    def path(self) -> str:
        """Format string of its path in its API."""
        return self.root + self.id

    @property
    def collection(self) -> str:
        """Format string of the path of its list."""
        return self.path.rpartition("/")[0]

    @property
    def plural_key(self) -> str:
        """Its name in paths, and in lists of all places."""
        return self.collection.rpartition("/")[2]

    @property
    def everywhere(self) -> str:
        """Format string of the path of the list of all regions."""
        return f"{self.root}projects/{{project}}/aggregated/{self.plural_key}"

    def named(self, name: str, names: Names, project: str, regions: tuple[str, ...]) -> bool:
        """Whether ``name`` is one that the endpoint of ``names`` gives to this kind."""
        if self.named_by_google:
            return name.partition("/")[0] == names.shown()
        if self.by_generation:
            numbered = _NUMBERED.fullmatch(name) if self.numbered else None
            ids = (name, numbered[1]) if numbered else (name,)
            return any(generation_of(names.prefix, id_) is not None for id_ in ids)
        spelled = [names]
        if self.shared_names and (ending := _SUFFIX.fullmatch(name.rpartition("-")[2])):
            spelled.append(replace(names, bucket_suffix=ending[0]))
        return any(
            name in self.names(each, project, region)
            for each in spelled
            for region in regions or ("",)
        )


def _tpu(name: str, collection: str, **more: Any) -> Kind:
    return Kind(
        name,
        f"projects/{{project}}/locations/{{zone}}/{collection}/{{name}}",
        service="tpu",
        root="/v2alpha1/",
        items=collection,
        location="zone",
        by_generation=True,
        **more,
    )


def _compute(
    name: str,
    type_: str,
    path: str,
    *roles: str,
    made: bool = True,
    aggregated: bool = False,
) -> Kind:
    return Kind(
        name,
        f"projects/{{project}}/{path}/{{name}}",
        type_,
        root="/compute/v1/",
        location="region" if "{region}" in path else "project",
        aggregated=aggregated,
        marker="description",
        names=lambda names, _project, _region: tuple(names.compute(role) for role in roles),
        made=made,
    )


SLICE = _tpu(
    "queued resource",
    "queuedResources",
    type=QUEUED_RESOURCE,
    last="{queuedResourceId}",
    marker="node labels",
    deletion={"force": "true"},
)
NODE = _tpu("node", "nodes", numbered=True)
ACCOUNT = Kind(
    "service account",
    "projects/{project}/serviceAccounts/{name}",
    "gcp:serviceaccount/account:Account",
    service="iam",
    root="/v1/",
    items="accounts",
    last=account_email("{accountId}", "{project}"),
    marker="description",
    names=lambda names, project, _: (account_email(names.service_account_id(), project),),
    unique_id="uniqueId",
)
BUCKET = Kind(
    "bucket",
    "{name}",
    "gcp:storage/bucket:Bucket",
    service="storage",
    root="/storage/v1/b/",
    query="project",
    names=lambda names, project, region: (names.bucket(project, region),),
    shared_names=True,
    conditions={"ifMetagenerationMatch": "metageneration"},
    holds_objects=True,
)
SECRET = Kind(
    "secret",
    "projects/{project}/secrets/{name}",
    "gcp:secretmanager/secret:Secret",
    service="secretmanager",
    root="/v1/",
    items="secrets",
    last="{secretId}",
    names=lambda names, _project, _region: tuple(map(names.secret, SECRET_ROLES)),
    conditions={"etag": "etag"},
)


def _monitoring(name: str, collection: str, version: str, **more: Any) -> Kind:
    return Kind(
        name,
        f"projects/{{project}}/{collection}/{{name}}",
        service="monitoring",
        root=f"/{version}/",
        items=collection,
        named_by_google=True,
        optional_api=True,
        **more,
    )


ALERT_POLICY = _monitoring(
    "alert policy",
    "alertPolicies",
    "v3",
    type="gcp:monitoring/alertPolicy:AlertPolicy",
    labels="userLabels",
)
SUBNETWORK = _compute(
    "subnetwork",
    "gcp:compute/subnetwork:Subnetwork",
    "regions/{region}/subnetworks",
    "subnet",
    aggregated=True,
)
NETWORK = _compute("network", "gcp:compute/network:Network", "global/networks", "net")

KINDS: tuple[Kind, ...] = (
    SLICE,
    NODE,
    ALERT_POLICY,
    _monitoring(
        "dashboard",
        "dashboards",
        "v1",
        type="gcp:monitoring/dashboard:Dashboard",
        document="dashboardJson",
    ),
    Kind(
        "project role",
        "{project} {role} {member}",
        "gcp:projects/iAMMember:IAMMember",
        found_by="policy",
        service="resourcemanager",
        root="/v1/",
        names=lambda _names, _project, _region: (
            *PROJECT_ROLES.values(),
            *METRICS_ROLE.values(),
            *IMAGES_ROLE.values(),
        ),
    ),
    _compute(
        "firewall rule",
        "gcp:compute/firewall:Firewall",
        "global/firewalls",
        *("ssh", "serving", "brought-ssh", "brought-serving", *EGRESS_RULE_ROLES),
    ),
    Kind(
        "DNS record set",
        "projects/{project}/managedZones/{managedZone}/rrsets/{name}/{type}",
        "gcp:dns/recordSet:RecordSet",
        found_by="plugin",
    ),
    Kind(
        "DNS zone",
        "projects/{project}/managedZones/{name}",
        "gcp:dns/managedZone:ManagedZone",
        service="dns",
        root="/dns/v1/",
        items="managedZones",
        names=lambda names, _project, _region: tuple(map(names.compute, DNS_ZONE_ROLES)),
        unique_id="id",
        holds_record_sets=True,
        optional_api=True,
    ),
    Kind(
        "NAT",
        "projects/{project}/regions/{region}/routers/{router}/{name}",
        "gcp:compute/routerNat:RouterNat",
        found_by="plugin",
    ),
    _compute(
        "router",
        "gcp:compute/router:Router",
        "regions/{region}/routers",
        *("router", "brought-router"),
    ),
    # One that was made for the endpoint is billed until it is deleted.
    _compute("address", "", "regions/{region}/addresses", made=False),
    SUBNETWORK,
    NETWORK,
    ACCOUNT,
    Kind(
        "role on a bucket",
        "b/{bucket} {role} {member}",
        "gcp:storage/bucketIAMMember:BucketIAMMember",
        found_by="plugin",
    ),
    BUCKET,
    Kind(
        "role on a secret",
        "projects/{project}/secrets/{secretId} {role} {member}",
        "gcp:secretmanager/secretIamMember:SecretIamMember",
        found_by="plugin",
    ),
    SECRET,
    Kind(
        "API",
        "{project}/{service}",
        "gcp:projects/service:Service",
        found_by="plugin",
    ),
)


def of_type(type_: str) -> Kind | None:
    """The kind with Pulumi's type token ``type_``; None if the table has none."""
    return next((kind for kind in KINDS if type_ and kind.type == type_), None)


def deletion_rank(kind: Kind) -> int:
    """Where ``kind`` comes in the order of deletion."""
    return KINDS.index(kind)
