"""Who may do what: service accounts, roles, members, keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.policy.planned import MACHINES, Planned, everybody, json_object, many, unknown
from tpuflex.policy.violations import Breach

#: Every way of pulumi-gcp to grant a role: BucketIAMMember, SecretIamBinding, IAMPolicy, …
_GRANT = re.compile(r"gcp:.*(?:IAM|Iam)(?:Member|Binding|Policy)")
#: https://cloud.google.com/iam/docs/roles-overview; what is left of the legacy roles of a bucket
#: does not reach beyond it.
_BASIC = frozenset({"roles/owner", "roles/editor", "roles/viewer"})
#: The default accounts: https://cloud.google.com/iam/docs/service-account-types#default
_DEFAULT_ACCOUNT = re.compile(
    r"default|\d+-compute@developer\.gserviceaccount\.com|[^@]+@appspot\.gserviceaccount\.com"
    r"|\d+@cloudservices\.gserviceaccount\.com",
    re.IGNORECASE,
)
_KEYS = frozenset({"gcp:serviceaccount/key:Key", "gcp:storage/hmacKey:HmacKey"})
#: By type: where it says which account its hosts run as, and whether it takes the default account
#: where that is absent.
_RUNS_AS = {
    QUEUED_RESOURCE: ("serviceAccount", True),
    "gcp:tpu/v2Vm:V2Vm": ("serviceAccount.email", True),
    **dict.fromkeys(MACHINES, ("serviceAccount.email", False)),
}


def shared_account(planned: Planned) -> Iterator[Breach]:
    """Hosts that run as an account of the whole project."""
    if planned.type not in _RUNS_AS:
        return
    path, by_default = _RUNS_AS[planned.type]
    key, _, inner = path.partition(".")
    value = planned.inputs.get(key)
    if value is None and not by_default:
        return  # a machine without a service account has no rights at all
    if inner and not unknown(value):
        value = value.get(inner) if isinstance(value, Mapping) else None
    if unknown(value):
        return  # the account of a resource in the same program, which is made with it
    remedy = "Make an account for it and write its email."
    if not value:
        yield Breach(f"{path} is absent, so its hosts run as the default account", remedy)
    elif _DEFAULT_ACCOUNT.fullmatch(str(value).strip()):
        yield Breach(f"{path} is a default account, {value}", remedy)


def basic_roles(planned: Planned) -> Iterator[Breach]:
    """Grants of owner, editor or viewer."""
    for role, _members in _bindings(planned):
        if unknown(role):
            yield Breach("its role is known only after the update", _NARROW, advisory=True)
        elif str(role).strip().lower() in _BASIC:
            yield Breach(f"it grants the basic role {role}", _NARROW)


_NARROW = "Grant a role with the permissions that are needed, and on one resource."


def public_grants(planned: Planned) -> Iterator[Breach]:
    """Grants to everybody."""
    for role, members in _bindings(planned):
        for member in members:
            if everybody(member):
                yield Breach(f"it grants {role} to {member}", "Name those who need it.")


def account_keys(planned: Planned) -> Iterator[Breach]:
    """Keys of service accounts."""
    if planned.type in _KEYS:
        yield Breach(
            "it makes a key of a service account",
            "Use Workload Identity Federation, impersonation, or the account of a host.",
        )


def _bindings(planned: Planned) -> Iterator[tuple[object, tuple[object, ...]]]:
    """The roles that ``planned`` grants, each with its members."""
    if not _GRANT.fullmatch(planned.type):
        return
    inputs = planned.inputs
    if "role" in inputs:
        members = (*many(inputs.get("member")), *many(inputs.get("members")))
        yield inputs["role"], members
    policy = json_object(inputs.get("policyData"))
    for binding in many((policy or {}).get("bindings")):
        if isinstance(binding, Mapping):
            yield binding.get("role"), many(binding.get("members"))
    if unknown(inputs.get("policyData")):
        yield inputs["policyData"], ()
