"""Rules of the parts of an instance: its disk, network interface, service account and metadata."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterator
from itertools import islice

from embedded_cloud.compute.errors import invalid, required
from embedded_cloud.compute.locations import region_of
from embedded_cloud.compute.machine_types import DISK_TYPES, IMAGES
from embedded_cloud.compute.networks import NETWORK_PATTERN
from embedded_cloud.compute.paths import named
from embedded_cloud.compute.state import Target, fingerprint
from embedded_cloud.errors import unimplemented
from embedded_cloud.json_types import JsonObject, JsonValue, child, children, flag, text, texts

_KEY = re.compile(r"[a-zA-Z0-9-_]{1,128}")
#: https://cloud.google.com/compute/docs/metadata/setting-custom-metadata#limitations
_VALUE_BYTES, _ALL_BYTES = 262_144, 524_288
_LABEL_KEY, _LABEL_VALUE = re.compile(r"[a-z][-_a-z0-9]{0,62}"), re.compile(r"[-_a-z0-9]{0,63}")
_TAG = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBNETWORK_PATTERN = r"projects/[^/]+/regions/[^/]+/subnetworks/[^/]+"
#: Documentation range (RFC 5737), from its end: reserved addresses are taken from its beginning.
_EXTERNAL = tuple(str(host) for host in ipaddress.IPv4Network("203.0.113.0/24").hosts())[::-1]

_DISK = frozenset(
    {
        *("autoDelete", "boot", "deviceName", "diskEncryptionKey", "initializeParams"),
        *("interface", "mode", "type"),
    }
)
_DISK_KEY = frozenset({"kmsKeyName"})
_NEW_DISK = frozenset(
    {"description", "diskName", "diskSizeGb", "diskType", "labels", "sourceImage"}
)
_INTERFACE = frozenset({"accessConfigs", "name", "network", "nicType", "stackType", "subnetwork"})
_ACCESS = frozenset({"name", "natIP", "networkTier", "type"})


def refuse_others(found: JsonObject, known: Collection[str], where: str) -> None:
    """501 for a field that would be ignored. One that is empty or false asks for nothing."""
    for name, value in found.items():
        if name not in known and value not in (None, False, "", [], {}):
            raise unimplemented(f"{where}.{name} of instances")


def boot_disk(target: Target, asked: JsonObject) -> list[JsonValue]:
    """The disks as Compute fills them in: one, made from an image, and deleted with the instance.

    Raises:
        CloudError: 400, 404, or 501 for what is not emulated.
    """
    disks = children(asked, "disks")
    if not disks:
        raise required("resource.disks")
    if len(disks) > 1:
        raise unimplemented("instances with more than one disk")
    disk, where = disks[0], "resource.disks[0]"
    refuse_others(disk, _DISK, where)
    refuse_others(child(disk, "diskEncryptionKey"), _DISK_KEY, f"{where}.diskEncryptionKey")
    new = child(disk, "initializeParams")
    refuse_others(new, _NEW_DISK, f"{where}.initializeParams")
    if not flag(disk, "boot"):
        raise invalid(f"{where}.boot", "false", "The first disk must be the boot disk.")
    if not flag(disk, "autoDelete"):
        # It would remain, and be billed.
        raise unimplemented("boot disks that outlive their instance; set disks[0].autoDelete")
    if text(disk, "type", "PERSISTENT") != "PERSISTENT":
        raise unimplemented("boot disks that are not PERSISTENT")
    image = text(new, "sourceImage")
    if not image:
        raise required(f"{where}.initializeParams.sourceImage")
    if image not in IMAGES:
        known = ", ".join(sorted(IMAGES))
        raise unimplemented(f"{where}.initializeParams.sourceImage {image}; known: {known}")
    kind = f"{target.scope.path}/diskTypes/"
    chosen = text(new, "diskType", f"{kind}pd-standard")
    if chosen.removeprefix(kind) not in DISK_TYPES:
        why = "The referenced diskType resource cannot be found."
        raise invalid(f"{where}.initializeParams.diskType", chosen, why)
    size = int(text(new, "diskSizeGb") or IMAGES[image])
    if size < IMAGES[image]:
        raise invalid(
            f"{where}.initializeParams.diskSizeGb",
            size,
            f"Requested disk size cannot be smaller than the image size ({IMAGES[image]} GB)",
        )
    return [
        {
            "kind": "compute#attachedDisk",
            "index": 0,
            "boot": True,
            "autoDelete": True,
            "type": "PERSISTENT",
            "mode": "READ_WRITE",
            "interface": text(disk, "interface", "SCSI"),
            "deviceName": text(disk, "deviceName", "persistent-disk-0"),
            "diskSizeGb": str(size),
            "architecture": "X86_64",
            "source": f"{target.scope.path}/disks/{text(new, 'diskName', target.name)}",
            **_encrypted(child(disk, "diskEncryptionKey")),
        }
    ]


def _encrypted(asked: JsonObject) -> JsonObject:
    """The disk's key, if it is the user's, with the version that Compute has used."""
    key = text(asked, "kmsKeyName")
    return {"diskEncryptionKey": {"kmsKeyName": f"{key}/cryptoKeyVersions/1"}} if key else {}


def network_interface(target: Target, asked: JsonObject) -> list[JsonValue]:
    """The network interfaces as Compute fills them in: one.

    Raises:
        CloudError: 400, 404, or 501 for what is not emulated.
    """
    interfaces = children(asked, "networkInterfaces")
    if not interfaces:
        why = "At least one network interface is required."
        raise invalid("resource.networkInterfaces", "", why)
    if len(interfaces) > 1:
        raise unimplemented("instances with more than one network interface")
    found, where = interfaces[0], "resource.networkInterfaces[0]"
    refuse_others(found, _INTERFACE, where)
    if text(found, "stackType", "IPV4_ONLY") != "IPV4_ONLY":
        raise unimplemented("instances with IPv6")
    subnetwork = _subnetwork(target, found, where)
    resource: JsonObject = {
        "kind": "compute#networkInterface",
        "name": "nic0",
        "stackType": "IPV4_ONLY",
        "network": subnetwork["network"],
        "subnetwork": subnetwork["selfLink"],
        "networkIP": _internal_address(target, subnetwork),
        **({"nicType": found["nicType"]} if found.get("nicType") else {}),
    }
    if access := children(found, "accessConfigs"):
        resource["accessConfigs"] = [_access(target, access, f"{where}.accessConfigs")]
    resource["fingerprint"] = fingerprint(resource)
    return [resource]


def _subnetwork(target: Target, found: JsonObject, where: str) -> JsonObject:
    path, region = text(found, "subnetwork"), region_of(target.scope.zone)
    network = text(found, "network")
    if network or not path:
        network = network or f"projects/{target.scope.project}/global/networks/default"
        named(network, f"{where}.network", NETWORK_PATTERN, target.resources.exists)
    if not path:
        why = "Subnetwork should be specified for custom subnetmode network"
        raise invalid(where, "", why)
    named(path, f"{where}.subnetwork", _SUBNETWORK_PATTERN, target.resources.exists)
    if path.split("/")[3] != region:
        why = f"The subnetwork is not in the region of the instance ({region})."
        raise invalid(f"{where}.subnetwork", path, why)
    subnetwork = target.resources.get(path) or {}
    if network and network != subnetwork["network"]:
        raise invalid(f"{where}.subnetwork", path, "It is a subnetwork of another network.")
    return subnetwork


def _interfaces(target: Target) -> Iterator[JsonObject]:
    for other in target.resources.all("instances", "projects/"):
        yield from children(other, "networkInterfaces")


def _internal_address(target: Target, subnetwork: JsonObject) -> str:
    path = subnetwork["selfLink"]
    taken = {text(each, "networkIP") for each in _interfaces(target) if each["subnetwork"] == path}
    reserved = target.resources.all("addresses", "projects/")
    taken |= {text(each, "address") for each in reserved if each.get("subnetwork") == path}
    # The first two addresses of a range are Google's.
    hosts = islice(ipaddress.IPv4Network(text(subnetwork, "ipCidrRange")).hosts(), 1, None)
    address = next((str(host) for host in hosts if str(host) not in taken), "")
    if not address:
        raise invalid("resource.networkInterfaces[0].subnetwork", path, "It has no free address.")
    return address


def _access(target: Target, asked: list[JsonObject], where: str) -> JsonValue:
    if len(asked) > 1:
        raise invalid(where, "", "At most one access config is currently supported.")
    found = asked[0]
    refuse_others(found, _ACCESS, f"{where}[0]")
    if text(found, "type", "ONE_TO_ONE_NAT") != "ONE_TO_ONE_NAT":
        raise invalid(f"{where}[0].type", found["type"], "Must be ONE_TO_ONE_NAT.")
    return {
        "kind": "compute#accessConfig",
        "type": "ONE_TO_ONE_NAT",
        "name": text(found, "name", "External NAT"),
        "natIP": _external_address(target, text(found, "natIP"), f"{where}[0].natIP"),
        "networkTier": text(found, "networkTier", "PREMIUM"),
    }


def _external_address(target: Target, asked: str, field: str) -> str:
    """An address that nothing has, or the reserved one that is asked for."""
    used = {
        text(access, "natIP")
        for interface in _interfaces(target)
        for access in children(interface, "accessConfigs")
    }
    region = f"projects/{target.scope.project}/regions/{region_of(target.scope.zone)}/"
    own = {text(each, "address") for each in target.resources.all("addresses", region)}
    if asked:
        if asked not in own:
            raise invalid(field, asked, "The specified external IP address was not found.")
        if asked in used:
            raise invalid(field, asked, "The specified external IP address is already in use.")
        return asked
    used |= {text(each, "address") for each in target.resources.all("addresses", "projects/")}
    return next(address for address in _EXTERNAL if address not in used)


def service_accounts(asked: JsonObject, default: str) -> list[JsonValue]:
    """The service accounts as Compute fills them in: none or one; ``default`` is the project's."""
    accounts = children(asked, "serviceAccounts")
    if len(accounts) > 1:
        why = "At most one service account is allowed."
        raise invalid("resource.serviceAccounts", "", why)
    filled: list[JsonValue] = []
    for account in accounts:
        email = text(account, "email", "default")
        scopes = texts(account, "scopes")
        if not scopes:
            raise required("resource.serviceAccounts[0].scopes")
        filled.append(
            {
                "email": default if email == "default" else email,
                "scopes": list[JsonValue](scopes),
            }
        )
    return filled


def metadata(asked: JsonObject) -> JsonObject:
    """The metadata as Compute fills it in. Raises CloudError 400 beyond Google's bounds."""
    items = children(child(asked, "metadata"), "items")
    total, seen = 0, set[str]()
    for index, item in enumerate(items):
        where, key, value = (
            f"resource.metadata.items[{index}]",
            text(item, "key"),
            item.get("value"),
        )
        if not _KEY.fullmatch(key):
            raise invalid(f"{where}.key", key, f"Must be a match of regex '{_KEY.pattern}'")
        if key in seen:
            raise invalid("resource.metadata", "", f"Duplicate key '{key}' in metadata.")
        if key == "startup-script-url":
            raise unimplemented("startup-script-url; give the script as startup-script")
        size = len(text(item, "value").encode()) if value is not None else 0
        if size > _VALUE_BYTES:
            raise invalid(
                f"{where}.value",
                "…",
                f"Value is too large: maximum size {_VALUE_BYTES} bytes; actual size {size}.",
            )
        seen.add(key)
        total += len(key.encode()) + size
    if total > _ALL_BYTES:
        why = f"Metadata is too large: maximum size {_ALL_BYTES} bytes; actual size {total}."
        raise invalid("resource.metadata", "…", why)
    filled: JsonObject = {"kind": "compute#metadata", "items": list[JsonValue](items)}
    return {**filled, "fingerprint": fingerprint(filled)}


def check_labels(asked: JsonObject) -> None:
    """Raises CloudError 400 for a label that Google does not take
    (https://cloud.google.com/compute/docs/labeling-resources#restrictions)."""
    labels = child(asked, "labels")
    if len(labels) > 64:
        raise invalid("resource.labels", "", "At most 64 labels are allowed.")
    for key, value in labels.items():
        if not (_LABEL_KEY.fullmatch(key) and _LABEL_VALUE.fullmatch(str(value))):
            why = f"Label '{key}' or its value '{value}' violates format constraints."
            raise invalid("resource.labels", "", why)


def tags(asked: JsonObject) -> JsonObject:
    """The network tags as Compute fills them in."""
    listed = texts(child(asked, "tags"), "items")
    for index, tag in enumerate(listed):
        if not _TAG.fullmatch(tag):
            why = f"Must be a match of regex '{_TAG.pattern}'"
            raise invalid(f"resource.tags.items[{index}]", tag, why)
    filled: JsonObject = {"items": list[JsonValue](listed)} if listed else {}
    return {**filled, "fingerprint": fingerprint(filled)}
