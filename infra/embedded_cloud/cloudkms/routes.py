"""The Cloud KMS v1 methods that are emulated."""

from __future__ import annotations

from embedded_cloud.cloudkms.handlers import KeyHandlers
from embedded_cloud.cloudkms.state import Keys
from embedded_cloud.iam.policies import Policies
from embedded_cloud.routing import Context, Service


def service(context: Context) -> Service:
    """Cloud KMS: key rings, keys, their versions and their policies."""
    policies = Policies(context.store, context.clock, context.strictness)
    keys = KeyHandlers(Keys(context.store, context.clock), policies)
    rings = "cloudkms.projects.locations.keyRings"
    return Service(
        name="cloudkms",
        version="v1",
        handlers={
            f"{rings}.create": keys.create_ring,
            f"{rings}.list": keys.list_rings,
            f"{rings}.get": keys.get_ring,
            f"{rings}.getIamPolicy": keys.get_ring_policy,
            f"{rings}.setIamPolicy": keys.set_ring_policy,
            f"{rings}.cryptoKeys.create": keys.create,
            f"{rings}.cryptoKeys.list": keys.list,
            f"{rings}.cryptoKeys.get": keys.get,
            f"{rings}.cryptoKeys.patch": keys.patch,
            f"{rings}.cryptoKeys.getIamPolicy": keys.get_policy,
            f"{rings}.cryptoKeys.setIamPolicy": keys.set_policy,
            f"{rings}.cryptoKeys.cryptoKeyVersions.list": keys.list_versions,
            f"{rings}.cryptoKeys.cryptoKeyVersions.get": keys.get_version,
            f"{rings}.cryptoKeys.cryptoKeyVersions.destroy": keys.destroy_version,
        },
    )
