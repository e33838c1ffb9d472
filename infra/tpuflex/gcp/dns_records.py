"""Record sets of a DNS zone, which have to be deleted before the zone is."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from tpuflex.errors import NotFoundError
from tpuflex.gcp.paging import objects, pages

if TYPE_CHECKING:
    from tpuflex.gcp.transport import Api

#: The API makes them with each zone and deletes them with it; at the zone's own name they cannot
#: be deleted (https://cloud.google.com/dns/docs/zones#delete-zone).
_OWN_TYPES = frozenset({"NS", "SOA"})


def delete_record_sets(zone: str, api: Api) -> None:
    """Delete every record set of the zone at the path ``zone`` but the zone's own.

    Raises:
        NotFoundError: there is no such zone.
        AccessError, ApiError: the API refuses.
    """
    own = api.call("GET", zone).get("dnsName")
    listed = [one for page in pages(api, f"{zone}/rrsets") for one in objects(page, "rrsets")]
    for record_set in listed:
        name, type_ = str(record_set.get("name")), str(record_set.get("type"))
        if type_ in _OWN_TYPES and name == own:
            continue
        try:
            api.call("DELETE", f"{zone}/rrsets/{quote(name, safe='')}/{type_}")
        except NotFoundError:
            continue
