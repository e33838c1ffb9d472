"""Physical names as a pure function of project, stack, logical name and role.

Deterministic names make every create adoptable and every retry safe, so there are no random
suffixes (docs/adr/0002). Where Google limits the length, a name that is too long is truncated
and ends in a hash of the whole.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

#: Labels that mark the resources of a stack. Label values: [a-z0-9_-], at most 63
#: characters (https://cloud.google.com/compute/docs/labeling-resources#requirements).
LABEL_OWNER = "tpuflex-owner"
LABEL_PROJECT = "tpuflex-project"
LABEL_STACK = "tpuflex-stack"
LABEL_SPEC = "tpuflex-spec"
#: Which state made it: project, stack and name are known to everyone, and two people may use the
#: same ones; this id is made at random and kept in one state (docs/adr/0015).
LABEL_STATE = "tpuflex-state"
#: The bucket with states that `tpuflex bootstrap` makes; no stack's, so it has none of the others.
STATES_LABEL = {"managed-by": "tpuflex-bootstrap"}

#: A stack's name as Pulumi takes it: letters, digits, hyphens, underscores, periods
#: (https://www.pulumi.com/docs/iac/concepts/stacks/#create-stack). It stands in commands, too, and
#: so it begins like no option.
STACK_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
STACK_VARIABLE = "TPUFLEX_STACK"
DEFAULT_STACK = "dev"

#: The name of the Pulumi package.
PACKAGE = "tpuflex"
#: Pulumi's type tokens of the provider's resources.
QUEUED_RESOURCE = "tpuflex:tpu:QueuedResource"
#: A key of the user's, which the engine only reads.
CRYPTO_KEY = "gcp:kms/cryptoKey:CryptoKey"
STATE_ID = "tpuflex:tpu:StateId"
#: And that of the component.
VLLM_ENDPOINT = "tpuflex:index:VllmEndpoint"

#: Length of a state id in bytes: of 2^80, no two people draw the same one.
STATE_ID_BYTES = 10

#: What a secret of the endpoint is for: part of its name, and the name of its file on the host.
SecretRole = Literal["api-key", "tls-certificate", "metrics-key", "programs-key", "hf-token"]
SECRET_ROLES: tuple[SecretRole, ...] = get_args(SecretRole)
API_KEY, TLS_CERTIFICATE, METRICS_KEY, PROGRAMS_KEY, HF_TOKEN = SECRET_ROLES
#: Those whose values tpuflex makes.
MadeSecretRole = Literal["api-key", "metrics-key", "programs-key"]
MADE_SECRET_ROLES: tuple[MadeSecretRole, ...] = get_args(MadeSecretRole)
#: Those that the hosts read. The last one is for pushing weights.
HOST_SECRET_ROLES: tuple[SecretRole, ...] = SECRET_ROLES[:-1]

#: Logical name of the endpoint that the project's own program deploys. The command line
#: finds the endpoint's bucket, secrets and slice by ``Names(project, stack, ENDPOINT_NAME)``.
ENDPOINT_NAME = "vllm"

#: Pulumi's project of the libraries of weights, a project of its own, so that `down --all` takes
#: none along. A library's stack is called by its Google Cloud project, which has one.
LIBRARY_PROJECT = "tpuflex-library"
#: Logical name of the library within its program.
LIBRARY_NAME = "models"

#: What the rules for egress are for: part of their names. The last two deny, by IP version.
EGRESS_RULE_ROLES = ("egress-google", "egress-deny", "egress-deny-v6")
#: What the private DNS zones of the endpoint are for: part of their names.
DNS_ZONE_ROLES = ("dns-googleapis", "dns-gcr", "dns-pkg")

COMPUTE_NAME_LIMIT = 63
SERVICE_ACCOUNT_ID_LIMIT = 30
QUEUED_RESOURCE_ID_LIMIT = 60
BUCKET_NAME_LIMIT = 63
SECRET_ID_LIMIT = 255

_DESCRIPTION = "Managed by tpuflex; owner "
_DESCRIBED_STATE = "; state "
_OWNER_LENGTH = 16
_STATE_ID = re.compile(rf"[0-9a-f]{{{2 * STATE_ID_BYTES}}}")
#: All of a description, so that a text that only quotes one marks nothing. A program
#: without a state id writes the owner alone.
_DESCRIBED = re.compile(
    rf"{_DESCRIPTION}([0-9a-f]{{{_OWNER_LENGTH}}})(?:{_DESCRIBED_STATE}({_STATE_ID.pattern}))?"
)
_NOT_NAME = re.compile(r"[^a-z0-9-]+")
_GENERATION = re.compile(r".+-g([1-9]\d{0,8})")


def unnamed_stack(environ: Mapping[str, str]) -> str:
    """The stack of a command without ``--stack``: ``$TPUFLEX_STACK``, or ``dev``."""
    return environ.get(STACK_VARIABLE, "") or DEFAULT_STACK


def slug(text: str) -> str:
    """``text`` in RFC 1035 letters: lower case, digits and single hyphens, letter first."""
    lowered = _NOT_NAME.sub("-", text.lower())
    lowered = re.sub(r"-{2,}", "-", lowered).strip("-")
    if not lowered:
        return "x"
    return lowered if lowered[0].isalpha() else f"x{lowered}"


def digest(*parts: str, length: int = 16) -> str:
    """The first ``length`` hex digits of a SHA-256 over ``parts``, separated by NUL."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:length]


def fit(name: str, limit: int) -> str:
    """``name``, truncated and ending in a hash of the whole if longer than ``limit``."""
    if len(name) <= limit:
        return name
    return f"{name[: limit - 9].rstrip('-')}-{digest(name, length=8)}"


def account_email(account_id: str, project: str) -> str:
    """Email of the service account ``account_id`` in a Google Cloud project."""
    return f"{account_id}@{project}.iam.gserviceaccount.com"


def is_state_id(text: object) -> bool:
    """Whether ``text`` has the form of a state id: 20 lower-case hex digits."""
    return isinstance(text, str) and _STATE_ID.fullmatch(text) is not None


def owner_in(description: str) -> str:
    """The owner marker in ``description``; empty unless all of it is a
    :meth:`Names.description`."""
    match = _DESCRIBED.fullmatch(description)
    return match[1] if match else ""


def state_in(description: str) -> str:
    """The state id in ``description``; empty unless all of it is a :meth:`Names.description`, or
    if that is of a program without one."""
    match = _DESCRIBED.fullmatch(description)
    return (match[2] or "") if match else ""


def node_ids(prefix: str, count: int) -> tuple[str, ...]:
    """Ids of the ``count`` nodes of one request, as Google numbers them: PREFIX-0, PREFIX-1, …"""
    return tuple(f"{prefix}-{number}" for number in range(count))


def generation_id(prefix: str, generation: int) -> str:
    """Id of the queued resource of ``generation`` in the series ``prefix-g1``, ``prefix-g2``, …"""
    suffix = f"-g{generation}"
    return fit(prefix, QUEUED_RESOURCE_ID_LIMIT - len(suffix)) + suffix


def generation_of(prefix: str, id_: str) -> int | None:
    """The generation of the series ``prefix`` that has this id; None if it is not of the series."""
    match = _GENERATION.fullmatch(id_)
    if match is None or generation_id(prefix, int(match[1])) != id_:
        return None
    return int(match[1])


def library_names(cloud_project: str) -> Names:
    """The names of the library of weights of a Google Cloud project."""
    return Names(LIBRARY_PROJECT, cloud_project, LIBRARY_NAME)


def programs_key(cloud_project: str) -> str:
    """Resource name of the secret that signs the compiled programs which the library of a Google
    Cloud project keeps, ``projects/P/secrets/S``. What an endpoint keeps itself is signed with a
    secret of its own, :data:`PROGRAMS_KEY`."""
    secret = library_names(cloud_project).secret("programs")
    return f"projects/{cloud_project}/secrets/{secret}"


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one endpoint's resources.

    Attributes:
        project: Pulumi project name.
        stack: Pulumi stack name (without organization).
        name: logical name of the endpoint within the program.
        bucket_suffix: ends the bucket's name, for when another project has the name already.
        within: types of the components that it is part of, as its URN joins them; empty for what
            the program makes itself. Components of two types may give one name to their parts.
    """

    project: str
    stack: str
    name: str
    bucket_suffix: str = ""
    within: str = ""

    @property
    def prefix(self) -> str:
        """The prefix of every physical name of this endpoint."""
        parts = (slug(self.project), slug(self.stack), slug(self.name))
        joined = "-".join(parts)
        # "a-b","c" and "a","b-c" join to the same text, and slug() folds letters: when the
        # spelling is ambiguous, a short hash of the exact triple keeps owners apart.
        exact = parts == (self.project, self.stack, self.name)
        if exact and not self.within and not any("-" in p for p in parts):
            return joined
        return f"{joined}-{digest(*self._identity, length=5)}"

    @property
    def owner(self) -> str:
        """Value of the owner label: which project, stack and endpoint a resource belongs to."""
        return digest(*self._identity, length=_OWNER_LENGTH)

    @property
    def _identity(self) -> tuple[str, ...]:
        whole = (self.project, self.stack, self.name, self.within)
        return whole if self.within else whole[:3]

    def description(self, state_id: str = "") -> str:
        """Marks a resource that cannot carry labels as this endpoint's.

        Args:
            state_id: id of the state that makes it; empty for a program that has none.
        """
        state = _DESCRIBED_STATE + state_id if state_id else ""
        return _DESCRIPTION + self.owner + state

    def labels(self, state_id: str = "") -> dict[str, str]:
        """The labels that mark a resource as this endpoint's.

        Args:
            state_id: id of the state that makes it; empty for a program that has none.
        """
        state = {LABEL_STATE: state_id} if state_id else {}
        return {
            LABEL_OWNER: self.owner,
            LABEL_PROJECT: fit(slug(self.project), 63),
            LABEL_STACK: fit(slug(self.stack), 63),
            **state,
        }

    def compute(self, role: str) -> str:
        """Name of a Compute Engine resource (network, firewall, router)."""
        return fit(f"{self.prefix}-{role}", COMPUTE_NAME_LIMIT)

    @property
    def node_pattern(self) -> str:
        """A regular expression for the ids of the endpoint's nodes; of a prefix that is shortened
        in them, it is its beginning that counts."""
        kept = QUEUED_RESOURCE_ID_LIMIT - 20
        prefix = self.prefix
        return f"{prefix}-g[0-9]+.*" if len(prefix) <= kept else f"{prefix[:kept]}.*-g[0-9]+.*"

    def shown(self, role: str = "") -> str:
        """Display name of what Google itself names, such as an alert policy; of the endpoint as a
        whole without a role."""
        return f"{self.prefix}/{role}" if role else self.prefix

    def service_account_id(self, role: str = "host") -> str:
        """Account id of a service account, 6 to 30 characters."""
        return fit(f"{self.prefix}-{role}", SERVICE_ACCOUNT_ID_LIMIT)

    def bucket(self, cloud_project: str, region: str) -> str:
        """Name of the weights bucket in ``region``; bucket names are global, hence the hash."""
        parts = (region, digest(cloud_project, length=6), self.bucket_suffix)
        suffix = "".join(f"-{part}" for part in parts if part)
        head = f"{self.prefix}-weights"
        # Storage refuses names that contain "google" or begin with "goog"
        # (https://cloud.google.com/storage/docs/buckets#naming).
        if "goog" in head:
            head = f"tpuflex-{self.owner}-weights"
        return fit(head, BUCKET_NAME_LIMIT - len(suffix)) + suffix

    def secret(self, role: str) -> str:
        """Secret Manager id of the secret for ``role``."""
        return fit(f"{self.prefix}-{role}", SECRET_ID_LIMIT)

    def secret_version(self, cloud_project: str, role: str, number: int) -> str:
        """Resource name of version ``number`` of the secret for ``role``."""
        return f"projects/{cloud_project}/secrets/{self.secret(role)}/versions/{number}"

    def queued_resource_id(self, generation: int = 1) -> str:
        """Id of the queued resource of ``generation``; the node carries the same id."""
        return generation_id(self.prefix, generation)
