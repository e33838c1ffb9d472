"""A DNS zone is emptied before it is deleted; what belongs to the zone itself stays."""

from __future__ import annotations

from tests.operate.marked_things import NAMES, Api, clients
from tpuflex.gcp.kinds import of_type
from tpuflex.gcp.listing import list_marked
from tpuflex.gcp.removal import remove

ZONE = "/dns/v1/projects/p/managedZones/z"


def test_a_zone_is_emptied_before_it_is_deleted() -> None:
    """Google refuses to delete a zone with records; its own NS and SOA cannot be deleted."""
    zone = {"name": "z", "dnsName": "gcr.io.", "labels": {**NAMES.labels()}}
    records = [
        {"name": "gcr.io.", "type": "NS"},
        {"name": "gcr.io.", "type": "SOA"},
        {"name": "gcr.io.", "type": "A"},
        {"name": "*.gcr.io.", "type": "CNAME"},
        {"name": "x.gcr.io.", "type": "NS"},
    ]
    dns = Api(
        {
            "GET /dns/v1/projects/p/managedZones": {"managedZones": [zone]},
            f"GET {ZONE}": zone,
            f"GET {ZONE}/rrsets": {"rrsets": records},
        }
    )
    apis = clients(dns=dns)
    (found,) = list_marked(apis, "p", (), {}).resources
    assert found.kind is of_type("gcp:dns/managedZone:ManagedZone")

    remove(found, apis)

    assert [call for call in dns.calls if call.startswith("DELETE")] == [
        f"DELETE {ZONE}/rrsets/gcr.io./A",
        f"DELETE {ZONE}/rrsets/%2A.gcr.io./CNAME",
        f"DELETE {ZONE}/rrsets/x.gcr.io./NS",
        f"DELETE {ZONE}",
    ]
