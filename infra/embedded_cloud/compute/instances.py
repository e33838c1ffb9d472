"""Rules of virtual machine instances, and which of them are emulated.

An instance has one boot disk of its own, one network interface, and at most one service account.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from embedded_cloud.compute.errors import invalid, required, violated
from embedded_cloud.compute.instance_parts import (
    boot_disk,
    check_labels,
    metadata,
    network_interface,
    refuse_others,
    service_accounts,
    tags,
)
from embedded_cloud.compute.machine_types import MACHINE_TYPES
from embedded_cloud.compute.state import ResourceKind, Target, fingerprint
from embedded_cloud.errors import precondition_failed, unimplemented
from embedded_cloud.json_types import (
    JsonObject,
    JsonValue,
    as_object,
    child,
    children,
    flag,
    number,
    text,
)

_FIELDS = frozenset(
    {
        *("deletionProtection", "description", "disks", "labels", "machineType", "metadata"),
        *("name", "networkInterfaces", "scheduling", "serviceAccounts", "shieldedInstanceConfig"),
        "tags",
    }
)
_SCHEDULING = frozenset(
    {
        *("automaticRestart", "instanceTerminationAction", "maxRunDuration", "onHostMaintenance"),
        "provisioningModel",
    }
)
#: https://cloud.google.com/compute/docs/instances/limit-vm-runtime#restrictions
_SHORTEST_S, _LONGEST_S = 30, 120 * 86_400
_SHIELDS = ("enableSecureBoot", "enableVtpm", "enableIntegrityMonitoring")
_SHIELD_NAMES = ("Secure Boot", "vTPM", "Integrity Monitoring")
_EXTERNAL_ADDRESSES = "compute.vmExternalIpAccess"


def instance_kind(number_of: Callable[[str], str]) -> ResourceKind:
    """The kind of resource; ``number_of`` gives the number of a project."""

    def complete(target: Target, asked: JsonObject, _before: JsonObject | None) -> JsonObject:
        return complete_instance(target, asked, number_of(target.scope.project))

    return ResourceKind("instances", "instance", False, complete, _users)


def complete_instance(target: Target, asked: JsonObject, project_number: str) -> JsonObject:
    """An instance as Compute fills it in.

    Raises:
        CloudError: 400, 404 or 412 as Google refuses it; 501 for what is not emulated.
    """
    refuse_others(asked, _FIELDS, "resource")
    check_labels(asked)
    default = f"{project_number}-compute@developer.gserviceaccount.com"
    shields = child(asked, "shieldedInstanceConfig")
    resource: JsonObject = {
        "name": target.name,
        "description": text(asked, "description"),
        "zone": target.scope.path,
        "machineType": _machine_type(target, asked),
        "disks": boot_disk(target, asked),
        "networkInterfaces": network_interface(target, asked),
        "metadata": metadata(asked),
        "tags": tags(asked),
        "scheduling": _scheduling(child(asked, "scheduling")),
        "shieldedInstanceConfig": {
            name: flag(shields, name, name != _SHIELDS[0]) for name in _SHIELDS
        },
        "shieldedInstanceIntegrityPolicy": {"updateAutoLearnPolicy": True},
        "deletionProtection": flag(asked, "deletionProtection"),
        "canIpForward": False,
        "startRestricted": False,
    }
    if accounts := service_accounts(asked, default):
        resource["serviceAccounts"] = accounts
    if labels := child(asked, "labels"):
        resource["labels"] = labels
    resource["labelFingerprint"] = fingerprint(child(asked, "labels"))
    _check_policies(target, resource, project_number)
    resource["fingerprint"] = fingerprint(resource)
    return resource


def run_limit(resource: JsonObject) -> float | None:
    """Seconds that an instance may run; None without a limit."""
    limit = child(child(resource, "scheduling"), "maxRunDuration")
    return number(limit, "seconds") if limit else None


def _users(_target: Target) -> Iterable[str]:
    """Nothing that is emulated uses an instance."""
    return ()


def _machine_type(target: Target, asked: JsonObject) -> str:
    path = text(asked, "machineType")
    if not path:
        raise required("resource.machineType")
    place, _, name = path.rpartition("/")
    if place != f"{target.scope.path}/machineTypes" or name not in MACHINE_TYPES:
        why = f"Machine type with name '{name}' does not exist in zone '{target.scope.zone}'."
        raise invalid("resource.machineType", path, why)
    return path


def _scheduling(asked: JsonObject) -> JsonObject:
    refuse_others(asked, _SCHEDULING, "resource.scheduling")
    model = text(asked, "provisioningModel", "STANDARD")
    if model not in ("STANDARD", "SPOT"):
        raise unimplemented(f"instances of the provisioning model {model}")
    spot = model == "SPOT"
    filled: JsonObject = {
        "onHostMaintenance": text(asked, "onHostMaintenance", "TERMINATE" if spot else "MIGRATE"),
        "automaticRestart": flag(asked, "automaticRestart", not spot),
        "preemptible": spot,
        "provisioningModel": model,
    }
    action, limit = text(asked, "instanceTerminationAction"), child(asked, "maxRunDuration")
    if limit:
        seconds = number(limit, "seconds")
        if number(limit, "nanos") or not _SHORTEST_S <= seconds <= _LONGEST_S:
            why = f"Must be whole seconds, from {_SHORTEST_S} to {_LONGEST_S}."
            raise invalid("resource.scheduling.maxRunDuration", seconds, why)
        if not action:
            raise required("resource.scheduling.instanceTerminationAction")
        filled["maxRunDuration"] = {"seconds": str(int(seconds))}
    elif action and not spot:
        why = "It goes with maxRunDuration, or with provisioning model SPOT."
        raise invalid("resource.scheduling.instanceTerminationAction", action, why)
    if action:
        filled["instanceTerminationAction"] = action
    return filled


def _check_policies(target: Target, resource: JsonObject, project_number: str) -> None:
    policies = target.resources.strictness().organization_policies
    interfaces = children(resource, "networkInterfaces")
    if any(each.get("accessConfigs") for each in interfaces):
        allowed = policies.constraints.get(_EXTERNAL_ADDRESSES, "allow_all")
        if allowed != "allow_all" and (isinstance(allowed, str) or not _lists(allowed, target)):
            # googlecodelabs/feedback#695 and gardener/gardener-extension-provider-gcp#415 on GitHub
            raise precondition_failed(
                f"Constraint constraints/{_EXTERNAL_ADDRESSES} violated for project"
                f" {project_number}. Add instance {target.path} to the constraint to use external"
                " IP with it."
            )
    shields = child(resource, "shieldedInstanceConfig")
    if policies.enforces("compute.requireShieldedVm") and not all(shields.values()):
        off = next(
            name for key, name in zip(_SHIELDS, _SHIELD_NAMES, strict=True) if not shields[key]
        )
        # The beginning as in fortinet/fortigate-terraform-deploy#34 on GitHub.
        raise violated(
            "compute.requireShieldedVm",
            f"project projects/{target.scope.project}: {off} is not enabled in the"
            " 'shielded_instance_config' field",
        )


def _lists(allowed: object, target: Target) -> bool:
    return isinstance(allowed, tuple) and target.path in allowed


def metadata_of(resource: JsonObject) -> dict[str, str]:
    """The metadata by key."""
    return {
        text(item, "key"): text(item, "value")
        for item in children(child(resource, "metadata"), "items")
    }


def first(resource: JsonObject, key: str) -> JsonObject:
    """The first of a list of objects, or an empty one."""
    found: JsonValue = next(iter(children(resource, key)), {})
    return as_object(found)
