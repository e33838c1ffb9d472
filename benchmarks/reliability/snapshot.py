"""A stack's exported state: its contents, and whether the engine would accept it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]


def stored_resources(export: Json | None) -> list[Json]:
    """The resources in the state; none if there is no state."""
    deployment = (export or {}).get("deployment") or {}
    return list(deployment.get("resources") or ())


def present_resources(export: Json | None) -> list[Json]:
    """The resources that exist according to the state: not those that it only remembers as deleted
    for a replacement. A `down` drops such a reminder without asking a provider to delete anything
    (`RemovePendingReplaceStep` of pulumi/pulumi v3.256.0)."""
    return [one for one in stored_resources(export) if not one.get("pendingReplacement")]


def is_leaving(export: Json | None) -> bool:
    """Whether something that was replaced is still to be deleted: the next `up` does."""
    return any(resource.get("delete") for resource in stored_resources(export))


def is_over(resource: Json, *, without_leftover: bool = False) -> bool:
    """Whether the state says that a queued resource's run is over and, if ``without_leftover``,
    that its leftover is gone, too."""
    outputs = resource.get("outputs") or {}
    gone = outputs.get("state") == "NOT_FOUND"
    return outputs.get("lifecycle") == "ended" and (gone or not without_leftover)


def pending_operations(export: Json) -> list[Json]:
    """The operations that were begun and not completed, according to the state."""
    deployment = export.get("deployment") or {}
    return list(deployment.get("pending_operations") or ())


def snapshot_faults(export: Json) -> Iterator[str]:
    """What the engine would reject (by its own ``Snapshot.VerifyIntegrity``): names must be unique,
    and everything that a resource refers to must come before it."""
    seen: set[str] = set()
    references: set[str] = set()
    for resource in stored_resources(export):
        urn = str(resource.get("urn", ""))
        if not urn.startswith("urn:pulumi:") or str(resource.get("type")) not in urn:
            yield f"{urn!r} is not the name of a {resource.get('type')}"
        if urn in seen and not resource.get("delete"):
            yield f"{urn} is in the snapshot twice"
        if resource.get("custom") and not resource.get("id") and not resource.get("external"):
            yield f"{urn} has no id"
        yield from _dangling(resource, seen, references)
        if not resource.get("delete"):
            seen.add(urn)
        references.add(f"{urn}::{resource.get('id', '')}")


def _dangling(resource: Json, seen: set[str], references: set[str]) -> Iterator[str]:
    urn, to_delete = resource.get("urn"), resource.get("delete")
    parent, provider = resource.get("parent"), resource.get("provider")
    if parent and parent not in seen:
        yield f"the parent of {urn} is not in the snapshot before it: {parent}"
    if provider and provider not in references:
        yield f"the provider of {urn} is not in the snapshot before it: {provider}"
    for needed in resource.get("dependencies") or ():
        if needed not in seen and not to_delete:
            yield f"{urn} depends on what is not in the snapshot before it: {needed}"
