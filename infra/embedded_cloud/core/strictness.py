"""How much of Google's refusals and delays the embedded cloud imitates, by area.

By default none: everything is known, allowed and there at once, so that a first try and most tests
need no set-up.

An area is a frozen dataclass whose defaults are lenient, a field of :class:`Strictness`, and a line
of ``STRICT`` in :mod:`embedded_cloud.strict.book`. What enforces it reads
``context.strictness().<area>`` at each call.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from annotated_types import Interval

from embedded_cloud.core.errors import invalid_argument
from embedded_cloud.core.json_types import JsonObject, merge

if TYPE_CHECKING:
    from pydantic import ConfigDict, TypeAdapter


#: An area and all that is in it refuse keys and types that they do not know.
EXACT: ConfigDict = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

#: Seconds on the cloud's clock; at most three hundred years, so that sums of them are still dates.
Seconds: TypeAlias = Annotated[float, Interval(ge=0, le=10_000_000_000)]

#: Kinds of credentials: a token that does not expire, and those that
#: :mod:`embedded_cloud.services.tokens` issues.
CredentialKind: TypeAlias = Literal[
    "token", "user", "service-account", "impersonated", "external", "metadata"
]

#: How many, and how large: as JSON and SQLite can hold it.
Count: TypeAlias = Annotated[int, Interval(ge=0, le=1_000_000)]
Bytes: TypeAlias = Annotated[int, Interval(ge=0, le=2**53)]


@dataclass(frozen=True, slots=True)
class Apis:
    """APIs have to be enabled in a project before they answer.

    Attributes:
        enforced: an API that is not enabled answers 403 SERVICE_DISABLED.
        bare_projects: no API is enabled in a project at first, as in one that is made through an
            API; otherwise those are that Google enables in every new project.
        answers_after_s: from the moment an API is enabled until it answers. 55 to 60 s were seen
            for Compute Engine (https://github.com/skypilot-org/skypilot/pull/1197).
    """

    __pydantic_config__ = EXACT

    enforced: bool = False
    bare_projects: bool = False
    answers_after_s: Seconds = 0.0


@dataclass(frozen=True, slots=True)
class Billing:
    """The billing account of every project.

    Attributes:
        enabled: there is one and it is open; without it, services that cost money refuse.
    """

    __pydantic_config__ = EXACT

    enabled: bool = True


@dataclass(frozen=True, slots=True)
class Compute:
    """Changes of networks take time.

    Attributes:
        operation_s: until an operation tells that it is done.
    """

    __pydantic_config__ = EXACT

    operation_s: Seconds = 0.0


@dataclass(frozen=True, slots=True)
class Docker:
    """What the image of a host brings, and whether apt can add to it.

    Attributes:
        preinstalled: whether docker is there. Google documents it for ``v2-alpha-tpuv6e``, while
            images of Compute Engine for TPUs have none.
        installable: whether `apt-get install docker.io` reaches a mirror.
    """

    __pydantic_config__ = EXACT

    preinstalled: bool = True
    installable: bool = True


@dataclass(frozen=True, slots=True)
class GuestAttributes:
    """Bounds on what a host may report
    (https://cloud.google.com/compute/docs/metadata/manage-guest-attributes).

    That the policy ``compute.disableGuestAttributesAccess`` refuses them follows from
    ``organization_policies``.

    Attributes:
        empty_values: whether an empty value may be written; nothing documents that it may.
        unknown_answers_404: a namespace or key without value answers 404 instead of nothing.
        queries_per_minute: of one host; what is written beyond it is lost without a word.
        queries_per_second: the same, within one second.
    """

    __pydantic_config__ = EXACT

    empty_values: bool = True
    unknown_answers_404: bool = False
    queries_per_minute: Count | None = None
    queries_per_second: Count | None = None


@dataclass(frozen=True, slots=True)
class Hosts:
    """The machines behind a node.

    Attributes:
        own_mounts: hosts and containers have mount namespaces: the memory that takes the weights is
            a file system that fills up, and a container sees of the host what is mounted, at its
            target alone, and has a /dev/shm of its size. Refused where the machine lets its user
            have none; the preset then goes without.
        shm_bytes: size of the file system in memory that takes the weights; None: the disk's.
        secure_boot_boots: whether a host with Secure Boot comes up. Nobody has shown it for v6e;
            one that does not come up reports nothing at all.
    """

    __pydantic_config__ = EXACT

    own_mounts: bool = False
    shm_bytes: Bytes | None = None
    secure_boot_boots: bool = True


@dataclass(frozen=True, slots=True)
class Iam:
    """Bindings decide who may do what: those of users and service accounts. The caller with
    the token of the embedded cloud owns it, and may do everything.

    Attributes:
        enforced: a caller needs a binding, on the resource or its project, of a role that holds the
            permission that the method asks for.
        takes_effect_after_s: from the moment a binding is made until it grants anything. About two
            minutes on Google, sometimes seven or more
            (https://cloud.google.com/iam/docs/access-change-propagation).
    """

    __pydantic_config__ = EXACT

    enforced: bool = False
    takes_effect_after_s: Seconds = 0.0


@dataclass(frozen=True, slots=True)
class Network:
    """What lies between a client and a host.

    Attributes:
        private_addresses: hosts have addresses of their subnetwork, which lead nowhere from here.
            The way in is IAP: firewall rules, OS Login and SSH decide
            (:mod:`embedded_cloud.services.iap`).
    """

    __pydantic_config__ = EXACT

    private_addresses: bool = False


#: Enforced or not; of a list constraint: all values are allowed, none, or these.
ConstraintValue: TypeAlias = bool | Literal["allow_all", "deny_all"] | tuple[str, ...]


class ConstraintKind(Enum):
    """What a constraint says."""

    #: Enforced or not; not enforced unless a policy says so.
    BOOLEAN = "true or false"
    #: Which values are allowed; all unless a policy says otherwise.
    LIST = '"allow_all", "deny_all" or a list of allowed values'


#: Constraints of organization policies that touch what tpuflex makes, as of 2026-11:
#: https://docs.cloud.google.com/resource-manager/docs/organization-policy/org-policy-constraints
CONSTRAINTS: dict[str, ConstraintKind] = {
    "compute.disableGuestAttributesAccess": ConstraintKind.BOOLEAN,
    "compute.requireOsLogin": ConstraintKind.BOOLEAN,
    "compute.requireShieldedVm": ConstraintKind.BOOLEAN,
    "compute.restrictCloudNATUsage": ConstraintKind.LIST,
    "compute.skipDefaultNetworkCreation": ConstraintKind.BOOLEAN,
    "compute.vmExternalIpAccess": ConstraintKind.LIST,
    "gcp.resourceLocations": ConstraintKind.LIST,
    "gcp.restrictServiceUsage": ConstraintKind.LIST,
    "iam.allowedPolicyMemberDomains": ConstraintKind.LIST,
    "iam.disableServiceAccountCreation": ConstraintKind.BOOLEAN,
    "iam.disableServiceAccountKeyCreation": ConstraintKind.BOOLEAN,
    "storage.publicAccessPrevention": ConstraintKind.BOOLEAN,
    "storage.uniformBucketLevelAccess": ConstraintKind.BOOLEAN,
}


def check_constraints(constraints: Mapping[str, ConstraintValue]) -> None:
    """Check that all ``constraints`` exist and their values are of their kinds.

    Raises:
        ValueError: says which is not.
    """
    for name, value in constraints.items():
        kind = CONSTRAINTS.get(name)
        if kind is None:
            raise ValueError(f"{name} is not known; known: {', '.join(CONSTRAINTS)}")
        if isinstance(value, bool) != (kind is ConstraintKind.BOOLEAN):
            raise ValueError(f"{name} must be {kind.value}")


@dataclass(frozen=True, slots=True)
class OrganizationPolicies:
    """Policies that the organization has set for every project.

    Attributes:
        constraints: by name without ``constraints/``, such as ``compute.vmExternalIpAccess``. All
            can be read through the APIs; guest attributes, Secure Boot, external addresses, NAT and
            new service accounts are refused where one forbids them.
    """

    __pydantic_config__ = EXACT

    constraints: Mapping[str, ConstraintValue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_constraints(self.constraints)

    def enforces(self, name: str) -> bool:
        """Whether the boolean constraint ``name`` is enforced."""
        return self.constraints.get(name) is True

    def restricts(self, name: str) -> bool:
        """Whether the list constraint ``name`` forbids anything."""
        return self.constraints.get(name, "allow_all") != "allow_all"


#: Such as ``tpu.nodes.create``.
_PERMISSION = re.compile(r"[a-z]\w*(\.[a-zA-Z]\w*){2,}")


@dataclass(frozen=True, slots=True)
class Permissions:
    """What the owner of the embedded cloud may do.

    Attributes:
        missing: the methods that need one of these refuse, and testIamPermissions leaves them out.
    """

    __pydantic_config__ = EXACT

    missing: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for name in self.missing:
            if not _PERMISSION.fullmatch(name):
                raise ValueError(f"missing: {name!r} is no permission, such as tpu.nodes.create")


@dataclass(frozen=True, slots=True)
class Registry:
    """Where images are pulled from.

    Attributes:
        token_required: a repository of a project answers nobody without a token, and a service
            account only with the role.
        anonymous_pulls_per_hour: of Docker Hub, by all hosts together: they are behind one address.
        repository_requests_per_minute: of a project's repositories, by everybody: the quota of
            Artifact Registry (https://cloud.google.com/artifact-registry/quotas).
        absent: images that no registry has, as ``sha256:…`` or ``name@sha256:…``.
    """

    __pydantic_config__ = EXACT

    token_required: bool = False
    anonymous_pulls_per_hour: Count | None = None
    repository_requests_per_minute: Count | None = None
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServiceAccounts:
    """A new service account is not known everywhere at once.

    Attributes:
        known_after_s: from its creation until it can be read and policies may name it.
        nodes_know_after_s: until a request for nodes may name it: 60 s are in Google's sample
            (https://cloud.google.com/iam/docs/service-accounts-create, magic-modules' TPU sample).
            None: a node may name any address.
    """

    __pydantic_config__ = EXACT

    known_after_s: Seconds = 0.0
    nodes_know_after_s: Seconds | None = None


@dataclass(frozen=True, slots=True)
class Tokens:
    """Credentials, and the access tokens that they are exchanged for.

    Attributes:
        lifetime_s: until an access token expires, also a host's. Google's answers say 3599 s, at
            most 3600.
        quota_project_required: client-based APIs refuse a user's token without a quota project.
        credentials: what `tpuflex` itself uses for stacks on the embedded cloud: the token that
            does not expire, or a kind of Application Default Credentials.
    """

    __pydantic_config__ = EXACT

    lifetime_s: Annotated[float, Interval(ge=1, le=43_200)] = 3599.0
    quota_project_required: bool = False
    credentials: CredentialKind = "token"


@dataclass(frozen=True, slots=True)
class Strictness:
    """All areas, by name."""

    __pydantic_config__ = EXACT

    apis: Apis = field(default_factory=Apis)
    billing: Billing = field(default_factory=Billing)
    compute: Compute = field(default_factory=Compute)
    docker: Docker = field(default_factory=Docker)
    guest_attributes: GuestAttributes = field(default_factory=GuestAttributes)
    hosts: Hosts = field(default_factory=Hosts)
    iam: Iam = field(default_factory=Iam)
    network: Network = field(default_factory=Network)
    organization_policies: OrganizationPolicies = field(default_factory=OrganizationPolicies)
    permissions: Permissions = field(default_factory=Permissions)
    registry: Registry = field(default_factory=Registry)
    service_accounts: ServiceAccounts = field(default_factory=ServiceAccounts)
    tokens: Tokens = field(default_factory=Tokens)

    @property
    def areas(self) -> tuple[str, ...]:
        """Names of the areas that are not lenient."""
        lenient = Strictness()
        names = (each.name for each in dataclasses.fields(self))
        return tuple(name for name in names if getattr(self, name) != getattr(lenient, name))

    def to_json(self) -> JsonObject:
        """The form that :meth:`from_json` reads, complete."""
        document: JsonObject = _adapter().dump_python(self, mode="json")
        return document

    @classmethod
    def from_json(cls, document: JsonObject) -> Strictness:
        """Read ``{"apis": {"enforced": true}}``; what is absent is lenient.

        Raises:
            CloudError: 400 naming every key and value that is not understood.
        """
        from pydantic import ValidationError

        try:
            # As JSON, where a list may be read as a tuple although types are held strictly.
            return _adapter().validate_json(json.dumps(document))
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()
            )
            known = ", ".join(each.name for each in dataclasses.fields(cls))
            raise invalid_argument(f"strictness: {problems} (areas: {known})") from None

    def merged(self, change: JsonObject) -> Strictness:
        """This one with ``change`` applied (a JSON merge patch): null makes a key lenient again.

        Raises:
            CloudError: as :meth:`from_json`.
        """
        return self.from_json(merge(self.to_json(), change))


#: Nothing but what a service enforces anyway.
LENIENT = Strictness()


@cache
def _adapter() -> TypeAdapter[Strictness]:
    # Here: it takes longer to import than all else that the emulator's process needs.
    from pydantic import TypeAdapter

    return TypeAdapter(Strictness)
