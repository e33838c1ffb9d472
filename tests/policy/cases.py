"""Resources that keep and that break each rule, in every spelling that is known of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal

from tests.policy.resources import (
    COMPUTE,
    DIGEST,
    NAMES,
    OLD,
    PROJECT_POLICY,
    PROJECT_ROLE,
    TEMPLATE,
    VM,
    alert_policy,
    boot,
    bucket,
    dashboard,
    firewall,
    grant,
    machine,
    ours,
    planned,
    policy_rule,
    slice_,
)
from tpuflex.host.report import CONFIG_KEY
from tpuflex.planning.cost import OtherRuns
from tpuflex.policy import rows
from tpuflex.policy.planned import MACHINES, MASKED, UNKNOWN, Planned
from tpuflex.policy.rows import Rule
from tpuflex.policy.stack import KnownVersion, StackFacts

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
FACTS = StackFacts(
    image=f"us-docker.pkg.dev/p/vllm/vllm@{DIGEST}",
    vllm_versions={
        DIGEST: KnownVersion("0.24.0", "0.23.1"),
        OLD: KnownVersion("0.18.0", "0.23.1"),
    },
)


@dataclass(frozen=True)
class Case:
    """One resource, or one stack, that breaks a rule or keeps all.

    Attributes:
        rule: the rule that it breaks, or that it is about.
        what: the spelling, in a few words.
        planned: the resource; None where the rule is about the stack.
        facts: the stack.
        advisory: whether it refuses nothing, most often because only the update finds out.
    """

    rule: Rule
    what: str
    planned: Planned | None = None
    facts: StackFacts = FACTS
    advisory: bool = False
    beside: tuple[Planned, ...] = field(default=())

    @property
    def resources(self) -> tuple[Planned, ...]:
        """What is planned."""
        return (*self.beside, *((self.planned,) if self.planned else ()))

    def __str__(self) -> str:
        return f"{self.rule.id}: {self.what}"


def _ranges(*texts: str) -> Planned:
    return firewall(sourceRanges=list(texts))


def _budget(**facts: object) -> StackFacts:
    return StackFacts(**{"run_usd": Decimal("21.60"), **facts})  # type: ignore[arg-type]


_HALVES = ("0.0.0.0/1", "128.0.0.0/1")
_QUARTERS = ("0.0.0.0/2", "64.0.0.0/2", "192.0.0.0/2", "128.0.0.0/2")
_BUT_OURS = tuple(f"{first}.0.0.0/8" for first in range(1, 224) if first not in (10, 127))

BREAKS: tuple[Case, ...] = (
    Case(rows.RUN_DURATION, "no duration", slice_(maxRunDuration=None)),
    Case(rows.RUN_DURATION, "a second more than 7 days", slice_(maxRunDuration="604801s")),
    Case(rows.RUN_DURATION, "nothing", slice_(maxRunDuration="0s")),
    Case(rows.RUN_DURATION, "days, which Google does not read", slice_(maxRunDuration="8d")),
    Case(
        rows.RUN_DURATION,
        "an end in nine days",
        slice_(maxRunDuration=None, terminationTime="2026-12-01T12:00:00Z"),
    ),
    Case(
        rows.RUN_DURATION,
        "an end without a time zone",
        slice_(maxRunDuration=None, terminationTime="2026-11-23T12:00:00"),
    ),
    Case(rows.RUN_DURATION, "a TPU of pulumi-gcp", planned(VM, {"serviceAccount": {"email": "a"}})),
    Case(
        rows.RUN_DURATION,
        "a queued resource of pulumi-gcp",
        planned("gcp:tpu/v2QueuedResource:V2QueuedResource", {}),
    ),
    Case(rows.RUN_DURATION, "unknown", slice_(maxRunDuration=UNKNOWN), advisory=True),
    Case(rows.EXTERNAL_ADDRESS, "on the slice", slice_(externalIps=True)),
    Case(rows.EXTERNAL_ADDRESS, "on the slice, in words", slice_(externalIps="true")),
    Case(
        rows.EXTERNAL_ADDRESS,
        "on the slice's second interface",
        slice_(networkConfigs=[{"externalIps": False}, {"externalIps": True}]),
    ),
    Case(
        rows.EXTERNAL_ADDRESS,
        "on a machine, of Google's choice",
        machine(networkInterfaces=[{"accessConfigs": [{}]}]),
    ),
    Case(
        rows.EXTERNAL_ADDRESS,
        "on a machine, IPv6",
        machine(networkInterfaces=[{"ipv6AccessConfigs": [{"networkTier": "PREMIUM"}]}]),
    ),
    Case(
        rows.EXTERNAL_ADDRESS,
        "in a template",
        machine(TEMPLATE, networkInterfaces=[{}, {"accessConfigs": [{"natIp": "a"}]}]),
    ),
    Case(rows.EXTERNAL_ADDRESS, "reserved, by default", planned(f"{COMPUTE}address:Address", {})),
    Case(
        rows.EXTERNAL_ADDRESS,
        "reserved, by name",
        planned(f"{COMPUTE}globalAddress:GlobalAddress", {"addressType": "external"}),
    ),
    Case(
        rows.EXTERNAL_ADDRESS,
        "of a load balancer",
        planned(
            f"{COMPUTE}forwardingRule:ForwardingRule", {"loadBalancingScheme": "EXTERNAL_MANAGED"}
        ),
    ),
    Case(rows.EXTERNAL_ADDRESS, "unknown", slice_(externalIps=UNKNOWN), advisory=True),
    Case(rows.OPEN_INGRESS, "all of IPv4", _ranges("0.0.0.0/0")),
    Case(rows.OPEN_INGRESS, "all of IPv4, in spaces", _ranges(" 0.0.0.0/0 ")),
    Case(rows.OPEN_INGRESS, "all of IPv4, by a mask", _ranges("0.0.0.0/0.0.0.0")),
    Case(rows.OPEN_INGRESS, "all of IPv4, from another address", _ranges("203.0.113.7/0")),
    Case(rows.OPEN_INGRESS, "all of IPv4, with a prefix in two digits", _ranges("0.0.0.0/00")),
    Case(rows.OPEN_INGRESS, "all of IPv4, by octets in three digits", _ranges("000.000.000.000/0")),
    Case(rows.OPEN_INGRESS, "all of IPv4, short", _ranges("0/0")),
    Case(rows.OPEN_INGRESS, "all of IPv4, in a word", _ranges("any")),
    Case(rows.OPEN_INGRESS, "half of IPv4", _ranges("128.0.0.0/1")),
    Case(rows.OPEN_INGRESS, "all of IPv4, in halves", _ranges(*_HALVES)),
    Case(rows.OPEN_INGRESS, "all of IPv4, in quarters", _ranges(*_QUARTERS)),
    Case(rows.OPEN_INGRESS, "all of IPv4 but what is internal", _ranges(*_BUT_OURS)),
    Case(rows.OPEN_INGRESS, "all of IPv6", _ranges("::/0")),
    Case(rows.OPEN_INGRESS, "all of IPv6, at length", _ranges("0:0:0:0:0:0:0:0/0")),
    Case(rows.OPEN_INGRESS, "all of IPv6, zero by zero", _ranges("0000::0000/0")),
    Case(rows.OPEN_INGRESS, "all of IPv6 that is assigned", _ranges("2000::/3")),
    Case(rows.OPEN_INGRESS, "all of IPv4, as IPv6", _ranges("::ffff:0:0/96")),
    Case(rows.OPEN_INGRESS, "beside a narrow one", _ranges("203.0.113.7/32", "0.0.0.0/0")),
    Case(rows.OPEN_INGRESS, "no source, which is every source", firewall(sourceRanges=None)),
    Case(rows.OPEN_INGRESS, "an empty list", firewall(sourceRanges=[])),
    Case(
        rows.OPEN_INGRESS,
        "no direction, which is in",
        firewall(direction=None, sourceRanges=["0.0.0.0/0"]),
    ),
    Case(
        rows.OPEN_INGRESS,
        "ranges beside a tag, of which either is enough",
        firewall(sourceTags=["web"], sourceRanges=["0.0.0.0/0"]),
    ),
    Case(rows.OPEN_INGRESS, "in a policy", policy_rule({"srcIpRanges": ["0.0.0.0/0"]})),
    Case(rows.OPEN_INGRESS, "in a policy, without a source", policy_rule({"layer4Configs": []})),
    Case(rows.OPEN_INGRESS, "unknown", firewall(sourceRanges=UNKNOWN), advisory=True),
    Case(rows.OPEN_INGRESS, "unknown in part", _ranges("10.0.0.0/8", UNKNOWN), advisory=True),
    Case(rows.FIREWALL_TARGETS, "absent", firewall(targetTags=None)),
    Case(rows.FIREWALL_TARGETS, "empty", firewall(targetTags=[])),
    Case(
        rows.FIREWALL_TARGETS,
        "absent, of a rule that denies",
        firewall(targetTags=None, allows=None, denies=[{"protocol": "all"}]),
    ),
    Case(
        rows.FIREWALL_TARGETS,
        "absent, in a policy",
        policy_rule({"srcIpRanges": ["10.0.0.0/8"]}, targetServiceAccounts=[]),
    ),
    Case(rows.OWN_ACCOUNT, "absent", slice_(serviceAccount=None)),
    Case(rows.OWN_ACCOUNT, "empty", slice_(serviceAccount="")),
    Case(rows.OWN_ACCOUNT, "in a word", slice_(serviceAccount="default")),
    Case(
        rows.OWN_ACCOUNT,
        "Compute Engine's",
        slice_(serviceAccount="1234-compute@developer.gserviceaccount.com"),
    ),
    Case(
        rows.OWN_ACCOUNT,
        "App Engine's, of a machine",
        machine(serviceAccount={"email": "P@appspot.gserviceaccount.com"}),
    ),
    *(
        Case(
            rows.OWN_ACCOUNT,
            f"Compute Engine's, of {type_}",
            machine(type_, serviceAccount={"email": "1234-compute@developer.gserviceaccount.com"}),
        )
        for type_ in sorted(MACHINES)
    ),
    Case(rows.OWN_ACCOUNT, "scopes alone, of a machine", machine(serviceAccount={"scopes": ["a"]})),
    Case(rows.BASIC_ROLES, "owner", grant("roles/owner")),
    Case(rows.BASIC_ROLES, "editor", grant("roles/editor")),
    Case(rows.BASIC_ROLES, "viewer, of several", grant("roles/viewer", type_=PROJECT_ROLE)),
    Case(rows.BASIC_ROLES, "in capitals", grant("roles/Editor ")),
    Case(
        rows.BASIC_ROLES,
        "in a binding of a folder",
        planned("gcp:folder/iAMBinding:IAMBinding", {"role": "roles/editor", "members": []}),
    ),
    Case(
        rows.BASIC_ROLES,
        "in a policy",
        planned(
            PROJECT_POLICY,
            {"policyData": json.dumps({"bindings": [{"role": "roles/owner", "members": []}]})},
        ),
    ),
    Case(rows.BASIC_ROLES, "unknown", grant(UNKNOWN), advisory=True),
    Case(
        rows.BASIC_ROLES,
        "unknown policy",
        planned(PROJECT_POLICY, {"policyData": UNKNOWN}),
        advisory=True,
    ),
    Case(
        rows.PUBLIC_GRANT,
        "of a bucket",
        grant("roles/a.b", "allUsers", "gcp:storage/bucketIAMMember:BucketIAMMember"),
    ),
    Case(
        rows.PUBLIC_GRANT,
        "of a secret, to all who have an account",
        grant(
            "roles/a.b",
            "allAuthenticatedUsers",
            "gcp:secretmanager/secretIamMember:SecretIamMember",
        ),
    ),
    Case(
        rows.PUBLIC_GRANT,
        "among the members of a binding",
        planned(
            "gcp:storage/bucketIAMBinding:BucketIAMBinding",
            {"role": "roles/a.b", "members": ["user:a@b.c", "allusers"]},
        ),
    ),
    Case(
        rows.PUBLIC_GRANT,
        "in a policy",
        planned(
            PROJECT_POLICY,
            {"policyData": '{"bindings": [{"role": "roles/a", "members": ["allUsers"]}]}'},
        ),
    ),
    Case(
        rows.ACCOUNT_KEY, "a key", planned("gcp:serviceaccount/key:Key", {"serviceAccountId": "a"})
    ),
    Case(rows.ACCOUNT_KEY, "an HMAC key", planned("gcp:storage/hmacKey:HmacKey", {})),
    Case(rows.PRIVATE_BUCKET, "absent", bucket(publicAccessPrevention=None)),
    Case(rows.PRIVATE_BUCKET, "inherited", bucket(publicAccessPrevention="inherited")),
    Case(
        rows.PRIVATE_BUCKET,
        "an ACL",
        planned(
            "gcp:storage/bucketAccessControl:BucketAccessControl",
            {"bucket": "b", "entity": "allUsers", "role": "READER"},
        ),
    ),
    Case(
        rows.PRIVATE_BUCKET,
        "an ACL of roles",
        planned(
            "gcp:storage/defaultObjectACL:DefaultObjectACL",
            {"bucket": "b", "roleEntities": ["READER:allAuthenticatedUsers"]},
        ),
    ),
    Case(
        rows.PRIVATE_BUCKET,
        "a predefined ACL",
        planned("gcp:storage/bucketACL:BucketACL", {"bucket": "b", "predefinedAcl": "publicRead"}),
    ),
    Case(rows.PRIVATE_BUCKET, "unknown", bucket(publicAccessPrevention=UNKNOWN), advisory=True),
    Case(rows.UNIFORM_BUCKET, "absent", bucket(uniformBucketLevelAccess=None)),
    Case(rows.UNIFORM_BUCKET, "off", bucket(uniformBucketLevelAccess=False)),
    Case(rows.UNIFORM_BUCKET, "off, in words", bucket(uniformBucketLevelAccess="false")),
    Case(rows.UNIFORM_BUCKET, "unknown", bucket(uniformBucketLevelAccess=UNKNOWN), advisory=True),
    Case(rows.BUCKET_REGION, "another region", bucket(location="us-east1"), beside=(slice_(),)),
    Case(rows.BUCKET_REGION, "a continent", bucket(location="US"), beside=(slice_(),)),
    Case(rows.BUCKET_REGION, "two regions", bucket(location="NAM4"), beside=(slice_(),)),
    Case(rows.BUCKET_REGION, "absent, which is US", bucket(location=None), beside=(slice_(),)),
    Case(
        rows.BUCKET_REGION, "unknown", bucket(location=UNKNOWN), beside=(slice_(),), advisory=True
    ),
    Case(
        rows.SECRET_REFERENCE,
        "a version with its value",
        planned("gcp:secretmanager/secretVersion:SecretVersion", {"secretData": MASKED}),
    ),
    Case(
        rows.SECRET_REFERENCE,
        "a Pulumi secret in metadata",
        slice_(metadata={**boot(), "token": MASKED}),
    ),
    *(
        Case(
            rows.SECRET_REFERENCE,
            f"a Pulumi secret in the metadata of {type_}",
            machine(type_, metadata={"token": MASKED}),
        )
        for type_ in sorted(MACHINES)
    ),
    Case(
        rows.SECRET_REFERENCE,
        "a token in metadata",
        slice_(metadata={**boot(), "env": "HF_TOKEN=hf_" + "a" * 34}),
    ),
    Case(
        rows.SECRET_REFERENCE,
        "a private key in a startup script",
        machine(metadataStartupScript="echo '-----BEGIN RSA PRIVATE KEY-----'"),
    ),
    Case(
        rows.SECRET_REFERENCE,
        "a key file in an object",
        planned("gcp:storage/bucketObject:BucketObject", {"content": '{"private_key": "abc"}'}),
    ),
    Case(rows.PINNED_IMAGE, "a tag", slice_(metadata=boot("vllm/vllm-tpu:latest"))),
    Case(rows.PINNED_IMAGE, "nothing", slice_(metadata=boot("vllm/vllm-tpu"))),
    Case(rows.PINNED_IMAGE, "half a digest", slice_(metadata=boot("vllm/vllm-tpu@sha256:1234"))),
    Case(
        rows.PINNED_IMAGE,
        "a tag in the settings, where the plan does not know yet",
        slice_(metadata={CONFIG_KEY: UNKNOWN}),
        facts=StackFacts(image="vllm/vllm-tpu:latest"),
    ),
    Case(rows.IMAGE_FLOOR, "an old one", slice_(metadata=boot(f"r@{OLD}"))),
    Case(rows.IMAGE_FLOOR, "hosts that let everything serve", slice_(metadata=boot(floor="0"))),
    Case(rows.IMAGE_FLOOR, "hosts that let old ones serve", slice_(metadata=boot(floor="0.23.0"))),
    Case(rows.OWNER_MARKER, "a slice without labels", slice_(labels=None)),
    Case(
        rows.OWNER_MARKER, "a bucket of ours with other labels", ours(bucket(labels={"team": "a"}))
    ),
    Case(
        rows.OWNER_MARKER, "a rule of ours without a description", ours(firewall(description=None))
    ),
    Case(
        rows.OWNER_MARKER,
        "a rule of ours that only quotes a marker",
        ours(firewall(description=f"like {NAMES.description()}")),
    ),
    Case(
        rows.OWNER_MARKER,
        "an alert policy of ours without labels of its own",
        ours(alert_policy({"team": "a"})),
    ),
    Case(
        rows.OWNER_MARKER,
        "a dashboard of ours whose JSON has no labels",
        ours(dashboard(json.dumps({"displayName": "d"}))),
    ),
    Case(rows.OWNER_MARKER, "a bucket of the user's own", bucket(labels=None), advisory=True),
    Case(
        rows.OWNER_MARKER,
        "unknown, of the user's own",
        firewall(description=UNKNOWN),
        advisory=True,
    ),
    Case(rows.RUN_BUDGET, "a cent too much", facts=_budget(per_run_usd=Decimal("21.59"))),
    Case(rows.RUN_BUDGET, "no price", facts=StackFacts(per_run_usd=Decimal(100))),
    Case(rows.PROJECT_BUDGET, "alone", facts=_budget(per_project_usd=Decimal(20))),
    Case(rows.PROJECT_BUDGET, "no price", facts=StackFacts(per_project_usd=Decimal(100))),
    Case(
        rows.PROJECT_BUDGET,
        "with another run",
        facts=_budget(per_project_usd=Decimal(50), other_runs=OtherRuns(Decimal(30), 1)),
    ),
    Case(
        rows.PROJECT_BUDGET,
        "with other runs, one of which could not be read",
        facts=_budget(
            per_project_usd=Decimal(50),
            other_runs=OtherRuns(Decimal(10), 2, ("a in us-east5-a has no known price or length",)),
        ),
        advisory=True,
    ),
)

KEEPS: tuple[Case, ...] = (
    Case(rows.RUN_DURATION, "7 days", slice_(maxRunDuration="604800s")),
    Case(
        rows.RUN_DURATION,
        "an end in a day",
        slice_(maxRunDuration=None, terminationTime="2026-11-23T12:00:00Z"),
    ),
    Case(rows.EXTERNAL_ADDRESS, "a machine inside", machine(networkInterfaces=[{"network": "n"}])),
    Case(
        rows.EXTERNAL_ADDRESS,
        "an internal address",
        planned(f"{COMPUTE}address:Address", {"addressType": "INTERNAL"}),
    ),
    Case(rows.OPEN_INGRESS, "clients", _ranges("203.0.113.0/24", "198.51.100.7/32")),
    Case(
        rows.OPEN_INGRESS,
        "all that is internal",
        _ranges("10.0.0.0/8", "172.16.0.0/12", "fc00::/7"),
    ),
    Case(rows.OPEN_INGRESS, "a tag", firewall(sourceRanges=None, sourceTags=["web"])),
    Case(
        rows.OPEN_INGRESS, "a rule that is off", firewall(sourceRanges=["0.0.0.0/0"], disabled=True)
    ),
    Case(
        rows.OPEN_INGRESS,
        "a rule that denies",
        firewall(sourceRanges=["0.0.0.0/0"], allows=None, denies=[{"protocol": "all"}]),
    ),
    Case(
        rows.OPEN_INGRESS,
        "a way out",
        firewall(direction="EGRESS", sourceRanges=None, destinationRanges=["0.0.0.0/0"]),
    ),
    Case(
        rows.OPEN_INGRESS,
        "a policy that denies",
        policy_rule({"srcIpRanges": ["0.0.0.0/0"]}, action="deny"),
    ),
    Case(
        rows.FIREWALL_TARGETS, "an account", firewall(targetTags=None, targetServiceAccounts=["a"])
    ),
    Case(rows.OWN_ACCOUNT, "none, of a machine", machine()),
    Case(rows.OWN_ACCOUNT, "that of the same program", slice_(serviceAccount=UNKNOWN)),
    Case(rows.BASIC_ROLES, "a narrow role", grant("roles/logging.logWriter")),
    Case(rows.BASIC_ROLES, "a custom role of that name", grant("projects/p/roles/editor")),
    Case(
        rows.BASIC_ROLES,
        "one that is taken away",
        planned("gcp:projects/iamMemberRemove:IamMemberRemove", {"role": "roles/editor"}),
    ),
    Case(
        rows.PUBLIC_GRANT,
        "to a group of that name",
        grant(
            "roles/a.b", "group:allusers@example.com", "gcp:storage/bucketIAMMember:BucketIAMMember"
        ),
    ),
    Case(
        rows.ACCOUNT_KEY,
        "an account without one",
        planned("gcp:serviceaccount/account:Account", {"accountId": "a"}),
    ),
    Case(rows.PRIVATE_BUCKET, "enforced", bucket(publicAccessPrevention="enforced")),
    Case(
        rows.PRIVATE_BUCKET,
        "an ACL for one person",
        planned(
            "gcp:storage/bucketAccessControl:BucketAccessControl",
            {"bucket": "b", "entity": "user-a@example.com", "role": "READER"},
        ),
    ),
    Case(rows.UNIFORM_BUCKET, "on, in words", bucket(uniformBucketLevelAccess="true")),
    Case(rows.BUCKET_REGION, "the slice's region", bucket(), beside=(slice_(),)),
    Case(rows.BUCKET_REGION, "anywhere, without a slice", bucket(location="US")),
    Case(
        rows.SECRET_REFERENCE,
        "a version whose value is written only",
        planned("gcp:secretmanager/secretVersion:SecretVersion", {"secretDataWo": MASKED}),
    ),
    Case(
        rows.PINNED_IMAGE,
        "unknown yet, and pinned in the settings",
        slice_(metadata={CONFIG_KEY: UNKNOWN}),
    ),
    Case(
        rows.IMAGE_FLOOR,
        "one that the catalog does not know",
        slice_(metadata=boot("r@sha256:" + "7" * 64)),
    ),
    Case(
        rows.OWNER_MARKER,
        "unknown yet, in a component of ours",
        ours(firewall(description=UNKNOWN)),
    ),
    Case(
        rows.OWNER_MARKER,
        "an alert policy of which the state's id is not known yet",
        ours(alert_policy({**NAMES.labels(), "tpuflex-state": UNKNOWN})),
    ),
    Case(
        rows.OWNER_MARKER,
        "a dashboard whose JSON has the id of the state, which is not known yet",
        ours(dashboard(UNKNOWN)),
    ),
    Case(
        rows.OWNER_MARKER,
        "a dashboard with its labels",
        ours(dashboard(json.dumps({"labels": NAMES.labels()}))),
    ),
    Case(rows.RUN_BUDGET, "as much as it may", facts=_budget(per_run_usd=Decimal("21.60"))),
    Case(
        rows.PROJECT_BUDGET,
        "as much as they may",
        facts=_budget(per_project_usd=Decimal("31.60"), other_runs=OtherRuns(Decimal(10), 2)),
    ),
)
