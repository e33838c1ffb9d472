"""The two custom methods of subnetworks: wire format only."""

from __future__ import annotations

import ipaddress

from embedded_cloud.compute.errors import invalid
from embedded_cloud.compute.handlers import KindHandlers
from embedded_cloud.json_types import flag, text
from embedded_cloud.routing import Call, Reply


class SubnetworkHandlers:
    """Answers of setPrivateIpGoogleAccess and expandIpCidrRange."""

    def __init__(self, subnetworks: KindHandlers) -> None:
        self._subnetworks = subnetworks

    def set_private_google_access(self, call: Call) -> Reply:
        """POST …/setPrivateIpGoogleAccess."""
        wanted = flag(call.body or {}, "privateIpGoogleAccess")
        verb = "setPrivateIpGoogleAccess"
        return self._subnetworks.change_fields(call, {"privateIpGoogleAccess": wanted}, verb)

    def expand_range(self, call: Call) -> Reply:
        """POST …/expandIpCidrRange: a range only ever grows around what it was."""
        wanted = text(call.body or {}, "ipCidrRange")
        present = text(self._subnetworks.stored(call), "ipCidrRange")
        try:
            grows = ipaddress.IPv4Network(wanted).supernet_of(ipaddress.IPv4Network(present))
        except ValueError as error:
            raise invalid("ipCidrRange", wanted, f"Must be a CIDR range: {error}.") from error
        if not grows or wanted == present:
            raise invalid("ipCidrRange", wanted, f"Must contain and be larger than {present}.")
        return self._subnetworks.change_fields(call, {"ipCidrRange": wanted}, "expandIpCidrRange")
