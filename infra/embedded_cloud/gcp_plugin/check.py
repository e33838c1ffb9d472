"""Check: the inputs of a resource, completed and validated. Pure."""

from __future__ import annotations

import hashlib
import re

from embedded_cloud.gcp_plugin.fields import accept
from embedded_cloud.gcp_plugin.resource_type import ResourceType
from embedded_cloud.gcp_plugin.types import InvalidValueError
from pulumi_plugin.values import Properties

#: Where checked inputs list what the plugin has filled in (pulumi-terraform-bridge,
#: ``pkg/tfbridge/schema.go``, ``defaultsKey``).
DEFAULTS = "__defaults"


def check(
    row: ResourceType, news: Properties, olds: Properties, logical_name: str, seed: bytes
) -> tuple[Properties, list[InvalidValueError]]:
    """``news`` with defaults and, if needed, a generated name; and all that is wrong.

    A generated name is listed under :data:`DEFAULTS`, as the published plugin does it: a resource
    whose name the program gives is replaced in another order.

    Args:
        row: the type.
        news: the inputs of the program.
        olds: the inputs of the existing resource, if any: its generated name is kept.
        logical_name: the resource's name in the program.
        seed: the engine's randomness for generated names.
    """
    invalid = [_unknown_name(row, name) for name in news if not _is_input(row, name)]
    values = dict(news)
    generated = bool(row.autonamed) and values.get(row.autonamed) is None
    if generated:
        values[row.autonamed] = olds.get(row.autonamed) or _generated(logical_name, seed)
    inputs, wrong = accept(row.properties, values)
    invalid += wrong
    if not invalid:
        invalid += [error for error in (rule(inputs) for rule in row.rules) if error]
    return inputs | ({DEFAULTS: [row.autonamed]} if generated else {}), invalid


def _is_input(row: ResourceType, name: str) -> bool:
    item = row.property(name)
    return item is not None and item.is_input


def _unknown_name(row: ResourceType, name: str) -> InvalidValueError:
    if name in row.unserved:
        return InvalidValueError(
            name,
            "the embedded cloud's stand-in for the gcp plugin does not serve this property of "
            f"{row.token}; leave it out on the embedded cloud",
        )
    if row.property(name) is not None:
        return InvalidValueError(name, f"{row.token} computes this property; it cannot be set")
    return InvalidValueError(name, f"{row.token} has no such property")


def _generated(logical_name: str, seed: bytes) -> str:
    # The published plugin's form: the logical name and seven hexadecimal digits.
    letters = re.sub(r"[^a-z0-9-]", "-", logical_name.lower())
    return f"{letters}-{hashlib.sha256(seed).hexdigest()[:7]}"
