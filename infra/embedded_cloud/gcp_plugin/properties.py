"""Properties that several resource types have."""

from __future__ import annotations

from embedded_cloud.gcp_plugin.fields import Group, Property, Use
from embedded_cloud.gcp_plugin.types import PropertyType, Reference, Segment, Text

NETWORK_LINK = Reference(path="projects/{project}/global/networks/{}")
SUBNETWORK_LINK = Reference(path="projects/{project}/regions/{region}/subnetworks/{}")

NAME = Property("name", use=Use.CHOSEN, immutable=True)
PROJECT = Property("project", use=Use.CHOSEN, immutable=True, wire="")
REGION = Property("region", Segment(), use=Use.CHOSEN, immutable=True, wire="")

#: The published plugin's own switch; the API never sees it.
DELETION_POLICY = Property("deletionPolicy", use=Use.CHOSEN, default="DELETE", wire="")

SELF_LINK = Property("selfLink", use=Use.OUTPUT)
CREATION_TIMESTAMP = Property("creationTimestamp", use=Use.OUTPUT)

ROLE = Property("role", use=Use.REQUIRED, immutable=True)
MEMBER = Property("member", use=Use.REQUIRED, immutable=True)
CONDITION = Property(
    "condition",
    Group(
        (
            Property("title", use=Use.REQUIRED),
            Property("expression", use=Use.REQUIRED),
            Property("description"),
        )
    ),
    immutable=True,
)
ETAG = Property("etag", use=Use.OUTPUT)


def chosen(name: str, type_: PropertyType | None = None, wire: str | None = None) -> Property:
    """A property whose value the cloud chooses when the program sets none."""
    return Property(name, type_ or Text(), use=Use.CHOSEN, wire=wire)
