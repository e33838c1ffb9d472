"""The tables compared with pulumi-gcp's classes and Google's discovery documents."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import inspect
import json
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
from pulumi._types import input_type_py_to_pulumi_names, input_type_types

from embedded_cloud.core.json_types import JsonObject, child, text
from embedded_cloud.gcp_plugin.fields import Fields, Group, Groups, Use
from embedded_cloud.gcp_plugin.tables import TYPES, VERSION, package_schema

#: Which discovery document and schema each type's resource is, where it has one.
RESOURCES = {
    "gcp:compute/firewall:Firewall": ("compute.v1", "Firewall"),
    "gcp:compute/network:Network": ("compute.v1", "Network"),
    "gcp:compute/router:Router": ("compute.v1", "Router"),
    "gcp:compute/routerNat:RouterNat": ("compute.v1", "RouterNat"),
    "gcp:compute/subnetwork:Subnetwork": ("compute.v1", "Subnetwork"),
    "gcp:dns/managedZone:ManagedZone": ("dns.v1", "ManagedZone"),
    "gcp:dns/recordSet:RecordSet": ("dns.v1", "ResourceRecordSet"),
    "gcp:iam/workloadIdentityPool:WorkloadIdentityPool": ("iam.v1", "WorkloadIdentityPool"),
    "gcp:iam/workloadIdentityPoolProvider:WorkloadIdentityPoolProvider": (
        "iam.v1",
        "WorkloadIdentityPoolProvider",
    ),
    "gcp:kms/cryptoKey:CryptoKey": ("cloudkms.v1", "CryptoKey"),
    "gcp:kms/keyRing:KeyRing": ("cloudkms.v1", "KeyRing"),
    "gcp:monitoring/alertPolicy:AlertPolicy": ("monitoring.v3", "AlertPolicy"),
    "gcp:projects/iAMCustomRole:IAMCustomRole": ("iam.v1", "Role"),
    "gcp:secretmanager/secret:Secret": ("secretmanager.v1", "Secret"),
    "gcp:serviceaccount/account:Account": ("iam.v1", "ServiceAccount"),
    "gcp:storage/bucket:Bucket": ("storage.v1", "Bucket"),
}


@cache
def published(token: str) -> tuple[type, type]:
    """The classes of the inputs and of the state that pulumi-gcp has for ``token``."""
    _, module, name = token.split(":")
    package, _, _ = module.partition("/")
    owner = getattr(importlib.import_module(f"pulumi_gcp.{package}"), name)
    found = importlib.import_module(owner.__module__)
    return getattr(found, f"{name}Args"), getattr(found, f"_{name}State")


def names(owner: type) -> set[str]:
    """The properties of a published class, as the wire has them."""
    return set(input_type_py_to_pulumi_names(owner).values())


def inner_class(annotation: object) -> type | None:
    """The class of inner objects in the annotation of a published property."""
    if isinstance(annotation, type) and annotation.__name__.endswith("Args"):
        return annotation
    found = (inner_class(part) for part in get_args(annotation))
    return next((one for one in found if one is not None), None)


@cache
def discovery(document: str) -> JsonObject:
    """The schemas of a discovery document."""
    spec = importlib.util.find_spec("googleapiclient")
    assert spec is not None
    assert spec.submodule_search_locations
    folder = Path(spec.submodule_search_locations[0]) / "discovery_cache" / "documents"
    parsed: JsonObject = json.loads((folder / f"{document}.json").read_text())
    return child(parsed, "schemas")


@pytest.mark.parametrize("token", TYPES)
def test_every_property_of_the_published_class_is_served_or_refused_by_name(token: str) -> None:
    """The table has all properties of the published class, and no others."""
    row = TYPES[token]
    args, state = published(token)
    assert {item.name for item in row.inputs} | set(row.unserved) == names(args)
    outputs = {item.name for item in row.properties if not item.is_input}
    assert outputs == names(state) - names(args)


@pytest.mark.parametrize("token", TYPES)
def test_the_same_properties_are_required_as_in_the_published_class(token: str) -> None:
    """A program that the published class accepts lacks no required property."""
    args, _ = published(token)
    wire = input_type_py_to_pulumi_names(args)
    parameters = inspect.signature(args).parameters
    required = {
        wire[name]
        for name, parameter in parameters.items()
        if name in wire and parameter.default is inspect.Parameter.empty
    }
    row = TYPES[token]
    assert {item.name for item in row.inputs if item.use is Use.REQUIRED} == required


def unpublished(fields: Fields, owner: type, path: str) -> list[str]:
    """Properties of inner objects that the published classes do not have."""
    found: list[str] = []
    for item in fields:
        if not isinstance(item.type, Group | Groups):
            continue
        inner = inner_class(input_type_types(owner)[item.name])
        assert inner is not None, f"{path}.{item.name} is not an object in pulumi-gcp"
        here = f"{path}.{item.name}"
        unknown = {one.name for one in item.type.fields} - names(inner)
        found += [f"{here}.{name}" for name in sorted(unknown)]
        found += unpublished(item.type.fields, inner, here)
    return found


@pytest.mark.parametrize("token", TYPES)
def test_properties_of_inner_objects_exist_in_the_published_classes(token: str) -> None:
    """Every property of an object inside a resource is one that pulumi-gcp can send."""
    _, state = published(token)
    assert unpublished(TYPES[token].properties, state, token) == []


def places(fields: Fields, schemas: JsonObject, schema: str) -> list[str]:
    """Places of ``fields`` that the discovery document does not have."""
    missing = []
    for item in fields:
        found = child(child(schemas, schema), "properties")
        target: JsonObject = {}
        for key in item.place:
            target = child(found, key)
            if not target:
                missing.append(f"{schema}.{'.'.join(item.place)}")
                break
            inner = text(target, "$ref") or text(child(target, "items"), "$ref")
            found = (
                child(child(schemas, inner), "properties") if inner else child(target, "properties")
            )
        inner = text(target, "$ref") or text(child(target, "items"), "$ref")
        if target and inner and isinstance(item.type, Group | Groups):
            missing += places(item.type.fields, schemas, inner)
    return missing


@pytest.mark.parametrize("token", RESOURCES)
def test_every_place_in_the_rest_resource_is_in_googles_discovery_document(token: str) -> None:
    """The API has every field that the plugin writes and reads."""
    document, schema = RESOURCES[token]
    assert places(TYPES[token].properties, discovery(document), schema) == []


def test_the_schema_names_every_type_and_the_published_version() -> None:
    """GetSchema lists the served types, under the version that the SDK asks for."""
    schema = json.loads(package_schema())
    assert schema["name"] == "gcp"
    assert schema["version"] == VERSION == importlib.metadata.version("pulumi-gcp")
    assert set(schema["resources"]) == set(TYPES)
    network = schema["resources"]["gcp:compute/network:Network"]
    assert network["inputProperties"]["autoCreateSubnetworks"] == {"type": "boolean"}
