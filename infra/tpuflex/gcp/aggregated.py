"""Lists of Compute Engine that hold what is in every zone or region.

https://cloud.google.com/compute/docs/reference/rest/v1/instances/aggregatedList
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tpuflex.gcp.cloud_resource import CloudResource, described, short_name
from tpuflex.gcp.paging import objects, pages

if TYPE_CHECKING:
    from tpuflex.gcp.kinds import Kind
    from tpuflex.gcp.transport import Api, JsonObject

#: Said of a zone that holds nothing.
_NOTHING = "NO_RESULTS_ON_PAGE"


def listed_everywhere(
    api: Api, kind: Kind, project: str
) -> Iterator[tuple[tuple[CloudResource, ...], tuple[str, ...]]]:
    """For each page, the resources of ``kind``, and the places that could not be looked into.

    Raises:
        AccessError, ApiError: the list is refused.
    """
    for page in pages(api, kind.everywhere.format(project=project)):
        items = page.get("items")
        found: list[CloudResource] = []
        unseen: list[str] = []
        for scope, held in (items if isinstance(items, dict) else {}).items():
            place = str(scope).rpartition("/")[2]
            if not isinstance(held, dict):
                continue
            values: dict[str, str] = {"project": project, kind.location: place}
            found += [
                _resource(kind, entry, values, place) for entry in objects(held, kind.plural_key)
            ]
            warning = held.get("warning")
            if isinstance(warning, dict) and warning.get("code") != _NOTHING:
                unseen.append(place)
        yield tuple(found), tuple(unseen)


def _resource(kind: Kind, entry: JsonObject, values: dict[str, str], place: str) -> CloudResource:
    name = short_name(entry)
    id_ = kind.id.format_map({**values, "name": name})
    return described(kind, entry, name=name, place=place, id_=id_)
