"""The rows of ``roles.yaml``, and what follows from them. Pure.

``tpuflex bootstrap`` makes the roles, ``tpuflex doctor`` asks whether the caller holds what the
commands need, the role tests prove both.
"""

from __future__ import annotations

import datetime as dt
import pkgutil
from collections.abc import Collection
from enum import StrEnum
from functools import cache
from typing import Annotated, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

_FILE = "roles.yaml"

Permission = Annotated[str, Field(pattern=r"^[a-z]+(\.[a-zA-Z]+){2}$")]
PredefinedRole = Annotated[str, Field(pattern=r"^roles/[a-zA-Z0-9.]+$")]


class Command(StrEnum):
    """A task that needs permissions; `up` and `down` begin with a preview."""

    PREVIEW = "preview"
    PREVIEW_REFRESH = "preview --refresh"  #: it reads all that the state has, and `preview` first
    DOCTOR = "doctor"
    ZONES = "zones"
    UP = "up"
    STATUS = "status"
    ASK = "ask"
    WAY_IN = "logs, ssh, tunnel"
    RESTART = "restart, reboot"
    RECOVER = "recover"
    SWEEP = "sweep"
    SWEEP_YES = "sweep --yes"  #: without it, sweep deletes nothing
    WEIGHTS_PUSH = "weights push"
    WEIGHTS_RM = "weights rm"
    LIBRARY_UP = "library up"
    LIBRARY_STATUS = "library status"
    LIBRARY_DOWN = "library down"
    SECRETS_PUT = "secrets put"
    DOWN = "down"


class When(StrEnum):
    """The stacks that need a permission."""

    ALWAYS = "always"
    PRIVATE = "egress: google"  #: private DNS zones keep the hosts within Google
    NAT = "egress: internet"
    OWN_IMAGES = "an image in the project's own registry"
    TLS = "serving with a certificate"
    HUB_TOKEN = "a token of the Hub in Secret Manager"  # noqa: S105 - a sentence
    EXISTING_NETWORK = "a network of yours"
    SHARED_NETWORK = "a network of another project"
    EXISTING_RULES = "firewall rules of yours"
    EXISTING_ACCOUNT = "a service account of yours"
    EXISTING_GRANTS = "grants that others make"
    EXISTING_APIS = "APIs that others enable"
    EXISTING_KEY = "a key of yours"
    ALERT_POLICIES = "alert policies"
    CHANNELS = "notification channels"
    NO_BUCKET = "no bucket of its own"  #: weights elsewhere, and no programs kept in one
    NO_BUCKET_ROLES = "no role on a bucket"  #: nor one on the bucket that holds its weights
    EXISTING_WEIGHTS = "weights in a bucket of yours"  #: `up` may find them there
    CHANGED = "a changed stack"  #: `up` of a stack that is up already


class Level(StrEnum):
    """The narrowest resource that a permission can be granted on."""

    PROJECT = "project"
    BUCKET = "bucket"
    SECRET = "secret"  # noqa: S105 - a kind of resource
    SERVICE_ACCOUNT = "serviceAccount"
    KEY = "key"


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Need(_Row):
    """A permission that commands need."""

    permission: Permission
    resource: Level
    commands: tuple[Command, ...] = Field(alias="for", min_length=1)
    optional: tuple[Command, ...] = ()
    """Those of them that pass without it, and do less."""
    methods: tuple[str, ...] = Field(min_length=1)
    """Ids of the API methods that ask for it."""
    why: str
    """What they are called for."""
    when: When = When.ALWAYS
    unless: When | None = None
    """The stacks that do not need it; what has a network of its own does."""
    role: PredefinedRole
    """A predefined role that holds it."""
    unproved: bool = False
    """Whether nothing on the embedded cloud asks for it."""


class Role(_Row):
    """A custom role of a project."""

    title: str = Field(max_length=100)
    description: str = Field(max_length=256)
    commands: tuple[Command, ...] = ()
    """It holds what these need."""
    without: tuple[Permission, ...] = ()
    """It does not hold these, although a command needs them."""
    permissions: tuple[Permission, ...] = ()
    """It holds these besides."""
    grants_only: tuple[PredefinedRole, ...] = ()
    """A member who has it may grant and revoke these roles only; any role where there are none."""

    @property
    def condition(self) -> dict[str, str] | None:
        """The condition that a binding of the role has to have, as IAM takes it; None for none.

        https://cloud.google.com/iam/docs/setting-limits-on-granting-roles
        """
        if not self.grants_only:
            return None
        roles = ", ".join(f"'{role}'" for role in self.grants_only)
        attribute = "api.getAttribute('iam.googleapis.com/modifiedGrantsByRole', [])"
        return {
            "title": "tpuflex_host_roles_only",
            "description": "Only the roles that tpuflex grants to hosts",
            "expression": f"{attribute}.hasOnly([{roles}])",
        }


class Roles(_Row):
    """All of ``roles.yaml``."""

    read: dt.date
    """When Google's pages were read."""
    roles: dict[str, Role]
    """Custom roles, by id."""
    identities: dict[str, tuple[str, ...]]
    """Ids of the roles that each identity gets."""
    permissions: tuple[Need, ...]

    @model_validator(mode="after")
    def _roles_exist(self) -> Self:
        unknown = {id_ for ids in self.identities.values() for id_ in ids} - self.roles.keys()
        if unknown:
            raise ValueError(f"identities name roles that are not there: {sorted(unknown)}")
        return self

    def permissions_of(self, role_id: str) -> tuple[str, ...]:
        """What the custom role ``role_id`` holds, sorted (``includedPermissions`` of IAM)."""
        role = self.roles[role_id]
        needed = {
            need.permission for need in self.permissions if {*need.commands} & {*role.commands}
        }
        return tuple(sorted((needed - {*role.without}) | {*role.permissions}))

    def permissions_for(self, *commands: Command) -> frozenset[str]:
        """What any of ``commands`` needs, on any stack."""
        return frozenset(
            need.permission for need in self.permissions if {*need.commands} & {*commands}
        )

    def needed(self, command: Command, stacks: Collection[When]) -> dict[str, str]:
        """The permissions without which ``command`` fails, each with a predefined role for it."""
        return {
            need.permission: need.role
            for need in self.permissions
            if command in need.commands
            and command not in need.optional
            and (need.when is When.ALWAYS or need.when in stacks)
            and (need.unless is None or need.unless not in stacks)
        }


@cache
def roles() -> Roles:
    """The data that comes with tpuflex."""
    content = pkgutil.get_data("tpuflex.roles", _FILE)
    if content is None:
        raise FileNotFoundError(f"tpuflex/roles/{_FILE}")
    return Roles.model_validate(yaml.safe_load(content))
