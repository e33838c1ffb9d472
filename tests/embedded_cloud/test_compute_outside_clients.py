"""Instances through Google's own Python client."""

from __future__ import annotations

from typing import Any

import pytest
from google.oauth2.credentials import Credentials
from googleapiclient import discovery
from googleapiclient.errors import HttpError

from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import PROJECT, TOKEN, Api
from tests.embedded_cloud.compute_api import REGION, SUBNETWORK, insert, instance

_WHERE: dict[str, Any] = {"project": PROJECT, "zone": "us-east5-a"}


def test_an_instance_from_insert_to_delete(net: Api, cloud: EmbeddedCloud) -> None:
    """Made, waited for, listed in pages, read, deleted, and not found."""
    insert(net, f"{REGION}/subnetworks", SUBNETWORK)
    with discovery.build(
        "compute",
        "v1",
        credentials=Credentials(TOKEN),  # type: ignore[no-untyped-call]
        client_options={"api_endpoint": f"{cloud.url}/compute/v1/"},
        cache_discovery=False,
    ) as compute:
        _from_insert_to_delete(compute)


def _from_insert_to_delete(compute: Any) -> None:
    instances = compute.instances()
    for name in ("vm-1", "vm-2"):
        begun = instances.insert(**_WHERE, body=instance(name)).execute()
        ended = compute.zoneOperations().wait(**_WHERE, operation=begun["name"]).execute()
        assert (ended["status"], "error" in ended) == ("DONE", False)
    request = instances.list(**_WHERE, maxResults=1)
    names = []
    while request is not None:
        page = request.execute()
        names += [each["name"] for each in page["items"]]
        request = instances.list_next(request, page)
    assert names == ["vm-1", "vm-2"]
    everywhere = instances.aggregatedList(project=PROJECT).execute()["items"]
    assert len(everywhere["zones/us-east5-a"]["instances"]) == 2
    assert instances.get(**_WHERE, instance="vm-1").execute()["status"] == "RUNNING"
    with pytest.raises(HttpError, match="Guest Attribute"):
        instances.getGuestAttributes(**_WHERE, instance="vm-1", queryPath="a/").execute()
    instances.delete(**_WHERE, instance="vm-1").execute()
    with pytest.raises(HttpError, match="was not found"):
        instances.get(**_WHERE, instance="vm-1").execute()
