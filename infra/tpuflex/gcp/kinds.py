"""What each type of resource is called in the cloud, computed from what the program said of it.

Every name is given by the program, so whatever was begun can be found again by name. Ids as
``pulumi import`` takes them: "Import" in the documentation of pulumi-gcp 10.2.0. Paths: the
discovery documents of the APIs. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tpuflex.naming import LABEL_OWNER, QUEUED_RESOURCE

Inputs = Mapping[str, Any]

#: What the engine writes for a value that is not known before something else is made.
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"

Api = Literal["tpu", "storage", "secretmanager", "compute", "iam"]


@dataclass(frozen=True, slots=True)
class Row:
    """One type. Texts are format strings over the resource's inputs.

    Attributes:
        id: the id that an import takes.
        api: the API that is asked whether it exists; None where only the plugin can tell, and
            where the name itself belongs to something of ours (a role of our account, a NAT of
            our router), so that whose it is need not be asked.
        path: where it is asked.
        marker: where it says whose it is: its ``description``, its ``labels``, or the labels
            of the ``node`` that was asked for.
        elsewhere: whether the name may be taken in a project that may not be looked into.
    """

    id: str
    api: Api | None = None
    path: str = ""
    marker: Literal["", "description", "labels", "node"] = ""
    elsewhere: bool = False


_GLOBAL = "projects/{project}/global"
_REGION = "projects/{project}/regions/{region}"


def _compute(id_: str) -> Row:
    return Row(id_, "compute", f"/compute/v1/{id_}", "description")


def _account(project: str) -> str:
    return f"projects/{project}/serviceAccounts/{{accountId}}@{project}.iam.gserviceaccount.com"


TYPES: dict[str, Row] = {
    "gcp:compute/network:Network": _compute(f"{_GLOBAL}/networks/{{name}}"),
    "gcp:compute/firewall:Firewall": _compute(f"{_GLOBAL}/firewalls/{{name}}"),
    "gcp:compute/subnetwork:Subnetwork": _compute(f"{_REGION}/subnetworks/{{name}}"),
    "gcp:compute/router:Router": _compute(f"{_REGION}/routers/{{name}}"),
    "gcp:compute/routerNat:RouterNat": Row(f"{_REGION}/routers/{{router}}/{{name}}"),
    "gcp:serviceaccount/account:Account": Row(
        _account("{project}"), "iam", f"/v1/{_account('{project}')}", "description"
    ),
    "gcp:storage/bucket:Bucket": Row(
        "{name}", "storage", "/storage/v1/b/{name}", "labels", elsewhere=True
    ),
    "gcp:storage/bucketIAMMember:BucketIAMMember": Row("b/{bucket} {role} {member}"),
    "gcp:secretmanager/secret:Secret": Row(
        "projects/{project}/secrets/{secretId}",
        "secretmanager",
        "/v1/projects/{project}/secrets/{secretId}",
        "labels",
    ),
    "gcp:secretmanager/secretIamMember:SecretIamMember": Row(
        "projects/{project}/secrets/{secretId} {role} {member}"
    ),
    "gcp:projects/iAMMember:IAMMember": Row("{project} {role} {member}"),
    "gcp:projects/service:Service": Row("{project}/{service}"),
    QUEUED_RESOURCE: Row(
        "projects/{project}/locations/{zone}/queuedResources/{queuedResourceId}",
        "tpu",
        "/v2alpha1/projects/{project}/locations/{zone}/queuedResources/{queuedResourceId}",
        "node",
    ),
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where one resource is, if it is anywhere.

    Attributes:
        id: its id.
        path: where its API is asked for it; empty where only the plugin can tell.
    """

    id: str
    path: str


def places(type_: str, inputs: Inputs) -> tuple[Place, ...]:
    """Where a resource of ``type_`` with ``inputs`` would be: one place, or one for each zone.

    Empty for a type that is not in the table, and while part of the name is not known.
    """
    row = TYPES.get(type_)
    if row is None:
        return ()
    zones = inputs.get("zones")
    spread = [{"zone": zone} for zone in zones] if isinstance(zones, list) else [{}]
    found = []
    for here in spread:
        values = {**inputs, **here}
        id_, path = _filled(row.id, values), _filled(row.path, values)
        if id_ is None or path is None:
            return ()
        found.append(Place(id_, path))
    return tuple(found)


def owner_asked(type_: str, inputs: Inputs) -> str:
    """The owner marker that the program put on the resource; empty if it put none."""
    row = TYPES[type_]
    if row.marker == "description":
        return str(inputs.get("description") or "")
    labels = inputs.get("labels")
    return str(labels.get(LABEL_OWNER) or "") if isinstance(labels, Mapping) else ""


def owner_found(type_: str, found: Mapping[str, Any]) -> str:
    """The owner marker of what the API answered with; empty if it carries none."""
    match TYPES[type_].marker:
        case "description":
            return str(found.get("description") or "")
        case "node":
            specs = (found.get("tpu") or {}).get("nodeSpec") or [{}]
            labels = (specs[0].get("node") or {}).get("labels")
        case _:
            labels = found.get("labels")
    return str(labels.get(LABEL_OWNER) or "") if isinstance(labels, Mapping) else ""


def unknown(value: object) -> bool:
    """Whether a value holds something that is not known yet, or was blanked as a secret."""
    if isinstance(value, str):
        return UNKNOWN in value or value == "[secret]"
    if isinstance(value, Mapping):
        return any(unknown(item) for item in value.values())
    return isinstance(value, list | tuple) and any(unknown(item) for item in value)


def _filled(form: str, values: Mapping[str, Any]) -> str | None:
    try:
        text = form.format_map(values)
    except KeyError:
        return None
    return None if unknown(text) else text
