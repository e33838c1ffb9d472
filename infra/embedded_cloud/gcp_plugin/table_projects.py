"""Secret Manager, IAM and project types. Properties as in pulumi-gcp 10.2.0.

Replacements and defaults: terraform-provider-google,
google/services/secretmanager/resource_secret_manager_secret.go and
google/services/resourcemanager/resource_google_{service_account,project_service}.go;
``disableOnDestroy`` is off by default since pulumi-gcp 10 (documented on its class).
"""

from __future__ import annotations

from dataclasses import dataclass

from embedded_cloud.core.json_types import JsonObject, children, text
from embedded_cloud.gcp_plugin.call import (
    CloudCall,
    failing_with,
    serviceusage_operation,
    unless_gone,
)
from embedded_cloud.gcp_plugin.collection import Collection, Step
from embedded_cloud.gcp_plugin.fields import DELETION_POLICY, PROJECT, Group, Groups, Property, Use
from embedded_cloud.gcp_plugin.policies import (
    GET_IAM_POLICY,
    POLICY_VERSION,
    SET_IAM_POLICY,
    IamMember,
    PolicyCall,
    iam_member,
)
from embedded_cloud.gcp_plugin.resource_type import Identity, Made, ManagedMap, ResourceType
from embedded_cloud.gcp_plugin.states import NO_DEFAULTS, identified, known_after, located, state_of
from embedded_cloud.gcp_plugin.types import Flag, Segment, TextMap
from pulumi_plugin.values import Properties, Value
from tpuflex.errors import ConflictError


@dataclass(frozen=True, slots=True)
class EnabledServices:
    """The enabled APIs of projects: enabled by a method, read from a list, disabled if asked."""

    def create(self, row: ResourceType, inputs: Properties, call: CloudCall) -> Made:
        """Enable the API unless it is enabled."""
        values = located(row, inputs, call.settings)
        made = identified(row, values, call.settings)
        parts = row.identity.parse(made.id, NO_DEFAULTS)
        with failing_with(f"Error when reading or editing {row.title} {made.id!r}"):
            if parts["service"] not in _enabled(parts["project"], call):
                path = "/v1/projects/{project}/services/{service}:enable".format_map(parts)
                answer = call.request("POST", path, body={})
                serviceusage_operation(call, answer, f"Creating {row.title}")
        return Made(made.id, state_of(row, made.id, made.state, {}))

    def read(self, row: ResourceType, made: Made, call: CloudCall) -> Made | None:
        """The state, or ``None`` when the API is not enabled."""
        parts = row.identity.parse(made.id, NO_DEFAULTS)
        enabled = unless_gone(
            f"Error when reading or editing {row.title} {made.id!r}",
            lambda: _enabled(parts["project"], call),
        )
        if enabled is None or parts["service"] not in enabled:
            return None
        return Made(made.id, state_of(row, made.id, made.state, {}))

    def update(
        self, row: ResourceType, made: Made, inputs: Properties, call: CloudCall
    ) -> Properties:
        """What can change is never sent to the API."""
        known = known_after(row, made.state, inputs, call.settings)
        return state_of(row, made.id, known, {})

    def delete(self, row: ResourceType, made: Made, call: CloudCall) -> None:
        """Disable the API if the program asked for that, else leave it enabled."""
        if made.state.get("disableOnDestroy") is not True:
            return
        parts = row.identity.parse(made.id, NO_DEFAULTS)
        body: JsonObject = {
            "disableDependentServices": made.state.get("disableDependentServices") is True
        }
        path = "/v1/projects/{project}/services/{service}:disable".format_map(parts)

        def disable() -> None:
            answer = call.request("POST", path, body=body)
            serviceusage_operation(call, answer, f"Deleting {row.title}")

        unless_gone(f"Error deleting {row.title} {made.id!r}", disable)


def _enabled(project: str, call: CloudCall) -> set[str]:
    names: set[str] = set()
    token = ""
    while True:
        query = {"filter": "state:ENABLED", "pageSize": "200"}
        if token:
            query["pageToken"] = token
        page = call.request("GET", f"/v1/projects/{project}/services", query=query)
        names |= {text(one, "name").rsplit("/", 1)[-1] for one in children(page, "services")}
        token = text(page, "nextPageToken")
        if not token:
            return names


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
    unserved=("secretType", "tags", "versionAliases", "versionDestroyTtl"),
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
