"""HTTP calls on instances."""

from __future__ import annotations

from embedded_cloud.clock import rfc3339_offset
from embedded_cloud.cloudkms import KeyUse, disk_refusal
from embedded_cloud.compute.errors import invalid, not_found, violated
from embedded_cloud.compute.handlers import ResourceHandlers
from embedded_cloud.compute.instances import first, instance_kind
from embedded_cloud.compute.locations import region_of
from embedded_cloud.compute.machines import Machines, Status
from embedded_cloud.compute.operations import Failure, Operations
from embedded_cloud.compute.paths import Scope
from embedded_cloud.compute.state import Resources
from embedded_cloud.compute.wire import Wire
from embedded_cloud.errors import CloudError, unimplemented
from embedded_cloud.hosts.guest_rules import POLICY, forbidden
from embedded_cloud.iam.state import exists
from embedded_cloud.json_types import JsonObject, JsonValue, child, flag, text
from embedded_cloud.routing import Call, Context, Reply


class InstanceHandlers(ResourceHandlers):
    """Handlers of instances, which live in zones and over time."""

    def __init__(
        self,
        context: Context,
        resources: Resources,
        operations: Operations,
        wire: Wire,
        machines: Machines,
    ) -> None:
        kind = instance_kind(context.project_number)
        super().__init__(kind, resources, operations, wire, context.clock)
        self._context = context
        self._machines = machines
        self._keys = KeyUse(context)

    def insert(self, call: Call) -> Reply:
        """instances.insert."""
        scope = self._scope(call)
        request_id = call.query.get("requestId", "")
        if repeated := self._operations.repeated(scope, request_id):
            return Reply(body=self._wire.operation(repeated))
        for name in ("sourceInstanceTemplate", "sourceMachineImage"):
            if call.query.get(name):
                raise unimplemented(f"instances made from {name}")
        _, stored = self._made(call, scope)
        self._check_key(scope, stored)
        failure = self._unknown_account(stored)
        if failure is None:
            self._machines.add(stored)
        operation = self._operations.done(scope, "insert", stored, request_id, failure)
        return Reply(body=self._wire.operation(operation))

    def aggregated(self, call: Call) -> Reply:
        """instances.aggregatedList."""
        self._machines.sync()
        return super().aggregated(call)

    def delete(self, call: Call) -> Reply:
        """instances.delete; also of one that is being deleted already."""
        scope = self._scope(call)
        request_id = call.query.get("requestId", "")
        if repeated := self._operations.repeated(scope, request_id):
            return Reply(body=self._wire.operation(repeated))
        target, stored = self._require(call)
        if flag(stored, "deletionProtection"):
            # hashicorp/terraform-provider-google#1211 on GitHub
            raise CloudError(
                400,
                "INVALID_ARGUMENT",
                "Invalid resource usage: 'Resource cannot be deleted if it's protected against"
                " deletion.'.",
                legacy_reason="invalidResourceUsage",
            )
        self._machines.delete(target.path)
        operation = self._operations.done(scope, "delete", stored, request_id)
        return Reply(body=self._wire.operation(operation))

    def set_deletion_protection(self, call: Call) -> Reply:
        """instances.setDeletionProtection; protected unless the query says otherwise."""
        target, before = self._require(call)
        protected = call.query.get("deletionProtection", "true").lower() == "true"
        stored: JsonObject = {**before, "deletionProtection": protected}
        request_id = call.query.get("requestId", "")
        return self._store(target, stored, "setDeletionProtection", request_id)

    def guest_attributes(self, call: Call) -> Reply:
        """instances.getGuestAttributes: all below a path, or one key; 404 where there is none
        (https://cloud.google.com/compute/docs/metadata/manage-guest-attributes)."""
        target, _ = self._require(call)
        if forbidden(self._context.strictness()):
            raise violated(POLICY, f"project {self._context.project_number(target.scope.project)}")
        path, key = call.query.get("queryPath", ""), call.query.get("variableKey", "")
        if path and key:
            raise invalid("variableKey", key, "It does not go with queryPath.")
        found = self._machines.guest.query(target.path, 0, key or path)
        if not found:
            raise CloudError(
                404,
                "NOT_FOUND",
                f"The resource '{key or path}' of type 'Guest Attribute' was not found.",
            )
        shown: JsonObject = {
            "kind": "compute#guestAttributes",
            "selfLink": f"{self._wire.base}/{target.path}/guestAttributes/{key or path}",
        }
        if key:
            return Reply(body={**shown, "variableKey": key, "variableValue": found[0][2]})
        items: list[JsonValue] = [
            {"namespace": namespace, "key": name, "value": value}
            for namespace, name, value in found
        ]
        return Reply(body={**shown, "queryPath": path, "queryValue": {"items": items}})

    def _check_key(self, scope: Scope, stored: JsonObject) -> None:
        """Raises CloudError 400 where the key of the boot disk cannot be used."""
        disk = child(first(stored, "disks"), "diskEncryptionKey")
        key = text(disk, "kmsKeyName").partition("/cryptoKeyVersions/")[0]
        number = self._context.project_number(scope.project)
        if key and (why := disk_refusal(self._keys, key, region_of(scope.zone) or "", number)):
            raise CloudError(400, "INVALID_ARGUMENT", why, legacy_reason="invalid")

    def _answered(self, stored: JsonObject) -> JsonObject:
        path = text(stored, "selfLink")
        machine, now = self._machines.get(path), self._clock.now()
        if machine is None:
            raise not_found(path)
        shown: JsonObject = {**stored, "status": machine.status(now).value}
        if now >= machine.started:
            shown["lastStartTimestamp"] = rfc3339_offset(machine.started)
            shown["cpuPlatform"] = "Intel Broadwell"
        if machine.ends is not None and now >= machine.started:
            ends = rfc3339_offset(machine.ends)
            shown["resourceStatus"] = {"scheduling": {"terminationTimestamp": ends}}
        if machine.status(now) is Status.TERMINATED and machine.ends is not None:
            shown["lastStopTimestamp"] = rfc3339_offset(machine.ends + machine.takes_s)
        return super()._answered(shown)

    def _scope(self, call: Call) -> Scope:
        self._machines.sync()
        return super()._scope(call)

    def _unknown_account(self, stored: JsonObject) -> Failure | None:
        """The operation fails for a service account that is not known, or not yet; the words are
        those of GoogleCloudPlatform/terraform-google-managed-instance-group#40 on
        GitHub."""
        email = text(first(stored, "serviceAccounts"), "email")
        known_after_s = self._context.strictness().service_accounts.known_after_s
        if not email or exists(
            self._context.store, email, made_by=self._clock.now() - known_after_s
        ):
            return None
        return Failure(
            "RESOURCE_NOT_FOUND",
            f"The resource '{email}' of type 'serviceAccount' was not found.",
            (404, "NOT FOUND"),
        )
