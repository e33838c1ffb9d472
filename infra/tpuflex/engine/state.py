"""A stack's exported state: what it knows, and changes to it. Pure: a deployment goes in, a
deployment comes out.

The engine's own form (``pulumi stack export``): ``resources`` in the order in which each depends
only on earlier ones, and ``pending_operations``, which were begun and never ended. A URN names
one living resource; older ones of that URN are marked ``delete``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from tpuflex.inventory.kinds import ACCOUNT, BUCKET, SECRET, SUBNETWORK, of_type
from tpuflex.inventory.resource_ids import ids_of
from tpuflex.naming import CRYPTO_KEY, QUEUED_RESOURCE, STATE_ID, is_state_id

#: A resource, an operation or a whole deployment, as the engine stores them.
Stored = dict[str, Any]

PROVIDER_TYPE = "pulumi:providers:"

#: What a program says and no API answers: after an import it is taken from the program.
CLIENT_SIDE = frozenset(
    {
        "createIgnoreAlreadyExists",
        "deletionPolicy",
        "deletionProtection",
        "disableDependentServices",
        "disableOnDestroy",
        "forceDestroy",
    }
)

#: Output properties by which another resource may name this one.
_NAMES = ("name", "email", "member", "secretId", "selfLink")


def resources(deployment: Stored) -> list[Stored]:
    """The resources of ``deployment``."""
    return list(deployment.get("resources") or ())


def pending(deployment: Stored) -> list[Stored]:
    """The operations that were begun and never ended."""
    return list(deployment.get("pending_operations") or ())


def known_ids(deployment: Stored) -> frozenset[str]:
    """Ids of everything in ``deployment``: what it has, and what is pending in it.

    A request for a slice may be in any of its zones: those count as known, too.
    """
    begun = (operation["resource"] for operation in pending(deployment))
    ids = (
        id_
        for resource in (*resources(deployment), *begun)
        if is_cloud(resource)
        for id_ in _ids(resource)
    )
    return frozenset(filter(None, ids))


def state_ids(deployment: Stored) -> frozenset[str]:
    """The ids by which the cloud tells what ``deployment`` has made; empty for one that no version
    with state ids has touched yet."""
    ids = (one.get("id") for one in resources(deployment) if one.get("type") == STATE_ID)
    return frozenset(str(id_) for id_ in ids if is_state_id(id_))


def is_cloud(resource: Stored) -> bool:
    """Whether ``resource`` is something that the stack has in the cloud: no component, no provider,
    no state id, and nothing that the engine only reads (``external``)."""
    made = bool(resource.get("custom")) and not is_provider(resource)
    made = made and not resource.get("external")
    return made and resource.get("type") != STATE_ID


def external_paths(deployment: Stored) -> tuple[str, ...]:
    """Paths of what ``deployment`` only reads, of a subnetwork that of its network, too: it uses
    them, and does not own them."""
    read = (each for each in resources(deployment) if each.get("external"))
    return tuple(dict.fromkeys(path for each in read for path in _external_paths(each) if path))


def _external_paths(resource: Stored) -> tuple[str, ...]:
    """Paths of ``resource``, which is only read."""
    type_, id_ = resource.get("type"), str(resource.get("id") or "")
    if type_ == SUBNETWORK.type:
        return _path((resource.get("outputs") or {}).get("network")), id_
    if type_ in (ACCOUNT.type, SECRET.type, CRYPTO_KEY):
        return (id_,)
    return (f"gs://{id_}",) if type_ == BUCKET.type and id_ else ()


def is_provider(resource: Stored) -> bool:
    """Whether ``resource`` is a provider."""
    return str(resource.get("type", "")).startswith(PROVIDER_TYPE)


def live_resource(deployment: Stored, urn: str) -> Stored | None:
    """The resource of ``urn`` that is neither marked for deletion nor a reminder that it was
    deleted to be replaced."""
    found = (r for r in resources(deployment) if r["urn"] == urn)
    return next((r for r in found if not r.get("delete") and not is_reminder(r)), None)


def is_reminder(resource: Stored) -> bool:
    """Whether ``resource`` is gone, and kept only because its replacement is not there yet."""
    return bool(resource.get("pendingReplacement"))


def doubles(deployment: Stored) -> list[Stored]:
    """What is marked for deletion in ``deployment`` and at the same time what it goes on with: a
    slice that was to go once its successor serves, and that an `up` has found and taken for its own
    when that successor had been deleted manually (docs/adr/0036)."""
    return [
        resource
        for resource in resources(deployment)
        if resource.get("delete")
        and is_cloud(resource)
        and (now := live_resource(deployment, resource["urn"])) is not None
        and same_id(now.get("id"), resource.get("id"))
    ]


def adopted(deployment: Stored, imported: Iterable[Stored]) -> Stored:
    """``deployment`` with ``imported`` in it.

    A living resource of the same URN was being replaced: it is marked for deletion, which is
    what the engine does once the replacement exists. One that is only a reminder that it was
    deleted for a replacement is dropped.
    """
    entries = resources(deployment)
    for new in imported:
        kept = [r for r in entries if not _same(r, new) and not _reminder(r, new)]
        entries = [*(_marked(r, new) for r in kept), new]
    return {**deployment, "resources": _ordered(entries)}


def without_pending(deployment: Stored, kept: Collection[str] = ()) -> Stored:
    """``deployment`` with only those pending operations whose URN is in ``kept``."""
    left = [op for op in pending(deployment) if op["resource"]["urn"] in kept]
    cleared = {key: value for key, value in deployment.items() if key != "pending_operations"}
    return {**cleared, "pending_operations": left} if left else cleared


def with_pending(deployment: Stored, operations: Iterable[Stored]) -> Stored:
    """``deployment`` with ``operations`` pending beside those that are."""
    return {**deployment, "pending_operations": [*pending(deployment), *operations]}


def pending_creation(resource: Stored) -> Stored:
    """The pending creation of ``resource``, as the engine writes one down: without an id."""
    without_id = {key: value for key, value in resource.items() if key != "id"}
    return {"resource": without_id, "type": "creating"}


def with_asked_inputs(deployment: Stored, asked: Mapping[str, Mapping[str, Any]]) -> Stored:
    """``deployment`` with what the program asked for, where an import cannot know it.

    Args:
        deployment: a deployment after the adopted resources were read.
        asked: inputs of adopted resources, by URN.
    """

    def settle(resource: Stored) -> Stored:
        inputs = asked.get(resource["urn"])
        if inputs is None or resource.get("delete") or not resource.get("outputs"):
            return resource
        said = {key: value for key, value in inputs.items() if key in CLIENT_SIDE}
        outputs = {**resource["outputs"], **said}
        return {**resource, "inputs": inputs, "outputs": outputs}

    return {**deployment, "resources": [settle(r) for r in resources(deployment)]}


def referenced(resource: Stored, others: Iterable[Stored]) -> list[str]:
    """URNs among ``others`` of what the inputs of ``resource`` name, by id or by a name.

    For a resource whose true dependencies are not known; it decides what is deleted first.
    """
    said = set(_texts(resource.get("inputs")))
    return [
        other["urn"]
        for other in others
        if is_cloud(other) and other["urn"] != resource["urn"] and said & set(_names(other))
    ]


def missing_parents(resource: Stored, deployment: Stored) -> list[str]:
    """URNs of parent and provider of ``resource`` that ``deployment`` does not have."""
    known = {r["urn"] for r in resources(deployment)}
    needed = [resource.get("parent") or "", provider_urn(resource)]
    return [urn for urn in needed if urn and urn not in known]


def provider_urn(resource: Stored) -> str:
    """URN of the provider of ``resource``; its reference is that and the provider's id."""
    return str(resource.get("provider") or "").rpartition("::")[0]


def same_id(one: object, other: object) -> bool:
    """Whether two ids name one thing; IAM members are imported as ``a b`` and kept as ``a/b``."""
    return str(one or "").replace(" ", "/") == str(other or "").replace(" ", "/")


def _same(resource: Stored, new: Stored) -> bool:
    if resource["urn"] != new["urn"]:
        return False
    return not is_cloud(new) or same_id(resource.get("id"), new.get("id"))


def _reminder(resource: Stored, new: Stored) -> bool:
    return resource["urn"] == new["urn"] and is_reminder(resource)


def _marked(resource: Stored, new: Stored) -> Stored:
    """``resource``, to be deleted if ``new`` takes its place."""
    taken = resource["urn"] == new["urn"] and is_cloud(new)
    return {**resource, "delete": True} if taken else resource


def _ids(resource: Stored) -> Iterator[str]:
    id_ = str(resource.get("id") or "")
    yield id_
    yield from map(str, (resource.get("outputs") or {}).get("requests") or ())
    type_, inputs = str(resource.get("type")), resource.get("inputs") or {}
    kind = of_type(type_)
    if id_ and kind is not None and kind.named_by_google and inputs.get("project"):
        # A dashboard's id has the number of its project, and an inventory knows it by the project's
        # id.
        yield kind.id.format(project=inputs["project"], name=id_.rpartition("/")[2])
    if not id_ or type_ == QUEUED_RESOURCE:
        for place in ids_of(type_, inputs):
            # IAM members are imported as "a b" and kept as "a/b".
            yield place.id.replace(" ", "/")


def _names(resource: Stored) -> Iterator[str]:
    outputs = resource.get("outputs") or {}
    for value in (resource.get("id"), *(outputs.get(key) for key in _NAMES)):
        if isinstance(value, str) and value:
            yield value


def _path(link: object) -> str:
    """``projects/…`` of the URL by which Compute Engine names a resource."""
    _, root, path = str(link or "").partition("projects/")
    return root + path


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def _ordered(found: list[Stored]) -> list[Stored]:
    """``found`` with each resource after what it needs, and otherwise in the order it had."""
    by_urn: dict[str, list[Stored]] = {}
    for resource in found:
        by_urn.setdefault(resource["urn"], []).append(resource)
    done: dict[int, Stored] = {}
    begun: set[int] = set()

    def place(resource: Stored) -> None:
        if id(resource) in begun:
            return
        begun.add(id(resource))
        for urn in _needs(resource):
            for needed in by_urn.get(urn, ()):
                place(needed)
        done[id(resource)] = resource

    for resource in found:
        place(resource)
    return list(done.values())


def _needs(resource: Stored) -> Iterator[str]:
    yield str(resource.get("parent") or "")
    yield provider_urn(resource)
    yield from resource.get("dependencies") or ()
    for urns in (resource.get("propertyDependencies") or {}).values():
        yield from urns or ()
    yield str(resource.get("deletedWith") or "")
