"""HTTP calls on buckets turned into calls on the state, and answers into JSON."""

from __future__ import annotations

from embedded_cloud.core.errors import CloudError, precondition_failed, unimplemented
from embedded_cloud.core.json_types import JsonObject, JsonValue, children, text, texts
from embedded_cloud.core.paging import Paging
from embedded_cloud.core.projects import project_number
from embedded_cloud.core.routing import Call, Reply
from embedded_cloud.services.cloudkms import storage_agent
from embedded_cloud.services.iam.policies import PUBLIC_MEMBERS
from embedded_cloud.services.storage.buckets import REFUSED, Bucket
from embedded_cloud.services.storage.errors import (
    NotModified,
    Preconditions,
    condition_not_met,
    invalid,
    required,
)
from embedded_cloud.services.storage.state import StorageState, initial_bindings, policy_resource
from embedded_cloud.services.storage.wire import bucket_resource

PAGING = Paging(
    default=1000,
    maximum=1000,
    parameter="maxResults",
    minimum=1,
    bad_size=lambda size: invalid(f"Invalid value for maxResults: {size}"),
    bad_token=lambda: invalid("Invalid value for pageToken"),
)


class BucketHandlers:
    """Handlers of ``buckets`` and of a few methods that clients call before they use one."""

    def __init__(self, state: StorageState) -> None:
        self._state = state

    def insert(self, call: Call) -> Reply:
        """POST /b."""
        project = call.query.get("project")
        if not project:
            raise required("project")
        body = call.body or {}
        refuse_unsupported(call, body)
        self._state.keys.check_settings(project, text(body, "location", "US"), body)
        bucket = self._state.buckets.create(project, body, self._state.objects.next_generation())
        return self._reply(bucket)

    def get(self, call: Call) -> Reply:
        """GET /b/{bucket}."""
        refuse_soft_deleted(call)
        try:
            bucket = self._bucket(call, read=True)
        except NotModified:
            return Reply(304)
        return self._reply(bucket)

    def list(self, call: Call) -> Reply:
        """GET /b."""
        project = call.query.get("project")
        if not project:
            raise required("project")
        refuse_soft_deleted(call)
        buckets = self._state.buckets.all(project, call.query.get("prefix", ""))
        return PAGING.reply(
            call,
            "items",
            buckets,
            lambda bucket: bucket.name,
            self._resource,
            head={"kind": "storage#buckets"},
        )

    def patch(self, call: Call) -> Reply:
        """PATCH /b/{bucket}."""
        body = call.body or {}
        refuse_unsupported(call, body)
        return self._reply(self._state.buckets.patch(self._changing(call, body), body))

    def update(self, call: Call) -> Reply:
        """PUT /b/{bucket}."""
        body = call.body or {}
        refuse_unsupported(call, body)
        return self._reply(self._state.buckets.update(self._changing(call, body), body))

    def _changing(self, call: Call, body: JsonObject) -> Bucket:
        """The bucket to be changed as ``body`` says."""
        bucket = self._bucket(call)
        self._state.keys.check_settings(bucket.project, bucket.location, body)
        return bucket

    def lock_retention_policy(self, call: Call) -> Reply:
        """POST /b/{bucket}/lockRetentionPolicy, which only one who knows the bucket as it is may
        do: there is no way back."""
        if "ifMetagenerationMatch" not in call.query:
            raise required("ifMetagenerationMatch")
        return self._reply(self._state.buckets.lock_retention(self._bucket(call)))

    def delete(self, call: Call) -> Reply:
        """DELETE /b/{bucket}, refused while it has objects, noncurrent generations included."""
        bucket = self._bucket(call)
        empty = not self._state.objects.all(bucket.name, versions=True)
        self._state.buckets.delete(bucket, empty=empty)
        self._state.policies.forget(policy_resource(bucket.name))
        return Reply(204)

    def get_policy(self, call: Call) -> Reply:
        """GET /b/{bucket}/iam."""
        return Reply(body=self._policy(self._state.buckets.require(call.params["bucket"])))

    def set_policy(self, call: Call) -> Reply:
        """PUT /b/{bucket}/iam."""
        bucket = self._state.buckets.require(call.params["bucket"])
        policy = dict(call.body or {})
        if bucket.public_access_prevented and _has_public_member(policy):
            raise precondition_failed(
                "The member bindings allUsers and allAuthenticatedUsers are not allowed since "
                "public access prevention is enforced."
            )
        resource = policy_resource(bucket.name)
        try:
            self._state.policies.set(resource, policy)
        except CloudError as error:
            if error.reason == "ABORTED":
                raise condition_not_met() from error
            raise
        return Reply(body=self._policy(bucket))

    def test_permissions(self, call: Call) -> Reply:
        """GET /b/{bucket}/iam/testPermissions."""
        bucket = self._state.buckets.require(call.params["bucket"])
        asked = call.request.query.getall("permissions", [])
        held: list[JsonValue] = [
            *self._state.rights.held(call, policy_resource(bucket.name), asked)
        ]
        return Reply(body={"kind": "storage#testIamPermissionsResponse", "permissions": held})

    def storage_layout(self, call: Call) -> Reply:
        """GET /b/{bucket}/storageLayout."""
        resource = self._resource(self._state.buckets.require(call.params["bucket"]))
        return Reply(
            body={
                "kind": "storage#storageLayout",
                "bucket": resource["name"],
                "location": resource["location"],
                "locationType": resource["locationType"],
                "hierarchicalNamespace": {"enabled": False},
            }
        )

    def managed_folders(self, call: Call) -> Reply:
        """GET /b/{bucket}/managedFolders: there are none, because none can be made here."""
        self._state.buckets.require(call.params["bucket"])
        return Reply(body={"kind": "storage#managedFolders"})

    def service_account(self, call: Call) -> Reply:
        """GET /projects/{projectId}/serviceAccount: the project's storage service agent."""
        number = project_number(call.id)
        return Reply(
            body={
                "kind": "storage#serviceAccount",
                "email_address": storage_agent(number),
            }
        )

    def _bucket(self, call: Call, *, read: bool = False) -> Bucket:
        conditions = Preconditions.from_query(call.query)
        return self._state.buckets.require(call.params["bucket"], conditions, read=read)

    def _policy(self, bucket: Bucket) -> JsonObject:
        resource = policy_resource(bucket.name)
        policy = self._state.policies.get(resource, initial_bindings(bucket.project))
        return {"kind": "storage#policy", "resourceId": resource, **policy}

    def _resource(self, bucket: Bucket) -> JsonObject:
        return bucket_resource(
            bucket,
            base_url=self._state.base_url(),
            project_number=project_number(bucket.project),
        )

    def _reply(self, bucket: Bucket) -> Reply:
        return Reply(body=self._resource(bucket))


def refuse_unsupported(call: Call, body: JsonObject) -> None:
    """Raises CloudError 501 for settings that the emulator would have to ignore."""
    for name in REFUSED:
        if body.get(name) not in (None, [], {}, False, {"enabled": False}):
            raise unimplemented(f"{name} in {call.method_id}")
    for name in ("predefinedAcl", "predefinedDefaultObjectAcl", "enableObjectRetention"):
        if call.query.get(name, "").lower() not in ("", "false"):
            raise unimplemented(f"{name} in {call.method_id}")


def refuse_soft_deleted(call: Call) -> None:
    """Raises CloudError 501: deleted resources cannot be read here."""
    if call.query.get("softDeleted", "false").lower() == "true":
        raise unimplemented(f"softDeleted in {call.method_id}")


def _has_public_member(policy: JsonObject) -> bool:
    return any(
        PUBLIC_MEMBERS.intersection(texts(binding, "members"))
        for binding in children(policy, "bindings")
    )
