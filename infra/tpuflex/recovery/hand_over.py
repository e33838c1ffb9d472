"""What a recovery says of a slice that was to take over from another one. Pure."""

from __future__ import annotations

from collections.abc import Collection

from tpuflex.engine.state import Stored, is_reminder, living, resources
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.queued_resource.outputs import TAKES_OVER_FROM


def taking_over(deployment: Stored, urns: Collection[str]) -> Stored:
    """``deployment`` in which the queued resources ``urns``, adopted in the place of others that
    are still to be deleted, take over from those: whether they serve, nobody has waited for. The
    next `up` does, and deletes what serves after that (docs/adr/0036)."""

    def change(resource: Stored) -> Stored:
        urn, outputs = resource["urn"], resource.get("outputs")
        if urn not in urns or not outputs or resource is not living(deployment, urn):
            return resource
        names = _replaced(deployment, urn, str(resource.get("id")))
        if resource["type"] != QUEUED_RESOURCE or not names:
            return resource
        known = outputs.get(TAKES_OVER_FROM) or ()
        return {
            **resource,
            "outputs": {**outputs, TAKES_OVER_FROM: [*dict.fromkeys((*known, *names))]},
        }

    return {**deployment, "resources": [change(each) for each in resources(deployment)]}


def _replaced(deployment: Stored, urn: str, id_: str) -> list[str]:
    """Names of the requests under ``urn`` that are to be deleted once ``id_`` serves."""
    found = (
        str(name)
        for each in resources(deployment)
        if each["urn"] == urn and each.get("delete") and not is_reminder(each)
        for name in (each.get("id"), *((each.get("outputs") or {}).get("requests") or ()))
        if name
    )
    return [name for name in dict.fromkeys(found) if name != id_]
