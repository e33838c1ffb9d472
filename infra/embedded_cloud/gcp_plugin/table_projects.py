"""Secret Manager, IAM and project types. Properties as in pulumi-gcp 10.2.0.

Replacements and defaults: terraform-provider-google,
google/services/secretmanager/resource_secret_manager_secret.go and
google/services/resourcemanager/resource_google_{service_account,project_service}.go;
``disableOnDestroy`` is off by default since pulumi-gcp 10 (documented on its class).
"""

from __future__ import annotations

from embedded_cloud.gcp_plugin.call import CloudCall
from embedded_cloud.gcp_plugin.collection import Collection, Step
from embedded_cloud.gcp_plugin.enabled_service import EnabledServices
from embedded_cloud.gcp_plugin.fields import Group, Groups, Property, Use
from embedded_cloud.gcp_plugin.iam_member import IamMember, iam_member
from embedded_cloud.gcp_plugin.policies import (
    GET_IAM_POLICY,
    POLICY_VERSION,
    SET_IAM_POLICY,
    PolicyCall,
)
from embedded_cloud.gcp_plugin.properties import (
    DELETION_POLICY,
    PROJECT,
)
from embedded_cloud.gcp_plugin.resource_type import Identity, Made, ManagedMap, ResourceType
from embedded_cloud.gcp_plugin.types import Flag, Segment, TextMap
from pulumi_plugin.values import Value
from tpuflex.errors import ConflictError

_KEY = Group((Property("kmsKeyName", use=Use.REQUIRED),))


def _unprotected(made: Made, _work: CloudCall) -> None:
    """Refuse to delete a secret that the program protects.

    Raises:
        ConflictError: ``deletionProtection`` is set.
    """
    if made.state.get("deletionProtection") is True:
        raise ConflictError(
            "cannot destroy secret manager secret without setting deletion_protection=false "
            "and running `pulumi up`",
            hint="set deletionProtection to false on the secret first",
        )


def _moves(old: Value, new: Value) -> bool:
    """Whether a replication changes in more than its keys, which alone the API changes in place:
    none of the other fields of ``customer_managed_encryption`` has ForceNew in
    google/services/secretmanager/resource_secret_manager_secret.go."""
    return _without_keys(old) != _without_keys(new)


def _without_keys(value: Value) -> Value:
    if isinstance(value, dict):
        kept = {name: each for name, each in value.items() if name != "customerManagedEncryption"}
        return {name: _without_keys(each) for name, each in kept.items()}
    return [_without_keys(each) for each in value] if isinstance(value, list) else value


SECRET = ResourceType(
    token="gcp:secretmanager/secret:Secret",  # noqa: S106 - a type token
    title="Secret",
    properties=(
        Property("secretId", use=Use.CHOSEN, immutable=True, wire=""),
        PROJECT,
        DELETION_POLICY,
        Property("deletionProtection", Flag(), default=False, wire=""),
        Property(
            "replication",
            Group(
                (
                    Property(
                        "auto",
                        Group((Property("customerManagedEncryption", _KEY),)),
                        wire="automatic",
                    ),
                    Property(
                        "userManaged",
                        Group(
                            (
                                Property(
                                    "replicas",
                                    Groups(
                                        (
                                            Property("location", use=Use.REQUIRED),
                                            Property("customerManagedEncryption", _KEY),
                                        )
                                    ),
                                    Use.REQUIRED,
                                ),
                            )
                        ),
                    ),
                )
            ),
            Use.REQUIRED,
        ),
        Property("labels", TextMap()),
        Property("annotations", TextMap()),
        Property("expireTime", use=Use.CHOSEN),
        Property("ttl", immutable=True, answered=False),
        Property("rotation", Group((Property("nextRotationTime"), Property("rotationPeriod")))),
        Property("topics", Groups((Property("name", use=Use.REQUIRED),), ordered=True)),
        Property("versionAliases", TextMap()),
        Property("versionDestroyTtl"),
        Property("createTime", use=Use.OUTPUT),
        Property("name", use=Use.OUTPUT),
        Property("effectiveAnnotations", TextMap(), use=Use.OUTPUT, wire=""),
        Property("effectiveLabels", TextMap(), use=Use.OUTPUT, wire=""),
        Property("pulumiLabels", TextMap(), use=Use.OUTPUT, wire=""),
    ),
    identity=Identity(
        "projects/{project}/secrets/{secretId}", ("{project}/{secretId}", "{secretId}")
    ),
    behaviour=Collection(
        path="/v1/projects/{project}/secrets",
        item="/v1/projects/{project}/secrets/{secretId}",
        query={"secretId": "{secretId}"},
        steps=(Step(mask="query"),),
        guard=_unprotected,
    ),
    autonamed="secretId",
    maps=(
        ManagedMap("labels", "effectiveLabels", "pulumiLabels"),
        ManagedMap("annotations", "effectiveAnnotations"),
    ),
    unserved=("secretType", "tags"),
    replaces_when={"replication": _moves},
)

SECRET_IAM_MEMBER = iam_member(
    "gcp:secretmanager/secretIamMember:SecretIamMember",
    Property("secretId", Segment(), Use.REQUIRED, immutable=True),
    IamMember(
        target="secretId",
        prefix="projects/{project}/secrets/",
        reading=GET_IAM_POLICY,
        writing=SET_IAM_POLICY,
    ),
    PROJECT,
)

ACCOUNT = ResourceType(
    token="gcp:serviceaccount/account:Account",  # noqa: S106
    title="service account",
    properties=(
        Property("accountId", Segment(separator="@", index=0), Use.CHOSEN, True, wire=""),
        PROJECT,
        DELETION_POLICY,
        Property("createIgnoreAlreadyExists", Flag(), wire=""),
        Property("displayName"),
        Property("description"),
        Property("disabled", Flag(), default=False),
        Property("email", use=Use.OUTPUT),
        Property("member", use=Use.OUTPUT, wire=""),
        Property("name", use=Use.OUTPUT),
        Property("uniqueId", use=Use.OUTPUT),
    ),
    identity=Identity(
        "projects/{project}/serviceAccounts/{email}", ("{project}/{email}", "{email}")
    ),
    behaviour=Collection(
        path="/v1/projects/{project}/serviceAccounts",
        item="/v1/projects/{project}/serviceAccounts/{email}",
        envelope="serviceAccount",
        beside={"accountId": "{accountId}"},
        steps=(
            Step(("disabled",), "POST", switch=(":enable", ":disable")),
            Step(mask="body", lock="etag"),
        ),
        adopts="createIgnoreAlreadyExists",
        appears_late=True,
    ),
    autonamed="accountId",
    predicted={"email": "{accountId}@{project}.iam.gserviceaccount.com"},
    derived={"member": "serviceAccount:{email}", "accountId": "{email}"},
)

PROJECT_IAM_MEMBER = iam_member(
    "gcp:projects/iAMMember:IAMMember",
    Property("project", Segment(), Use.REQUIRED, immutable=True),
    IamMember(
        target="project",
        prefix="",
        reading=PolicyCall(
            "POST",
            "/v1/projects/{resource}:getIamPolicy",
            body={"options": {"requestedPolicyVersion": POLICY_VERSION}},
        ),
        writing=PolicyCall("POST", "/v1/projects/{resource}:setIamPolicy", envelope="policy"),
    ),
)

SERVICE = ResourceType(
    token="gcp:projects/service:Service",  # noqa: S106
    title="Project Service",
    properties=(
        Property("service", use=Use.REQUIRED, immutable=True, wire=""),
        Property("project", Segment(), use=Use.CHOSEN, immutable=True, wire=""),
        DELETION_POLICY,
        Property("disableDependentServices", Flag(), wire=""),
        Property("disableOnDestroy", Flag(), wire=""),
    ),
    identity=Identity("{project}/{service}"),
    behaviour=EnabledServices(),
    unserved=("checkIfServiceHasUsageOnDestroy",),
)

TYPES = (SECRET, SECRET_IAM_MEMBER, ACCOUNT, PROJECT_IAM_MEMBER, SERVICE)
