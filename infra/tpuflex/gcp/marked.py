"""Everything in a cloud project that carries an owner marker of ours, whoever's stack it is.

Labels where the API has them (``tpuflex-owner``, ``-project``, ``-stack``), the description
elsewhere. What carries neither is none of our business and is not listed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

from tpuflex.errors import AccessError, ApiError, NotFoundError
from tpuflex.gcp.inventory import Apis
from tpuflex.gcp.listing import ANY_ZONE, entries, objects, pages, zone_of
from tpuflex.gcp.transport import Api, JsonObject
from tpuflex.naming import LABEL_OWNER, LABEL_PROJECT, LABEL_STACK

#: Listings under way at once.
_AT_ONCE = 8
_DESCRIPTION = re.compile(r"Managed by tpuflex; owner ([0-9a-f]+)")

Service = Literal["tpu", "storage", "secretmanager", "compute", "iam", "resourcemanager"]


@dataclass(frozen=True, slots=True)
class Marked:
    """One thing that carries our marker.

    Attributes:
        kind: what it is, such as ``queued resource``.
        name: its short name or email; of a project role, the role.
        location: zone, region or ``global``.
        id: its id as a state spells it.
        service: the API that it belongs to.
        path: its path in that API.
        owner: owner marker.
        project: Pulumi project by its label; empty where it has no labels.
        stack: stack by its label; empty where it has no labels.
        state: its state, if it has one.
        holder: of a node, the queued resource that made it.
    """

    kind: str
    name: str
    location: str
    id: str
    service: Service
    path: str
    owner: str
    project: str = ""
    stack: str = ""
    state: str = ""
    holder: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """What was found, and the places that did not answer, each with the reason."""

    found: tuple[Marked, ...]
    unseen: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of resource and how it is listed.

    Attributes:
        name: for people.
        service: its API.
        collection: path of the list, over ``{project}`` and ``{place}``.
        field: of the answer, what holds the list.
        id: id as a state spells it, over those and ``{name}``.
        query: query of the list.
    """

    name: str
    service: Service
    collection: str
    field: str
    id: str
    path: str
    query: str = ""


_ZONES = "projects/{project}/locations/{place}"
_GLOBAL = "projects/{project}/global"
_REGION = "projects/{project}/regions/{place}"


def _tpu(name: str, collection: str) -> Kind:
    id_ = f"{_ZONES}/{collection}/{{name}}"
    path = f"/v2alpha1/{_ZONES}/{collection}"
    return Kind(name, "tpu", path, collection, id_, f"/v2alpha1/{id_}")


def _compute(name: str, collection: str) -> Kind:
    id_ = f"{collection}/{{name}}"
    path = f"/compute/v1/{collection}"
    return Kind(name, "compute", path, "items", id_, f"/compute/v1/{id_}")


QUEUED_RESOURCE = _tpu("queued resource", "queuedResources")
NODE = _tpu("node", "nodes")
_BUCKET = Kind(
    "bucket", "storage", "/storage/v1/b", "items", "{name}", "/storage/v1/b/{name}", "project"
)
_SECRET = Kind(
    "secret",
    "secretmanager",
    "/v1/projects/{project}/secrets",
    "secrets",
    "projects/{project}/secrets/{name}",
    "/v1/projects/{project}/secrets/{name}",
)
_ACCOUNT = Kind(
    "service account",
    "iam",
    "/v1/projects/{project}/serviceAccounts",
    "accounts",
    "projects/{project}/serviceAccounts/{name}",
    "/v1/projects/{project}/serviceAccounts/{name}",
)
_EVERYWHERE = (
    _BUCKET,
    _SECRET,
    _ACCOUNT,
    _compute("firewall rule", f"{_GLOBAL}/firewalls"),
    _compute("network", f"{_GLOBAL}/networks"),
)
_BY_REGION = (
    _compute("router", f"{_REGION}/routers"),
    _compute("subnetwork", f"{_REGION}/subnetworks"),
)


def list_marked(
    apis: Apis, project: str, zones: tuple[str, ...], accounts: Mapping[str, str]
) -> Listing:
    """Ask every service in every zone for what carries our marker.

    Args:
        apis: clients.
        project: Google Cloud project id.
        zones: where queued resources and nodes must be looked for (elsewhere as in
            :func:`list_tpu`); networks in their regions.
        accounts: owner marker by service account email, for the roles in the project's policy:
            a binding carries no marker but the account's name.

    Refusals of a service do not end the listing: they are in ``unseen``.
    """
    regions = tuple(dict.fromkeys(zone.rpartition("-")[0] for zone in zones))
    looks = [
        *_tpu_looks(zones),
        *((kind, "global") for kind in _EVERYWHERE),
        *((kind, region) for region in regions for kind in _BY_REGION),
    ]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = [pool.submit(_listed, apis, kind, project, place) for kind, place in looks]
        answers.append(pool.submit(_elsewhere, apis, project, zones))
        answers.append(pool.submit(_bindings, apis, project, accounts))
        listings = [answer.result() for answer in answers]
    return _joined(listings)


def list_tpu(apis: Apis, project: str, zones: tuple[str, ...]) -> Listing:
    """The queued resources, then the nodes, that carry our marker, in whatever zone.

    Args:
        apis: clients.
        project: Google Cloud project id.
        zones: those that must be looked into: what cannot be listed in one of them is in
            ``unseen``. Elsewhere it is as for :data:`tpuflex.gcp.listing.ANY_ZONE`.
    """
    listed = (_listed(apis, kind, project, zone) for kind, zone in _tpu_looks(zones))
    return _joined((*listed, _elsewhere(apis, project, zones)))


def _elsewhere(apis: Apis, project: str, zones: tuple[str, ...]) -> Listing:
    listed = _joined(_listed(apis, kind, project, zone) for kind, zone in _tpu_looks((ANY_ZONE,)))
    return Listing(tuple(item for item in listed.found if item.location not in zones), ())


def _tpu_looks(zones: tuple[str, ...]) -> list[tuple[Kind, str]]:
    return [(kind, zone) for kind in (QUEUED_RESOURCE, NODE) for zone in zones]


def _joined(listings: Iterable[Listing]) -> Listing:
    every = list(listings)
    return Listing(
        tuple(item for listing in every for item in listing.found),
        tuple(place for listing in every for place in listing.unseen),
    )


def reread(api: Api, item: Marked) -> str | None:
    """The owner marker that ``item`` carries now; None if it is gone.

    Raises:
        AccessError, ApiError: it cannot be read.
    """
    try:
        return marker(api.call("GET", item.path))[0]
    except NotFoundError:
        return None


def marker(entry: JsonObject) -> tuple[str, str, str]:
    """Owner marker, Pulumi project and stack that ``entry`` carries; empty where it does not."""
    labels = _labels(entry)
    if LABEL_OWNER in labels:
        return (
            str(labels[LABEL_OWNER]),
            str(labels.get(LABEL_PROJECT, "")),
            str(labels.get(LABEL_STACK, "")),
        )
    described = _DESCRIPTION.search(str(entry.get("description") or ""))
    return (described[1] if described else "", "", "")


def _listed(apis: Apis, kind: Kind, project: str, place: str) -> Listing:
    def look(unseen: list[str]) -> Iterator[Marked]:
        path = kind.collection.format(project=project, place=place)
        query = {kind.query: project} if kind.query else None
        for page in pages(getattr(apis, kind.service), path, query):
            for lost in entries(page, "unreachable"):
                unseen.append(f"{kind.name}s: {lost} is unreachable")
            for entry in objects(page, kind.field):
                owner, its_project, stack = marker(entry)
                if owner:
                    yield _marked(kind, entry, project, place, owner, its_project, stack)

    return _guarded(f"{kind.name}s in {place}", look)


def _marked(
    kind: Kind,
    entry: JsonObject,
    project: str,
    place: str,
    owner: str,
    its_project: str,
    stack: str,
) -> Marked:
    name = str(entry.get("email") or str(entry.get("name", "")).rpartition("/")[2])
    place = zone_of(entry) if place == ANY_ZONE else place
    where = {"project": project, "place": place, "name": name}
    location = str(entry.get("location") or place).lower()
    state = entry.get("state", "")
    return Marked(
        kind=kind.name,
        name=name,
        location=location,
        id=kind.id.format_map(where),
        service=kind.service,
        path=kind.path.format_map(where),
        owner=owner,
        project=its_project,
        stack=stack,
        state=str(state.get("state", "") if isinstance(state, dict) else state),
        holder=str(entry.get("queuedResource") or ""),
    )


def _bindings(apis: Apis, project: str, accounts: Mapping[str, str]) -> Listing:
    path = f"/v1/projects/{project}:getIamPolicy"

    def look(_unseen: list[str]) -> Iterator[Marked]:
        policy = apis.resourcemanager.call("POST", path, body={})
        for binding in objects(policy, "bindings"):
            role = str(binding.get("role"))
            for member in map(str, entries(binding, "members")):
                # A deleted account's roles stay, as deleted:serviceAccount:EMAIL?uid=…
                email = member.partition("serviceAccount:")[2].partition("?")[0]
                if email in accounts:
                    id_ = f"{project}/{role}/{member}"
                    yield Marked(
                        "project role",
                        role,
                        "global",
                        id_,
                        "resourcemanager",
                        f"/v1/projects/{project}",
                        accounts[email],
                        state="of a deleted account" if member.startswith("deleted:") else "",
                        holder=member,
                    )

    return _guarded("project policy", look)


def _guarded(place: str, look: Callable[[list[str]], Iterator[Marked]]) -> Listing:
    unseen: list[str] = []
    found: list[Marked] = []
    try:
        found.extend(look(unseen))
    except NotFoundError:
        pass
    except (AccessError, ApiError) as error:
        unseen.append(f"{place}: {error.message}")
    return Listing(tuple(found), tuple(unseen))


def _labels(entry: JsonObject) -> Mapping[str, object]:
    """A queued resource has no labels of its own: those of its node spec count."""
    labels = entry.get("labels")
    tpu = entry.get("tpu")
    if isinstance(tpu, dict):
        specs = entries(tpu, "nodeSpec")
        node = specs[0].get("node") if specs and isinstance(specs[0], dict) else None
        labels = node.get("labels") if isinstance(node, dict) else None
    return labels if isinstance(labels, dict) else {}
