"""Planned resources to try the rules of policy on: each keeps all of them until it is changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from tpuflex.host.report import CONFIG_KEY
from tpuflex.naming import QUEUED_RESOURCE, Names
from tpuflex.policy.planned import Planned

NAMES = Names("tpuflex", "dev", "vllm")
DIGEST = "sha256:" + "8" * 64
OLD = "sha256:" + "0" * 64
COMPUTE = "gcp:compute/"
FIREWALL = f"{COMPUTE}firewall:Firewall"
POLICY_RULE = f"{COMPUTE}networkFirewallPolicyRule:NetworkFirewallPolicyRule"
INSTANCE = f"{COMPUTE}instance:Instance"
TEMPLATE = f"{COMPUTE}instanceTemplate:InstanceTemplate"
BUCKET = "gcp:storage/bucket:Bucket"
PROJECT_ROLE = "gcp:projects/iAMMember:IAMMember"
PROJECT_POLICY = "gcp:projects/iAMPolicy:IAMPolicy"
VM = "gcp:tpu/v2Vm:V2Vm"


def boot(image: str = f"r@{DIGEST}", floor: str = "0.23.1") -> dict[str, str]:
    """The metadata of a slice that serves ``image``."""
    document = {"container": {"image": image}, "serving": {"security_floor": floor}}
    return {CONFIG_KEY: json.dumps(document)}


def planned(type_: str, inputs: Mapping[str, object], name: str = "r") -> Planned:
    """A resource of the user's program, beside ours."""
    return Planned(type_, name, inputs, f"urn:pulumi:dev::tpuflex::{type_}::{name}")


def ours(planned: Planned) -> Planned:
    """``planned`` as a part of a component of tpuflex."""
    urn = f"urn:pulumi:dev::tpuflex::tpuflex:index:Network${planned.type}::{planned.name}"
    return replace(planned, urn=urn)


def alert_policy(labels: object) -> Planned:
    """An alert policy."""
    return planned("gcp:monitoring/alertPolicy:AlertPolicy", {"userLabels": labels})


def dashboard(document: str) -> Planned:
    """A dashboard."""
    return planned("gcp:monitoring/dashboard:Dashboard", {"dashboardJson": document})


def slice_(**changed: object) -> Planned:
    """A slice that keeps all rules, but for ``changed``; None leaves an input out."""
    inputs: dict[str, object] = {
        "zones": ["us-east5-a"],
        "maxRunDuration": "14400s",
        "externalIps": False,
        "serviceAccount": "host@p.iam.gserviceaccount.com",
        "labels": NAMES.labels(),
        "metadata": boot(),
        **changed,
    }
    return planned(QUEUED_RESOURCE, {k: v for k, v in inputs.items() if v is not None}, "slice")


def firewall(**changed: object) -> Planned:
    """A rule that keeps all rules, but for ``changed``; None leaves an input out."""
    inputs: dict[str, object] = {
        "direction": "INGRESS",
        "sourceRanges": ["203.0.113.7/32"],
        "targetTags": ["host"],
        "allows": [{"protocol": "tcp", "ports": ["8000"]}],
        "description": NAMES.description(),
        **changed,
    }
    return planned(FIREWALL, {k: v for k, v in inputs.items() if v is not None})


def policy_rule(match: object, **changed: object) -> Planned:
    """A rule of a network firewall policy."""
    inputs = {
        "direction": "INGRESS",
        "action": "allow",
        "match": match,
        "targetServiceAccounts": ["host@p.iam.gserviceaccount.com"],
        **changed,
    }
    return planned(POLICY_RULE, inputs)


def bucket(**changed: object) -> Planned:
    """A bucket that keeps all rules, but for ``changed``; None leaves an input out."""
    inputs: dict[str, object] = {
        "location": "US-EAST5",
        "publicAccessPrevention": "enforced",
        "uniformBucketLevelAccess": True,
        "labels": NAMES.labels(),
        **changed,
    }
    return planned(BUCKET, {k: v for k, v in inputs.items() if v is not None})


def grant(role: object, member: str = "user:a@b.c", type_: str = PROJECT_ROLE) -> Planned:
    """A grant of one role to one member."""
    return planned(type_, {"role": role, "member": member})


def machine(type_: str = INSTANCE, **inputs: object) -> Planned:
    """A virtual machine beside the slice."""
    return planned(type_, inputs)
