"""The state of one queued resource's stack, in the engine's format."""

from __future__ import annotations

from typing import Any

from google.protobuf.struct_pb2 import Struct

from pulumi_plugin.protocol import provider_pb2
from pulumi_plugin.wire import decode
from tpuflex.naming import QUEUED_RESOURCE

Json = dict[str, Any]

PROJECT, STACK, NAME = "shop", "dev", "slice"
STACK_URN = f"urn:pulumi:{STACK}::{PROJECT}::pulumi:pulumi:Stack::{PROJECT}-{STACK}"
PROVIDER_URN = f"urn:pulumi:{STACK}::{PROJECT}::pulumi:providers:tpuflex::cloud"
PROVIDER = f"{PROVIDER_URN}::00000000-0000-4000-8000-000000000000"
URN = f"urn:pulumi:{STACK}::{PROJECT}::{QUEUED_RESOURCE}::{NAME}"


def new_resource(inputs: Json) -> Json:
    """A resource that has not been created yet."""
    return {
        "urn": URN,
        "type": QUEUED_RESOURCE,
        "custom": True,
        "inputs": inputs,
        "parent": STACK_URN,
        "provider": PROVIDER,
    }


def kept_resource(resource: Json, kept: provider_pb2.ErrorResourceInitFailed) -> Json:
    """``resource`` as a failed call leaves it: with its id and the reasons."""
    return refreshing(
        {
            **resource,
            "id": kept.id,
            "inputs": plain(kept.inputs),
            "outputs": plain(kept.properties),
            "initErrors": list(kept.reasons),
        },
        kept.refresh_before_update,
    )


def refreshing(resource: Json, before_update: bool) -> Json:
    """``resource``, marked to be read before each update if ``before_update``."""
    resource["refreshBeforeUpdate"] = before_update
    return resource


def plain(properties: Struct) -> Json:
    """Decode properties from their wire format."""
    return dict(decode(properties))
