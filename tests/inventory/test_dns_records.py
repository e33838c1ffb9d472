"""A DNS zone is emptied before it is deleted; what belongs to the zone itself stays."""

from __future__ import annotations

from tests.operate.marked_things import NAMES, STATE, Api, clients, maker
from tpuflex.inventory.kinds import of_type
from tpuflex.inventory.listing import list_all
from tpuflex.inventory.removal import remove
from tpuflex.naming import DNS_ZONE_ROLES

NAME = NAMES.compute(DNS_ZONE_ROLES[0])
ZONES = "/dns/v1/projects/p/managedZones"
#: By its id, which a new zone of the name would not have.
ZONE = f"{ZONES}/123"


def test_a_zone_is_emptied_before_it_is_deleted() -> None:
    """Google refuses to delete a zone with records; its own NS and SOA cannot be deleted."""
    zone = {"id": "123", "name": NAME, "dnsName": "gcr.io.", "labels": {**NAMES.labels(STATE)}}
    records = [
        {"name": "gcr.io.", "type": "NS"},
        {"name": "gcr.io.", "type": "SOA"},
        {"name": "gcr.io.", "type": "A"},
        {"name": "*.gcr.io.", "type": "CNAME"},
        {"name": "x.gcr.io.", "type": "NS"},
    ]
    dns = Api(
        {
            f"GET {ZONES}": {"managedZones": [zone]},
            f"GET {ZONES}/{NAME}": zone,
            f"GET {ZONE}": zone,
            f"GET {ZONE}/rrsets": {"rrsets": records},
        }
    )
    apis = clients(dns=dns)
    (found,) = list_all(apis, "p", ()).resources
    assert found.kind is of_type("gcp:dns/managedZone:ManagedZone")

    remove(found, maker(), apis, lambda _: "")

    assert [call for call in dns.calls if call.startswith("DELETE")] == [
        f"DELETE {ZONE}/rrsets/gcr.io./A",
        f"DELETE {ZONE}/rrsets/%2A.gcr.io./CNAME",
        f"DELETE {ZONE}/rrsets/x.gcr.io./NS",
        f"DELETE {ZONE}",
    ]
