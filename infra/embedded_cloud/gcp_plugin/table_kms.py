"""Cloud KMS types. Properties as in pulumi-gcp 10.2.0, places as in cloudkms v1.

What a delete does: terraform-provider-google,
google/services/kms/resource_kms_{key_ring,crypto_key}.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from embedded_cloud.core.json_types import JsonObject, children, text
from embedded_cloud.gcp_plugin.call import CloudCall
from embedded_cloud.gcp_plugin.collection import Collection, Step
from embedded_cloud.gcp_plugin.fields import DELETION_POLICY, PROJECT, Group, Groups, Property, Use
from embedded_cloud.gcp_plugin.policies import GET_IAM_POLICY, SET_IAM_POLICY, IamMember, iam_member
from embedded_cloud.gcp_plugin.resource_type import Identity, Made, ManagedMap, ResourceType
from embedded_cloud.gcp_plugin.types import Flag, TextMap
from pulumi_plugin.values import Properties, Value


@dataclass(frozen=True, slots=True)
class KeyRings(Collection):
    """Key rings, which Google never deletes: the plugin forgets them."""

    def delete(self, row: ResourceType, made: Made, call: CloudCall) -> None:
        """Nothing: the ring stays."""


@dataclass(frozen=True, slots=True)
class CryptoKeys(Collection):
    """Keys, which Google never deletes either: the plugin destroys their versions."""

    def _post(
        self, row: ResourceType, values: Properties, body: JsonObject, call: CloudCall
    ) -> JsonObject:
        period = body.get("rotationPeriod")
        if isinstance(period, str) and period:
            # The plugin computes it: resourceKMSCryptoKeyEncoder.
            next_one = datetime.now(UTC) + timedelta(seconds=float(period.removesuffix("s")))
            body = {**body, "nextRotationTime": next_one.strftime("%Y-%m-%dT%H:%M:%SZ")}
        return Collection._post(self, row, values, body, call)

    def delete(self, row: ResourceType, made: Made, call: CloudCall) -> None:
        """Destroy every version, and end the rotation."""
        path = self._path(row, made)
        for version in children(
            call.request("GET", f"{path}/cryptoKeyVersions"), "cryptoKeyVersions"
        ):
            if text(version, "state") == "ENABLED":
                call.request("POST", f"/v1/{text(version, 'name')}:destroy", body={})
        mask = {"updateMask": "rotationPeriod,nextRotationTime"}
        call.request("PATCH", path, query=mask, body={})


@dataclass(frozen=True, slots=True)
class _Alone(Groups):
    """A list of the one object that the API has."""

    def from_wire(self, value: object) -> Value:
        """That object in a list."""
        return Groups.from_wire(self, [value]) if isinstance(value, dict) else None


_PRIMARIES = _Alone((Property("name", use=Use.OUTPUT), Property("state", use=Use.OUTPUT)))

KEY_RING = ResourceType(
    token="gcp:kms/keyRing:KeyRing",  # noqa: S106 - a type token
    title="KeyRing",
    properties=(
        Property("name", use=Use.CHOSEN, immutable=True, wire=""),
        PROJECT,
        Property("location", use=Use.REQUIRED, immutable=True, wire=""),
    ),
    identity=Identity(
        "projects/{project}/locations/{location}/keyRings/{name}",
        ("{project}/{location}/{name}", "{location}/{name}"),
    ),
    behaviour=KeyRings(
        path="/v1/projects/{project}/locations/{location}/keyRings",
        item="/v1/projects/{project}/locations/{location}/keyRings/{name}",
        query={"keyRingId": "{name}"},
    ),
    autonamed="name",
)

CRYPTO_KEY = ResourceType(
    token="gcp:kms/cryptoKey:CryptoKey",  # noqa: S106
    title="CryptoKey",
    properties=(
        Property("name", use=Use.CHOSEN, immutable=True, wire=""),
        Property("keyRing", use=Use.REQUIRED, immutable=True, wire=""),
        DELETION_POLICY,
        Property("purpose", default="ENCRYPT_DECRYPT", immutable=True),
        Property("labels", TextMap()),
        Property("rotationPeriod"),
        Property("destroyScheduledDuration", use=Use.CHOSEN, immutable=True),
        Property("skipInitialVersionCreation", Flag(), immutable=True, wire=""),
        Property(
            "versionTemplate",
            Group(
                (
                    Property("algorithm", use=Use.REQUIRED),
                    Property("protectionLevel", default="SOFTWARE", immutable=True),
                )
            ),
            use=Use.CHOSEN,
        ),
        Property("primaries", _PRIMARIES, use=Use.OUTPUT, wire="primary"),
        Property("effectiveLabels", TextMap(), use=Use.OUTPUT, wire=""),
        Property("pulumiLabels", TextMap(), use=Use.OUTPUT, wire=""),
    ),
    identity=Identity("{keyRing}/cryptoKeys/{name}", deep=("keyRing",)),
    behaviour=CryptoKeys(
        path="/v1/{keyRing}/cryptoKeys",
        item="/v1/{keyRing}/cryptoKeys/{name}",
        query={"cryptoKeyId": "{name}"},
        steps=(Step(mask="query"),),
    ),
    autonamed="name",
    maps=(ManagedMap("labels", "effectiveLabels", "pulumiLabels"),),
    unserved=("cryptoKeyBackend", "importOnly", "keyAccessJustificationsPolicy"),
)

CRYPTO_KEY_IAM_MEMBER = iam_member(
    "gcp:kms/cryptoKeyIAMMember:CryptoKeyIAMMember",
    Property("cryptoKeyId", use=Use.REQUIRED, immutable=True),
    IamMember(
        target="cryptoKeyId",
        prefix="projects/",
        reading=GET_IAM_POLICY,
        writing=SET_IAM_POLICY,
    ),
)

TYPES = (KEY_RING, CRYPTO_KEY, CRYPTO_KEY_IAM_MEMBER)
