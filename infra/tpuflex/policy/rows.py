"""The rules as data: one row each. What a rule looks at is in the modules beside this one."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

Severity = Literal["mandatory", "advisory"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        id: its name in findings and in waivers.
        severity: whether a breach that is not waived refuses the deployment, or is only shown.
        requires: what it requires, as a sentence.
        protects: what it protects against, as a sentence.
        see: where Google describes what it is about; empty for a rule of tpuflex's own.
    """

    id: str
    severity: Severity
    requires: str
    protects: str
    see: str = ""

    def to_json(self) -> dict[str, str]:
        """The rule in a JSON document."""
        return asdict(self)


RUN_DURATION = Rule(
    "run-duration",
    "mandatory",
    "Every TPU slice ends by itself, after 7 days at most.",
    "A slice that nobody remembers is billed until somebody notices.",
    "https://cloud.google.com/tpu/docs/request-using-flex-start",
)
EXTERNAL_ADDRESS = Rule(
    "no-external-address",
    "mandatory",
    "No host, address or forwarding rule faces the internet.",
    "What has an external address can be reached by everybody whom a firewall rule forgets.",
    "https://cloud.google.com/compute/docs/ip-addresses",
)
OPEN_INGRESS = Rule(
    "no-open-ingress",
    "mandatory",
    "No firewall rule lets the internet in, however its ranges spell that.",
    "An endpoint that everybody reaches is found within hours; a rule without any source lets in"
    " every address.",
    "https://cloud.google.com/firewall/docs/firewalls",
)
FIREWALL_TARGETS = Rule(
    "firewall-targets",
    "mandatory",
    "Every firewall rule names the hosts that it is for.",
    "A rule without targets opens every host of its network, later ones too.",
    "https://cloud.google.com/firewall/docs/firewalls",
)
OWN_ACCOUNT = Rule(
    "own-service-account",
    "mandatory",
    "Hosts run as a service account of their own.",
    "The default accounts are shared by the whole project, and often may edit it.",
    "https://cloud.google.com/iam/docs/best-practices-service-accounts",
)
BASIC_ROLES = Rule(
    "no-basic-roles",
    "mandatory",
    "Nobody is granted owner, editor or viewer.",
    "A basic role has thousands of permissions in every service of the project.",
    "https://cloud.google.com/iam/docs/roles-overview",
)
PUBLIC_GRANT = Rule(
    "no-public-grant",
    "mandatory",
    "Nothing is granted to everybody (allUsers, allAuthenticatedUsers).",
    "Weights, secrets and state would be readable by anyone who knows their name.",
    "https://cloud.google.com/iam/docs/principals-overview",
)
ACCOUNT_KEY = Rule(
    "no-service-account-key",
    "mandatory",
    "No key of a service account is made.",
    "A key works from everywhere, does not end by itself, and would lie in the stack's state.",
    "https://cloud.google.com/iam/docs/best-practices-for-managing-service-account-keys",
)
PRIVATE_BUCKET = Rule(
    "private-bucket",
    "mandatory",
    "Public access to every bucket is prevented, and no ACL gives it.",
    "One later grant would otherwise be enough to publish the weights.",
    "https://cloud.google.com/storage/docs/public-access-prevention",
)
UNIFORM_BUCKET = Rule(
    "uniform-bucket",
    "mandatory",
    "Every bucket has uniform bucket-level access.",
    "ACLs of single objects give access that no IAM policy shows.",
    "https://cloud.google.com/storage/docs/uniform-bucket-level-access",
)
BUCKET_REGION = Rule(
    "bucket-region",
    "mandatory",
    "Every bucket is in the region of the slice.",
    "Weights that cross regions are billed by the gigabyte at every boot, while the chips wait.",
    "https://cloud.google.com/storage/pricing",
)
SECRET_REFERENCE = Rule(
    "secret-by-reference",
    "mandatory",
    "Secrets are named by their Secret Manager version; no value is an input.",
    "A value in an input is in the stack's state, and metadata is readable by every process of"
    " the host.",
    "https://cloud.google.com/secret-manager/docs/best-practices",
)
PINNED_IMAGE = Rule(
    "image-pinned",
    "mandatory",
    "The serving image is named by its digest.",
    "What a tag means can be changed by whoever may push it, between two boots.",
)
IMAGE_FLOOR = Rule(
    "image-above-floor",
    "mandatory",
    "The serving image is not known to have a vLLM with known holes, and hosts stop one that has.",
    "Requests or weights could run code on the host, or pass without the API key"
    " ([security.md](security.md)).",
)
OWNER_MARKER = Rule(
    "owner-marker",
    "mandatory",
    "What tpuflex makes, and every slice, carries an owner marker, by label or description.",
    "What carries none is not found by `sweep` and `recover`. Of your own it is only told.",
)
RUN_BUDGET = Rule(
    "budget-per-run",
    "mandatory",
    "A run's chips cost at most `tpuflex:budget.per_run_usd`, if that is set.",
    "A larger slice or a longer run than somebody has agreed to pay for.",
)
PROJECT_BUDGET = Rule(
    "budget-per-project",
    "mandatory",
    "This run and all others in the project, each to its end, cost at most"
    " `tpuflex:budget.per_project_usd`, if that is set.",
    "Many stacks, each within its own budget, that together are not.",
)

RULES: tuple[Rule, ...] = (
    RUN_DURATION,
    EXTERNAL_ADDRESS,
    OPEN_INGRESS,
    FIREWALL_TARGETS,
    OWN_ACCOUNT,
    BASIC_ROLES,
    PUBLIC_GRANT,
    ACCOUNT_KEY,
    PRIVATE_BUCKET,
    UNIFORM_BUCKET,
    BUCKET_REGION,
    SECRET_REFERENCE,
    PINNED_IMAGE,
    IMAGE_FLOOR,
    OWNER_MARKER,
    RUN_BUDGET,
    PROJECT_BUDGET,
)
RULE_IDS: tuple[str, ...] = tuple(rule.id for rule in RULES)
