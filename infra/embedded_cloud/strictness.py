"""How much of Google's refusals and delays the embedded cloud imitates, by area.

By default none: everything is known, allowed and there at once, so that a first try and most tests
need no set-up. :data:`STRICT` is the preset of ``tpuflex emulator start --strict``.

An area is a frozen dataclass in ``strictness_areas.py`` whose defaults are lenient, a field of
:class:`Strictness`, and a line of :data:`STRICT`. Whoever enforces it reads
``context.strictness().<area>`` at each call.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from embedded_cloud.errors import invalid_argument
from embedded_cloud.json_types import JsonObject, merge
from embedded_cloud.strictness_areas import (
    EXACT,
    Apis,
    Billing,
    Compute,
    Docker,
    GuestAttributes,
    Hosts,
    Iam,
    Network,
    OrganizationPolicies,
    Permissions,
    Registry,
    ServiceAccounts,
    Tokens,
)

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = [
    "LENIENT",
    "PRESETS",
    "STRICT",
    "Apis",
    "Billing",
    "Compute",
    "Docker",
    "GuestAttributes",
    "Hosts",
    "Iam",
    "Network",
    "OrganizationPolicies",
    "Permissions",
    "Registry",
    "ServiceAccounts",
    "Strictness",
    "Tokens",
]


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

#: As Google was seen to be, or says that it is, in every area. Those that are not named take away
#: what a usual project has, so they stay as they are: billing, permissions, policies, docker; and
#: `iam`, which lets nobody in but owners until somebody grants something.
STRICT = Strictness(
    apis=Apis(enforced=True, bare_projects=True, answers_after_s=60),
    compute=Compute(operation_s=4),
    guest_attributes=GuestAttributes(
        empty_values=False,
        unknown_answers_404=True,
        queries_per_minute=10,
        queries_per_second=3,
    ),
    hosts=Hosts(own_mounts=True, shm_bytes=88_000_000_000, secure_boot_boots=False),
    network=Network(private_addresses=True),
    # 100 in six hours from one address (https://docs.docker.com/docker-hub/usage/).
    registry=Registry(token_required=True, anonymous_pulls_per_hour=16),
    service_accounts=ServiceAccounts(known_after_s=5, nodes_know_after_s=60),
    tokens=Tokens(quota_project_required=True, credentials="user"),
)

#: The presets by the name that a user types.
PRESETS = {"lenient": LENIENT, "strict": STRICT}


@cache
def _adapter() -> TypeAdapter[Strictness]:
    # Here: it takes longer to import than all else that the emulator's process needs.
    from pydantic import TypeAdapter

    return TypeAdapter(Strictness)
