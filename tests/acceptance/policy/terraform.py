"""Planned resources as the JSON of a Terraform plan, for tools that read nothing else.

Only types that tpuflex makes and Google's Terraform provider has; a queued resource of Flex-start
has no such type. The form:
https://developer.hashicorp.com/terraform/internals/json-format#plan-representation
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tpuflex.policy.planned import Planned, unknown

_GOOGLE = "registry.terraform.io/hashicorp/google"
TYPES: Mapping[str, str] = {
    "gcp:compute/firewall:Firewall": "google_compute_firewall",
    "gcp:compute/network:Network": "google_compute_network",
    "gcp:compute/router:Router": "google_compute_router",
    "gcp:compute/routerNat:RouterNat": "google_compute_router_nat",
    "gcp:compute/subnetwork:Subnetwork": "google_compute_subnetwork",
    "gcp:dns/managedZone:ManagedZone": "google_dns_managed_zone",
    "gcp:dns/recordSet:RecordSet": "google_dns_record_set",
    "gcp:projects/iAMMember:IAMMember": "google_project_iam_member",
    "gcp:projects/service:Service": "google_project_service",
    "gcp:secretmanager/secret:Secret": "google_secret_manager_secret",
    "gcp:secretmanager/secretIamMember:SecretIamMember": (
        "google_secret_manager_secret_iam_member"
    ),
    "gcp:serviceaccount/account:Account": "google_service_account",
    "gcp:storage/bucket:Bucket": "google_storage_bucket",
    "gcp:storage/bucketIAMMember:BucketIAMMember": "google_storage_bucket_iam_member",
}
#: Blocks that pulumi-gcp names in the plural because they may stand several times.
_BLOCKS = {"allows": "allow", "denies": "deny", "lifecycleRules": "lifecycle_rule"}
#: Keys of a user's own, which are no names of the provider.
_OPEN = frozenset({"labels"})
_CAPITAL = re.compile(r"(?<=[a-z0-9])([A-Z])")
NETWORK = "gcp:compute/network:Network"


def terraform_plan(planned: Iterable[Planned]) -> dict[str, object]:
    """The plan that makes ``planned``; types that Terraform does not know are left out."""
    known = [each for each in planned if each.type in TYPES]
    resources = [_resource(each) for each in known]
    return {
        "format_version": "1.2",
        "terraform_version": "1.9.8",
        "planned_values": {"root_module": {"resources": resources}},
        "resource_changes": [
            {
                **{key: each[key] for key in ("address", "mode", "type", "name")},
                "change": {"actions": ["create"], "before": None, "after": each["values"]},
            }
            for each in resources
        ],
        "configuration": {"root_module": {"resources": _configuration(known)}},
    }


def address(planned: Planned) -> str:
    """What Terraform calls ``planned``."""
    return f"{TYPES[planned.type]}.{planned.name}"


def _resource(planned: Planned) -> dict[str, object]:
    return {
        "address": address(planned),
        "mode": "managed",
        "type": TYPES[planned.type],
        "name": planned.name,
        "provider_name": _GOOGLE,
        "values": _translated(planned.inputs),
    }


def _configuration(known: list[Planned]) -> list[dict[str, object]]:
    """Which resource names which network: by its id or, before it has one, the only one."""
    networks = [each for each in known if each.type == NETWORK]
    links: list[dict[str, object]] = []
    for each in known:
        named = str(each.inputs.get("network") or "")
        found = [
            network
            for network in networks
            if named.endswith(f"/networks/{network.inputs.get('name')}")
            or (unknown(named) and len(networks) == 1)
        ]
        references = [name for to in found for name in (f"{address(to)}.id", address(to))]
        expressions = {"network": {"references": references}} if references else {}
        links.append(
            {
                "address": address(each),
                "mode": "managed",
                "type": TYPES[each.type],
                "name": each.name,
                "expressions": expressions,
            }
        )
    return links


def _translated(value: object) -> object:
    if isinstance(value, Mapping):
        return {
            _key(key): inner if key in _OPEN else _translated(inner)
            for key, inner in value.items()
            if not unknown(inner)
        }
    if isinstance(value, (list, tuple)):
        return [_translated(inner) for inner in value if not unknown(inner)]
    return value


def _key(name: str) -> str:
    return _BLOCKS.get(name) or _CAPITAL.sub(r"_\1", name).lower()
