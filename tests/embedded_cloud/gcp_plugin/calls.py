"""Call the gcp stand-in plugin the way the engine does, for tests of the plugin alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from embedded_cloud.gcp_plugin.provider import serve
from embedded_cloud.gcp_plugin.tables import TYPES
from embedded_cloud.server import EmbeddedCloud
from pulumi_plugin.serve import RunningPlugin
from pulumi_plugin.values import Properties, Value
from pulumi_plugin.wire import decode, encode, secret_keys
from tests.embedded_cloud.api import TOKEN

PROJECT = "plugin-project"
REGION = "us-east5"

#: Names of two classes that are called alike.
_ALIKE = {"gcp:serviceaccount/iAMMember:IAMMember": "AccountIAMMember"}
#: Type tokens by the name of the class.
TOKENS = {_ALIKE.get(token, token.rpartition(":")[2]): token for token in TYPES}


def urn(token: str, name: str = "it") -> str:
    """The URN of a resource of type ``token``."""
    return f"urn:pulumi:test::project::{token}::{name}"


def _type(token: str) -> dict[str, Any]:
    """The fields of a request that name the resource's type."""
    return {"urn": urn(token), "type": token}


@dataclass
class Held:
    """A resource that a test created, as the engine would have it in its state."""

    token: str
    id: str
    state: Properties
    inputs: Properties


@dataclass
class Calls:
    """One configured provider, called as by the engine.

    Attributes:
        stub: the connection.
        secrets: properties that the plugin marked secret in the last answer.
    """

    stub: provider_pb2_grpc.ResourceProviderStub
    secrets: frozenset[str] = field(default_factory=frozenset)

    def configure(self, **settings: str) -> None:
        """Check and configure the provider."""
        checked = self.stub.CheckConfig(
            provider_pb2.CheckRequest(news=encode({**settings}), urn=urn("pulumi:providers:gcp"))
        )
        assert not checked.failures, checked.failures
        self.stub.Configure(provider_pb2.ConfigureRequest(args=checked.inputs))

    def check(
        self, kind: str, news: Properties, olds: Properties | None = None
    ) -> tuple[Properties, dict[str, str]]:
        """Checked inputs, and the reasons of refusals by property."""
        token = TOKENS.get(kind, kind)
        answer = self.stub.Check(
            provider_pb2.CheckRequest(
                **_type(token),
                news=encode(news),
                olds=encode(olds or {}),
                randomSeed=hashlib.sha256(token.encode()).digest(),
            )
        )
        return decode(answer.inputs), {one.property: one.reason for one in answer.failures}

    def inputs(self, kind: str, news: Properties) -> Properties:
        """Checked inputs; nothing may be refused."""
        inputs, failures = self.check(kind, news)
        assert not failures, failures
        return inputs

    def create(self, kind: str, news: Properties, *, preview: bool = False) -> Held:
        """Check and create."""
        inputs = self.inputs(kind, news)
        answer = self.stub.Create(
            provider_pb2.CreateRequest(
                **_type(TOKENS[kind]), properties=encode(inputs), preview=preview
            )
        )
        self.secrets = secret_keys(answer.properties)
        return Held(TOKENS[kind], answer.id, decode(answer.properties), inputs)

    def read(self, held: Held) -> Held | None:
        """Refresh; ``None`` when the plugin says that the resource is gone."""
        answer = self.stub.Read(
            provider_pb2.ReadRequest(
                **_type(held.token),
                id=held.id,
                properties=encode(held.state),
                inputs=encode(held.inputs),
            )
        )
        if not answer.id:
            return None
        return Held(held.token, answer.id, decode(answer.properties), decode(answer.inputs))

    def import_(self, kind: str, identity: str) -> Held | None:
        """Import by id alone."""
        return self.read(Held(TOKENS[kind], identity, {}, {}))

    def diff(self, held: Held, news: Properties) -> provider_pb2.DiffResponse:
        """What ``news`` would change."""
        answer: provider_pb2.DiffResponse = self.stub.Diff(
            provider_pb2.DiffRequest(**self._change(held, news))
        )
        return answer

    def update(self, held: Held, news: Properties) -> Held:
        """Update in place; the diff must not ask for a replacement."""
        answer = self.diff(held, news)
        assert not answer.replaces, answer.replaces
        request = provider_pb2.UpdateRequest(**self._change(held, news))
        updated = self.stub.Update(request)
        return Held(held.token, held.id, decode(updated.properties), decode(request.news))

    def _change(self, held: Held, news: Properties) -> dict[str, Any]:
        return {
            **_type(held.token),
            "id": held.id,
            "olds": encode(held.state),
            "old_inputs": encode(held.inputs),
            "news": encode(self.inputs(held.token, news)),
        }

    def delete(self, held: Held) -> None:
        """Delete."""
        self.stub.Delete(
            provider_pb2.DeleteRequest(
                **_type(held.token),
                id=held.id,
                properties=encode(held.state),
                old_inputs=encode(held.inputs),
            )
        )

    def cancel(self) -> None:
        """Cancel, as the engine does on Ctrl-C."""
        self.stub.Cancel(empty_pb2.Empty())


@contextmanager
def connected(port: int, **settings: str) -> Iterator[Calls]:
    """A configured provider at ``port``; the connection is its own, as the engine's are."""
    # Channels of one process share a connection unless told otherwise.
    options = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        calls = Calls(provider_pb2_grpc.ResourceProviderStub(channel))
        calls.configure(**({"project": PROJECT, "region": REGION} | settings))
        yield calls


def refusal(error: grpc.RpcError) -> str:
    """The message that the engine would show."""
    assert isinstance(error, grpc.Call)
    return str(error.details())


@contextmanager
def embedded(state_dir: Path) -> Iterator[tuple[EmbeddedCloud, RunningPlugin]]:
    """An embedded cloud of its own, and the plugin in front of it."""
    with EmbeddedCloud(state_dir, token=TOKEN) as cloud:
        plugin = serve(cloud.url, token=cloud.token, environ={})
        try:
            yield cloud, plugin
        finally:
            plugin.stop()


NETWORK_ID = f"projects/{PROJECT}/global/networks/net"
SUBNETWORK_ID = f"projects/{PROJECT}/regions/{REGION}/subnetworks/sub"
EMAIL = f"hosts-sa@{PROJECT}.iam.gserviceaccount.com"
POOL_ID = f"projects/{PROJECT}/locations/global/workloadIdentityPools/deploys"
RING_ID = f"projects/{PROJECT}/locations/{REGION}/keyRings/states"


def dashboard(title: str) -> str:
    """A dashboard as JSON, with a chart of that title."""
    query = {"prometheusQuery": "workload_googleapis_com:vllm_up"}
    chart = {"xyChart": {"dataSets": [{"timeSeriesQuery": query}]}, "title": title}
    tile = {"width": 24, "height": 16, "widget": chart}
    layout = {"columns": 48, "tiles": [tile]}
    labels = {"env": "dev"}
    return json.dumps({"displayName": "Board", "labels": labels, "mosaicLayout": layout})


#: A plausible resource of every type.
SAMPLES: dict[str, Properties] = {
    "Network": {"name": "net", "autoCreateSubnetworks": False},
    "Subnetwork": {
        "name": "sub",
        "network": NETWORK_ID,
        "ipCidrRange": "10.0.0.0/24",
        "privateIpGoogleAccess": True,
        "logConfig": {"flowSampling": 0.25},
    },
    "Router": {"name": "router", "network": NETWORK_ID, "bgp": {"asn": 64514}},
    "RouterNat": {
        "name": "nat",
        "router": "router",
        "natIpAllocateOption": "AUTO_ONLY",
        "sourceSubnetworkIpRangesToNat": "LIST_OF_SUBNETWORKS",
        "subnetworks": [{"name": SUBNETWORK_ID, "sourceIpRangesToNats": ["ALL_IP_RANGES"]}],
        "logConfig": {"enable": True, "filter": "ERRORS_ONLY"},
    },
    "Firewall": {
        "name": "fw",
        "network": "net",
        "allows": [{"protocol": "tcp", "ports": ["8000", "22"]}, {"protocol": "icmp"}],
        "sourceRanges": ["10.0.0.0/8", "192.168.0.0/16"],
        "logConfig": {"metadata": "INCLUDE_ALL_METADATA"},
    },
    "ManagedZone": {
        "name": "zone",
        "dnsName": "example.com.",
        "visibility": "private",
        "labels": {"env": "dev"},
        "privateVisibilityConfig": {"networks": [{"networkUrl": NETWORK_ID}]},
    },
    "RecordSet": {
        "name": "*.example.com.",
        "managedZone": "zone",
        "type": "A",
        "ttl": 300,
        "rrdatas": ["10.0.0.1", "10.0.0.2"],
    },
    "Account": {"accountId": "hosts-sa", "displayName": "Hosts"},
    "Bucket": {
        "name": "plugin-bucket-1",
        "location": REGION,
        "labels": {"env": "dev"},
        "uniformBucketLevelAccess": True,
        "publicAccessPrevention": "enforced",
        "versioning": {"enabled": True},
        "softDeletePolicy": {"retentionDurationSeconds": 0},
        "lifecycleRules": [{"action": {"type": "Delete"}, "condition": {"numNewerVersions": 2}}],
    },
    "BucketIAMMember": {
        "bucket": "plugin-bucket-1",
        "role": "roles/storage.objectViewer",
        "member": f"serviceAccount:{EMAIL}",
    },
    "Secret": {
        "secretId": "api-key",
        "labels": {"env": "dev"},
        "annotations": {"note": "x"},
        "replication": {"userManaged": {"replicas": [{"location": REGION}]}},
    },
    "SecretIamMember": {
        "secretId": f"projects/{PROJECT}/secrets/api-key",
        "role": "roles/secretmanager.secretAccessor",
        "member": f"serviceAccount:{EMAIL}",
    },
    "IAMMember": {
        "project": PROJECT,
        "role": "roles/logging.logWriter",
        "member": f"serviceAccount:{EMAIL}",
        "condition": {"title": "soon", "expression": "request.time < timestamp('2030-01-01')"},
    },
    "Service": {"service": "tpu.googleapis.com", "disableOnDestroy": True},
    "IAMCustomRole": {
        "roleId": "reader",
        "title": "Reader",
        "permissions": ["tpu.nodes.get", "tpu.nodes.list"],
    },
    "AccountIAMMember": {
        "serviceAccountId": f"projects/{PROJECT}/serviceAccounts/{EMAIL}",
        "role": "roles/iam.workloadIdentityUser",
        "member": f"serviceAccount:{EMAIL}",
    },
    "WorkloadIdentityPool": {"workloadIdentityPoolId": "deploys", "displayName": "Deploys"},
    "WorkloadIdentityPoolProvider": {
        "workloadIdentityPoolId": "deploys",
        "workloadIdentityPoolProviderId": "github",
        "attributeMapping": {"google.subject": "assertion.sub"},
        "attributeCondition": "assertion.repository_id == '1'",
        "oidc": {"issuerUri": "https://token.actions.githubusercontent.com"},
    },
    "KeyRing": {"name": "states", "location": REGION},
    "AlertPolicy": {
        "displayName": "vllm/TargetDown",
        "combiner": "OR",
        "conditions": [
            {
                "displayName": "TargetDown",
                "conditionPrometheusQueryLanguage": {
                    "query": "workload_googleapis_com:vllm_up == 0",
                    "duration": "120s",
                    "evaluationInterval": "30s",
                    "alertRule": "TargetDown",
                    "ruleGroup": "vllm",
                    "disableMetricValidation": True,
                },
            }
        ],
        "documentation": {"content": "# Down"},
        "severity": "CRITICAL",
        "userLabels": {"env": "dev"},
    },
    "Dashboard": {"dashboardJson": dashboard("Load")},
    "CryptoKey": {"name": "state", "keyRing": RING_ID, "rotationPeriod": "7776000s"},
    "CryptoKeyIAMMember": {
        "cryptoKeyId": f"{RING_ID}/cryptoKeys/state",
        "role": "roles/cloudkms.cryptoKeyDecrypter",
        "member": f"serviceAccount:{EMAIL}",
    },
}

#: The samples that a sample depends on.
BEFORE = {
    "Subnetwork": ("Network",),
    "Router": ("Network",),
    "RouterNat": ("Network", "Subnetwork", "Router"),
    "Firewall": ("Network",),
    "ManagedZone": ("Network",),
    "RecordSet": ("Network", "ManagedZone"),
    "BucketIAMMember": ("Account", "Bucket"),
    "SecretIamMember": ("Account", "Secret"),
    "IAMMember": ("Account",),
    "AccountIAMMember": ("Account",),
    "WorkloadIdentityPoolProvider": ("WorkloadIdentityPool",),
    "CryptoKey": ("KeyRing",),
    "CryptoKeyIAMMember": ("Account", "KeyRing", "CryptoKey"),
}


def make(calls: Calls, kind: str, **changes: Value) -> Held:
    """Create the sample of ``kind``, after those that it depends on."""
    for needed in BEFORE.get(kind, ()):
        calls.create(needed, SAMPLES[needed])
    return calls.create(kind, SAMPLES[kind] | changes)
