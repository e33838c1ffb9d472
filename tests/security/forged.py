"""Resources of every kind that tpuflex makes, with any of the four marks forged, on an embedded
cloud; made by its API, as somebody else would."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from embedded_cloud.core.projects import project_number
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import TOKEN, Api, flex_start
from tests.provider.fakes import FakeTime
from tpuflex.google.apis import Apis, apis
from tpuflex.google.endpoints import Endpoints
from tpuflex.google.session import authorized_session
from tpuflex.google.timing import Timing
from tpuflex.google.transport import Transport
from tpuflex.inventory.kinds import KINDS, PROJECT_ROLES, Kind
from tpuflex.inventory.listing import list_all
from tpuflex.inventory.ownership import Mark
from tpuflex.naming import (
    DNS_ZONE_ROLES,
    ENDPOINT_NAME,
    SECRET_ROLES,
    Names,
    account_email,
)
from tpuflex.operate.sweep import Disposition, Here, Leftover, leftovers
from tpuflex.operate.sweep_deletion import Deleted, delete

OURS = "our-project"
ELSEWHERE = "another-project"
REGION, ZONE, NODE_ZONE = "us-east5", "us-east5-a", "us-east5-b"
#: No request is ever granted, so that no node is made of it; a node that is made by itself runs.
CAPACITY: dict[str, Any] = {
    "never": True,
    "admission_s": 0.0,
    "deleting_s": 0.0,
    "zones": {NODE_ZONE: {"never": False, "provisioning_s": 0.0}},
}
NAMES = Names("shop", "dev", ENDPOINT_NAME)
STRANGER = Names("shop", "alice", ENDPOINT_NAME)
STATE, OTHER_STATE = "0123456789abcdef0123", "fedcba9876543210fedc"

Marks = frozenset[Mark]
ALL: Marks = frozenset(Mark)


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[EmbeddedCloud]:
    """An embedded cloud with nothing in it."""
    with EmbeddedCloud(tmp_path / "emulator", token=TOKEN, capacity={**CAPACITY}) as running:
        yield running


def proper_subsets() -> list[Marks]:
    """Every set of marks that lacks one, fewest first."""
    return [frozenset(some) for size in range(len(Mark)) for some in combinations(Mark, size)]


def client_of(url: str) -> Apis:
    """Our own clients of the cloud at ``url``."""
    endpoints = Endpoints(**{field.name: url for field in fields(Endpoints)})
    session = authorized_session(endpoints, {"GOOGLE_OAUTH_ACCESS_TOKEN": TOKEN})
    timing = Timing.real(threading.Event())
    return apis(endpoints, lambda base: Transport(session, base, timing))


@dataclass(frozen=True)
class Forgery:
    """What one maker of resources writes on them.

    Attributes:
        right: the marks that are ours; the others are somebody else's.
    """

    right: Marks

    @property
    def project(self) -> str:
        return OURS if Mark.PROJECT in self.right else ELSEWHERE

    @property
    def labels(self) -> dict[str, str]:
        owner = NAMES if Mark.OWNER in self.right else STRANGER
        return owner.labels(self._state)

    @property
    def description(self) -> str:
        owner = NAMES if Mark.OWNER in self.right else STRANGER
        return owner.description(self._state)

    @property
    def _state(self) -> str:
        return STATE if Mark.STATE in self.right else OTHER_STATE

    def name(self, name: str) -> str:
        return name if Mark.NAME in self.right else f"x-{name}"

    def make_all(self, url: str) -> None:
        """One resource of every kind, in a project that has a network of somebody's."""
        api = Api(url, project=self.project, zone=ZONE)
        network = {"name": "of-somebody", "autoCreateSubnetworks": False}
        networks = f"compute/v1/projects/{self.project}/global/networks"
        if api.call("GET", f"{networks}/of-somebody").status_code == 404:
            _posted(api, networks, network)
            _subnetwork("of-somebody", "10.1.0.0/24")(api, self)
        for make in MAKERS.values():
            make(api, self)


def _posted(api: Api, path: str, body: Mapping[str, Any], **query: str) -> None:
    answer = api.call("POST", path, body=dict(body), **query)
    assert answer.status_code < 300, answer.text


def _slice(api: Api, forged: Forgery) -> None:
    body = flex_start(labels=forged.labels)
    spec = body["tpu"]["nodeSpec"][0]
    id_ = forged.name(NAMES.queued_resource_id(1))
    spec |= {"parent": f"projects/{api.project}/locations/{ZONE}", "nodeId": id_}
    assert api.create(id_, body).status_code == 200


def _node(api: Api, forged: Forgery) -> None:
    body = {
        "acceleratorType": "v6e-4",
        "runtimeVersion": "v2-alpha-tpuv6e",
        "labels": forged.labels,
    }
    id_ = forged.name(NAMES.queued_resource_id(2))
    answer = replace(api, zone=NODE_ZONE).tpu("POST", "nodes", body=body, nodeId=id_)
    assert answer.status_code == 200, answer.text


def _compute(role: str, collection: str, **more: Any) -> Callable[[Api, Forgery], None]:
    def make(api: Api, forged: Forgery) -> None:
        body = {"name": forged.name(NAMES.compute(role)), "description": forged.description, **more}
        _posted(api, f"compute/v1/projects/{api.project}/{collection}", body)

    return make


def _subnetwork(name: str, cidr: str) -> Callable[[Api, Forgery], None]:
    def make(api: Api, _forged: Forgery) -> None:
        body = {"name": name, "ipCidrRange": cidr, **_IN_NETWORK}
        _posted(api, f"compute/v1/projects/{api.project}/regions/{REGION}/subnetworks", body)

    return make


def _account(api: Api, forged: Forgery) -> None:
    """The account, and its role in the project's policy."""
    id_ = forged.name(NAMES.service_account_id())
    body = {"accountId": id_, "serviceAccount": {"description": forged.description}}
    _posted(api, f"v1/projects/{api.project}/serviceAccounts", body)
    member = f"serviceAccount:{account_email(id_, api.project)}"
    policy = {"bindings": [{"role": PROJECT_ROLES["logs"], "members": [member]}]}
    _posted(api, f"v1/projects/{api.project}:setIamPolicy", {"policy": policy})


def _bucket(api: Api, forged: Forgery) -> None:
    name = forged.name(NAMES.bucket(OURS, REGION))
    body = {"name": name, "location": REGION.upper(), "labels": forged.labels}
    _posted(api, "storage/v1/b", body, project=api.project)
    _posted(api, f"upload/storage/v1/b/{name}/o", {}, uploadType="media", name="weights")


def _secret(api: Api, forged: Forgery) -> None:
    body = {"replication": {"automatic": {}}, "labels": forged.labels}
    id_ = forged.name(NAMES.secret(SECRET_ROLES[0]))
    _posted(api, f"v1/projects/{api.project}/secrets", body, secretId=id_)


def _zone(api: Api, forged: Forgery) -> None:
    network = f"projects/{api.project}/global/networks/of-somebody"
    url = f"https://www.googleapis.com/compute/v1/{network}"
    body = {
        "name": forged.name(NAMES.compute(DNS_ZONE_ROLES[0])),
        "dnsName": "googleapis.com.",
        "description": "a zone",
        "visibility": "private",
        "privateVisibilityConfig": {"networks": [{"networkUrl": url}]},
        "labels": forged.labels,
    }
    _posted(api, f"dns/v1/projects/{api.project}/managedZones", body)


def _alert_policy(api: Api, forged: Forgery) -> None:
    query = {"query": "up < 1", "duration": "60s", "evaluationInterval": "60s"}
    body = {
        "displayName": forged.name(NAMES.shown(_ALERT)),
        "combiner": "OR",
        "conditions": [{"displayName": _ALERT, "conditionPrometheusQueryLanguage": query}],
        "userLabels": forged.labels,
    }
    _posted(api, f"v3/projects/{api.project}/alertPolicies", body)


def _dashboard(api: Api, forged: Forgery) -> None:
    body = {
        "displayName": forged.name(NAMES.shown()),
        "gridLayout": {"widgets": []},
        "labels": forged.labels,
    }
    _posted(api, f"v1/projects/{api.project}/dashboards", body)


_ALERT = "TargetDown"
_IN_NETWORK = {"network": "global/networks/of-somebody"}
#: How to make one of each kind; the account comes with its role.
MAKERS: Mapping[str, Callable[[Api, Forgery], None]] = {
    "queued resource": _slice,
    "node": _node,
    "firewall rule": _compute(
        "ssh", "global/firewalls", allowed=[{"IPProtocol": "tcp"}], **_IN_NETWORK
    ),
    "router": _compute("router", f"regions/{REGION}/routers", **_IN_NETWORK),
    "subnetwork": _compute(
        "subnet", f"regions/{REGION}/subnetworks", ipCidrRange="10.0.0.0/24", **_IN_NETWORK
    ),
    "network": _compute("net", "global/networks", autoCreateSubnetworks=False),
    "service account": _account,
    "bucket": _bucket,
    "secret": _secret,
    "DNS zone": _zone,
    "alert policy": _alert_policy,
    "dashboard": _dashboard,
}


def asked(kind: Kind) -> Mapping[str, Any]:
    """The inputs with which our program would ask for the resource of ``kind`` that
    :data:`MAKERS` makes."""
    names = {
        "firewall rule": NAMES.compute("ssh"),
        "router": NAMES.compute("router"),
        "subnetwork": NAMES.compute("subnet"),
        "network": NAMES.compute("net"),
        "bucket": NAMES.bucket(OURS, REGION),
        "DNS zone": NAMES.compute(DNS_ZONE_ROLES[0]),
    }
    return {
        "project": OURS,
        "region": REGION,
        "zones": [ZONE],
        "labels": NAMES.labels(STATE),
        "userLabels": NAMES.labels(STATE),
        "displayName": NAMES.shown(_ALERT),
        "dashboardJson": json.dumps({"displayName": NAMES.shown(), "labels": NAMES.labels(STATE)}),
        "description": NAMES.description(STATE),
        "name": names.get(kind.name, ""),
        "accountId": NAMES.service_account_id(),
        "secretId": NAMES.secret(SECRET_ROLES[0]),
        "queuedResourceId": NAMES.queued_resource_id(1),
        "queuedResourceIdPrefix": NAMES.prefix,
    }


def adoptable() -> Iterator[Kind]:
    """The kinds that a recovery may import, and whose marks it can see."""
    return (kind for kind in KINDS if kind.type and kind.found_by == "api")


def left_behind(clients: Apis, *, states: frozenset[str] = frozenset({STATE})) -> list[Leftover]:
    """What `tpuflex sweep` lists in our project; every slice is named."""
    here = Here("shop", OURS, project_number(OURS), ("dev",), frozenset(), {"dev": states})
    listing = list_all(clients, OURS, (ZONE, NODE_ZONE), here.accounts)
    assert not listing.unlisted
    return [*leftovers(listing, here, frozenset(r.name for r in listing.resources))]


def sweep(clients: Apis, found: list[Leftover]) -> tuple[Deleted, ...]:
    """What `tpuflex sweep --yes` deletes of ``found``; nobody waits long for what stays."""
    time = FakeTime()
    timing = replace(time.timing(), pause=lambda seconds: time.pause(max(seconds, 100.0)))
    orphans = [each for each in found if each.disposition is Disposition.ORPHAN]
    return delete(orphans, clients, say=lambda _: None, timing=timing)
