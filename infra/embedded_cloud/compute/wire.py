"""Resources, operations and lists as Compute returns them."""

from __future__ import annotations

from collections.abc import Callable

from embedded_cloud.compute.paths import Scope, linked
from embedded_cloud.compute.state import ResourceKind, Resources
from embedded_cloud.json_types import JsonObject, JsonValue, as_object, text


class Wire:
    """Turns stored resources into answers.

    Args:
        resources: to find what refers to a resource.
        base_url: the emulator's address.
    """

    def __init__(self, resources: Resources, base_url: Callable[[], str]) -> None:
        self._resources = resources
        self._base_url = base_url

    @property
    def base(self) -> str:
        """What links begin with."""
        return f"{self._base_url()}/compute/v1"

    def resource(self, kind: ResourceKind, stored: JsonObject) -> JsonObject:
        """A resource as answered."""
        path = text(stored, "selfLink")
        shown: JsonObject = {"kind": f"compute#{kind.singular}", **stored}
        if kind.collection == "networks":
            network_id = f"{path.rpartition('/')[0]}/{text(stored, 'id')}"
            shown["selfLinkWithId"] = network_id
            project = path.split("/")[1]
            inside = [*self._resources.users("subnetworks", project, "network", path)]
            if inside:
                shown["subnetworks"] = [*inside]
        if kind.collection == "addresses":
            self._add_users(shown, path)
        return as_object(linked(shown, self.base))

    def operation(self, stored: JsonObject) -> JsonObject:
        """An operation as answered."""
        return as_object(linked(stored, self.base))

    def list_head(self, singular: str, path: str) -> JsonObject:
        """A list without items. ``path`` says what is listed: ``projects/p/global/networks``."""
        return {"kind": f"compute#{singular}List", "id": path, "selfLink": f"{self.base}/{path}"}

    def aggregated(self, kind: ResourceKind, project: str, items: list[JsonObject]) -> JsonObject:
        """An aggregated list: by region or zone, without those that have nothing."""
        scopes: dict[str, list[JsonValue]] = {}
        for item in items:
            scopes.setdefault(_place(item), []).append(item)
        path = f"projects/{project}/aggregated/{kind.collection}"
        return {
            "kind": f"compute#{kind.singular}AggregatedList",
            "id": path,
            "selfLink": f"{self.base}/{path}",
            "items": {scope: {kind.collection: listed} for scope, listed in scopes.items()},
        }

    def _add_users(self, shown: JsonObject, path: str) -> None:
        scope = Scope(path.split("/")[1], path.split("/")[3] if "/regions/" in path else "")
        for router in self._resources.all("routers", f"{scope.path}/"):
            nats = router.get("nats")
            if isinstance(nats, list) and f"'{path}'" in repr(nats):
                shown["status"] = "IN_USE"
                shown["users"] = [text(router, "selfLink")]


def _place(item: JsonObject) -> str:
    """``zones/z``, ``regions/r`` or ``global``."""
    for kind in ("zone", "region"):
        if name := text(item, kind).rpartition("/")[2]:
            return f"{kind}s/{name}"
    return "global"
