"""Files of Pulumi's state in a bucket of Cloud Storage: the backend ``gs://BUCKET[/PREFIX]``."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from tpuflex.gcp.paging import objects

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpuflex.gcp.transport import Api, JsonObject

#: Documents that are read of each place: a lock is one.
_MOST = 10


def documents_in(storage: Api, backend: str, places: Iterable[str]) -> tuple[JsonObject, ...]:
    """The JSON documents in a state's bucket.

    Args:
        storage: client of Cloud Storage.
        backend: URL of the backend (https://www.pulumi.com/docs/iac/concepts/state-and-backends/).
        places: directories below the backend's; those beneath them are not looked into.

    Raises:
        NotFoundError: there is no such bucket.
        AccessError, ApiError: it may not be read, or does not answer.
    """
    parts = urlsplit(backend)
    root = f"/storage/v1/b/{parts.netloc}/o"
    below = "".join(f"{part}/" for part in parts.path.split("/") if part)
    found = []
    for place in places:
        query = {"prefix": f"{below}{place}/", "delimiter": "/", "maxResults": str(_MOST)}
        listed = storage.call("GET", root, query=query)
        names = (str(item.get("name")) for item in objects(listed, "items"))
        found += [
            storage.call("GET", f"{root}/{quote(name, safe='')}", query={"alt": "media"})
            for name in names
            if name.endswith(".json")
        ]
    return tuple(found)
